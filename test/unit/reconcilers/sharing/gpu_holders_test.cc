// Who makes the pods that hold GPUs, over an API server that takes its time.
#include "muster/reconcilers/sharing/gpu_holders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/client/testing/fake_transport.h"
#include "muster/client/testing/virtual_world.h"

namespace muster::reconcilers {
namespace {

using client::testing::FakeTransport;
using client::testing::VirtualWorld;
using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::SizeIs;

// A job with half of each of node n1's GPUs 0 and 1.
Object<crds::TrainingJob> sharer() {
  Object<crds::TrainingJob> job;
  job.meta = {"team", "train", "job-uid", "7"};
  job.value.metadata.ns = "team";
  job.value.metadata.name = "train";
  job.value.metadata.uid = "job-uid";
  crds::Role worker;
  worker.name = "worker";
  worker.replicas = 2;
  worker.gpus.emplace();
  worker.gpus->fraction = crds::MilliGpu{500};
  job.value.spec.roles = {worker};
  auto& a = job.value.status.assignment;
  a.attempt = 1;
  a.pool = "default";
  a.pods = {{"worker", 0, "n1", {0}, 0}, {"worker", 1, "n1", {1}, 0}};
  return job;
}

struct GpuHoldersTest : testing::Test {
  GpuHoldersTest() {
    server.set_latency(milliseconds{5}, milliseconds{5});
    server.set_handler([this](const client::HttpRequest& request) -> client::HttpResponse {
      if (request.method == client::Method::kGet) return {200, {}, own_pod.dump()};
      json made = json::parse(request.body);
      made["metadata"]["uid"] = "uid-" + std::to_string(bodies.size());
      made["metadata"]["resourceVersion"] = std::to_string(10 + bodies.size());
      bodies.push_back(made);
      return {201, {}, made.dump()};
    });
    caches.jobs.store().apply(sharer());
    client::Node node;
    node.meta = {"", "n1", "node-uid", "3"};
    caches.nodes.store().apply(node);
  }

  VirtualWorld world;
  FakeTransport server{world.env()};
  client::ApiClient api{world.env(), server};
  client::EventRecorder events{api, "muster.dev/controller", "test"};
  Caches caches{api};
  PlacementModel placement{[] {}};
  ReconcilerContext context{world.env(), api, events, caches, placement, seconds{1}};
  GpuHolders holders{context,
                     {.pods = {.ns = "muster-system", .image = {}, .pull_secrets = {}},
                      .own_pod = "muster-0",
                      .fallback_image = "muster:1"},
                     [](const client::Key&) {}};
  json own_pod = {{"metadata", {{"name", "muster-0"}}},
                  {"spec",
                   {{"containers", json::array({{{"image", "registry.example/muster:2"}}})},
                    {"imagePullSecrets", json::array({{{"name", "registry"}}})}}}};
  std::vector<json> bodies;  // of the pods that were made
};

struct Reconcile {
  static client::Task<void> run(GpuHolders* holders, client::Key gpu) {
    co_await holders->reconcile(std::move(gpu));
  }
};

// As after a restore into another cluster: the job loses such a place, and nobody would end the pod.
TEST_F(GpuHoldersTest, NoPodIsMadeOnANodeThatIsNotThere) {
  caches.nodes.store().erase(*caches.nodes.store().find("n1"));
  world.start(Reconcile::run(&holders, "n1/0"));
  world.run_for(seconds{1});
  EXPECT_THAT(bodies, SizeIs(0));
}

// Each of them finds no image yet and asks for Muster's own pod.
TEST_F(GpuHoldersTest, SharersThatStartTogetherNameEachPullSecretOnce) {
  world.start(Reconcile::run(&holders, "n1/0"));
  world.start(Reconcile::run(&holders, "n1/1"));
  world.run_for(seconds{1});
  ASSERT_THAT(bodies, SizeIs(2));
  for (const json& pod : bodies) {
    EXPECT_EQ(pod["spec"]["imagePullSecrets"], json::array({{{"name", "registry"}}}));
    EXPECT_EQ(pod["spec"]["containers"][0]["image"], "registry.example/muster:2");
  }
}

}  // namespace
}  // namespace muster::reconcilers
