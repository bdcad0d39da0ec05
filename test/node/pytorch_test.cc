// Real PyTorch under torchrun's elastic rendezvous. Not part of `make test`: its packages are gigabytes.
// Where they are is in MUSTER_PYTORCH (scripts/install-pytorch.sh).
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "fixture.h"

namespace muster::test {
namespace {

constexpr int kSteps = 800;

struct Loss {
  int attempt = 0;
  int workers = 0;
  int step = 0;
  double loss = 0;
};

class PyTorch : public Node {
 protected:
  void SetUp() override {
    Node::SetUp();
    if (IsSkipped()) return;
    if (std::getenv("MUSTER_PYTORCH") == nullptr)
      GTEST_SKIP() << "MUSTER_PYTORCH says nowhere where PyTorch is";
    auto& real = cluster().real();
    testcluster::ProcessSpec spec;
    spec.arguments = {"/usr/bin/python3",
                      std::string(MUSTER_SOURCE_DIR) + "/test/node/programs/names.py",
                      kNames,
                      real.server_url(),
                      real.ca_certificate(),
                      real.admin_certificate(),
                      real.admin_key()};
    spec.log = real.directory() / "logs/names.log";
    const auto id = testcluster::spawn(spec);
    ASSERT_TRUE(id) << id.error();
    names_ = *id;
  }
  void TearDown() override {
    testcluster::end_process(names_, 1s);
    Node::TearDown();
  }

  static json torch_job(const SimpleJob& job, std::vector<std::string> command,
                        const std::string& step_seconds) {
    json object = NodeCluster::train_job(job, {{"PYTHONPATH", "/torch:/programs"},
                                               {"OMP_NUM_THREADS", "1"},
                                               {"GLOO_SOCKET_IFNAME", "eth0"},
                                               {"STEPS", std::to_string(kSteps)},
                                               {"STEP_SECONDS", step_seconds}});
    json& pod = object["spec"]["roles"][0]["template"]["spec"];
    json& main = pod["containers"][0];
    command.emplace_back("/programs/torch_train.py");
    main["command"] = command;
    main["volumeMounts"].push_back({{"name", "torch"}, {"mountPath", "/torch"}, {"readOnly", true}});
    pod["volumes"].push_back({{"name", "torch"}, {"hostPath", {{"path", std::getenv("MUSTER_PYTORCH")}}}});
    pod["dnsPolicy"] = "None";
    pod["dnsConfig"] = {{"nameservers", {kNames}}};
    return object;
  }
  static std::vector<Loss> losses(const std::string& job) {
    std::vector<Loss> result;
    std::ifstream in(nodes_->state() / job / "losses");
    for (Loss l; in >> l.attempt >> l.workers >> l.step >> l.loss;) result.push_back(l);
    return result;
  }
  // Its last ten steps were computed by so many workers.
  static bool wait_workers(int attempt, int workers) {
    return cluster().wait(240s, [&] {
      const auto all = losses("torch");
      return all.size() >= 10 && std::all_of(all.end() - 10, all.end(), [&](const Loss& l) {
               return l.attempt == attempt && l.workers == workers;
             });
    });
  }
  static std::string say() {
    return cluster().job("torch").dump(2) +
           nodes_->kubectl({"-n", "team", "logs", "-l", "muster.dev/job=torch", "--tail=60", "--prefix"});
  }

  // The node's own address, where its pods reach the machine.
  static constexpr const char* kNames = "10.200.0.10";
  testcluster::ProcessId names_;
};

TEST_F(PyTorch, ShrunkGrownAndReclaimedItLearnsAsIfUndisturbed) {
  json job = torch_job(
      {.name = "torch",
       .spec = {{"framework", "PyTorch"}, {"elastic", {{"resize", "InPlace"}, {"growAfter", "2s"}}}}},
      {"python3", "-m", "torch.distributed.run"}, "0.15");
  json& role = job["spec"]["roles"][0];
  role.erase("replicas");
  role["minReplicas"] = 2;
  role["maxReplicas"] = 4;
  cluster().create(job);
  ASSERT_TRUE(wait_workers(1, 4)) << say();

  cluster().create(
      NodeCluster::train_job({.name = "takes-half", .ns = "owner", .gpus = 2}, {{"STEPS", "100000"}}));
  ASSERT_TRUE(wait_workers(1, 2)) << say();
  cluster().remove(path_of_job("takes-half", "owner"));
  ASSERT_TRUE(wait_workers(1, 4)) << say();

  // The same training by one process alone, to compare with.
  cluster().create(torch_job({.name = "reference", .ns = "owner", .gpus = 4}, {"python3"}, "0"));
  ASSERT_TRUE(cluster().wait_phase("reference", "Succeeded", 240s, "owner"));
  ASSERT_TRUE(wait_workers(2, 4)) << say();
  ASSERT_TRUE(cluster().wait_phase("torch", "Succeeded", 300s)) << cluster().job("torch").dump(2);

  const auto reference = losses("reference"), disturbed = losses("torch");
  ASSERT_EQ(reference.size(), static_cast<std::size_t>(kSteps));
  int before = 0;
  for (const Loss& l : disturbed) {
    EXPECT_LE(l.step, before + 1) << "steps were left out";
    before = l.step;
    EXPECT_NEAR(l.loss, reference[static_cast<std::size_t>(l.step) - 1].loss, 1e-4) << "step " << l.step;
  }
  EXPECT_EQ(before, kSteps);
  EXPECT_LT(disturbed.back().loss, 0.5 * disturbed.front().loss) << "it has learned something";
  const json status = cluster().job("torch")["status"];
  EXPECT_EQ(status["attempt"], 2);
  EXPECT_EQ(status["preemptions"], 1);
  EXPECT_EQ(status.value("/restarts/count"_json_pointer, 0), 0)
      << "no change of size is a fault of the program";
  Loss last;
  for (const Loss& l : disturbed) {
    if (l.attempt != last.attempt || l.workers != last.workers || l.step != last.step + 1)
      std::cout << "attempt " << l.attempt << ", " << l.workers << " workers, from step " << l.step
                << ": loss " << l.loss << " (alone " << reference[static_cast<std::size_t>(l.step) - 1].loss
                << "), before it step " << last.step << ": " << last.loss << '\n';
    last = l;
  }
  std::cout << "at the end, step " << last.step << ": loss " << last.loss << " (alone "
            << reference.back().loss << "); " << disturbed.size() << " steps computed\n";
}

}  // namespace
}  // namespace muster::test
