// What the placement model counts as GPUs: what the pools name, of nodes and of pods, whenever it learns of
// either.
#include "muster/reconcilers/placement/placement_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "muster/reconcilers/pods/names.h"

namespace muster::reconcilers {
namespace {

constexpr crds::Time kStart{std::chrono::sys_days{std::chrono::year{2026} / 1 / 2}};

client::Node node(const std::string& name, client::Extended extended) {
  client::Node n;
  n.meta.name = name;
  n.ready = true;
  n.labels = {{"kind", name}};
  n.milli_cpu = 64'000;
  n.memory_bytes = std::int64_t{1} << 40;
  n.pods = 110;
  n.extended = std::move(extended);
  return n;
}
// Selects the node of that name.
crds::NodePool pool(const std::string& name, const std::string& resource, const std::string& node = "n1") {
  crds::NodePool p;
  p.metadata.name = name;
  p.spec.gpu_resource = resource;
  p.spec.is_default = name == "main";
  p.spec.node_selector.match_labels = {{"kind", node}};
  return p;
}
client::Pod running(const std::string& ns, const std::string& name, client::Extended asks) {
  client::Pod p;
  p.meta.ns = ns;
  p.meta.name = name;
  p.meta.uid = name + "-uid";
  p.node_name = "n1";
  p.phase = client::PodPhase::kRunning;
  p.milli_cpu = 1000;
  p.memory_bytes = std::int64_t{1} << 30;
  p.extended = std::move(asks);
  return p;
}
client::Ptr<client::Pod> shared(client::Pod pod) {
  return std::make_shared<const client::Pod>(std::move(pod));
}

struct Model : testing::Test {
  PlacementModel model{[] {}};

  std::int64_t free_gpus() const { return model.numbers_of_pool("main").free.gpu->value / 1000; }
  std::int64_t all_gpus() const { return model.numbers_of_pool("main").capacity.gpu->value / 1000; }

  // A Project `nlp` and what two jobs of eight GPUs a pod need to be placed.
  void add_project() {
    crds::Queue all;
    all.metadata.name = "all";
    model.queue(all, {});
    crds::Project project;
    project.metadata.name = "nlp";
    project.spec.queue = "all";
    model.project(project, {});
    model.charge_namespace("nlp", "nlp");
  }
  static crds::TrainingJob job(const std::string& name) {
    crds::TrainingJob j;
    j.metadata.ns = "nlp";
    j.metadata.name = name;
    j.metadata.generation = 1;
    crds::Role worker;
    worker.name = "worker";
    worker.replicas = 1;
    j.spec.roles.push_back(worker);
    return j;
  }
  static Translation wish() {
    Translation w;
    PodNeeds needs;
    needs.gpus = 8;
    needs.requests.cpu.value = 1000;
    needs.requests.memory.value = std::int64_t{1} << 30;
    w.needs = {needs};
    return w;
  }
  void waits(const crds::TrainingJob& job, const std::vector<client::Ptr<client::Pod>>& pods = {}) {
    Step step;
    step.status = job.status;
    step.wants_place = true;
    model.update(client::make_key("nlp", job.metadata.name), job, wish(), step, pods);
  }
};

TEST_F(Model, ForeignPodsHoldWhatThePoolsCallAGpu) {
  model.pool(pool("main", "amd.com/gpu"));
  model.node(node("n1", {{"amd.com/gpu", 8}}));
  const auto pod = shared(running("else", "p", {{"amd.com/gpu", 4}}));
  model.foreign_pod(pod);
  EXPECT_EQ(free_gpus(), 4);
  model.pod_gone(*pod);
  EXPECT_EQ(free_gpus(), 8);
}

// As they come and go, and in the bytes and numbers that they state.
TEST_F(Model, ForeignPodsHoldWhatElseTheyAskFor) {
  add_project();
  model.pool(pool("main", "nvidia.com/gpu"));
  model.node(node("n1", {{"nvidia.com/gpu", 8}, {"rdma/hca", 8}}));
  const auto pod = shared(running("else", "p", {{"rdma/hca", 1}}));
  model.foreign_pod(pod);
  const auto j = job("j");
  Translation on_rdma = wish();
  on_rdma.needs[0].requests.named = {{"rdma/hca", 8}};
  Step step;
  step.status = j.status;
  step.wants_place = true;
  model.update("nlp/j", j, on_rdma, step, {});
  model.plan(kStart);
  ASSERT_TRUE(model.verdict("nlp/j"));
  EXPECT_EQ(model.verdict("nlp/j")->blocking[0].resource, "rdma/hca");
  EXPECT_EQ(model.verdict("nlp/j")->blocking[0].have, "7");
}

TEST_F(Model, AQuotaOfAResourceKnownByNameIsInTheNumbers) {
  add_project();
  crds::Project project;
  project.metadata.name = "nlp";
  project.spec.queue = "all";
  project.spec.quota.resources = {{"rdma/hca", 4}, {"hugepages-2Mi", std::int64_t{1} << 30}};
  model.project(project, {});
  model.pool(pool("main", "nvidia.com/gpu"));
  model.node(node("n1", {{"hugepages-2Mi", std::int64_t{4} << 30}, {"nvidia.com/gpu", 8}, {"rdma/hca", 8}}));
  const auto j = job("j");
  Translation on_rdma = wish();
  on_rdma.needs[0].requests.named = {{"rdma/hca", 8}, {"hugepages-2Mi", std::int64_t{2} << 30}};
  Step step;
  step.status = j.status;
  step.wants_place = true;
  model.update("nlp/j", j, on_rdma, step, {});
  model.plan(kStart);
  const TreeNumbers numbers = model.numbers_of_project("nlp");
  const crds::NamedAmounts all = {{"hugepages-2Mi", std::int64_t{2} << 30}, {"rdma/hca", 8}};
  EXPECT_EQ(numbers.allocated.resources, all);
  EXPECT_EQ(numbers.borrowed.resources,
            (crds::NamedAmounts{{"hugepages-2Mi", std::int64_t{1} << 30}, {"rdma/hca", 4}}));
  EXPECT_EQ(numbers.fair_share.resources, all);
  EXPECT_EQ(model.numbers_of_queue("all").allocated.resources, all);
  EXPECT_EQ(model.numbers_of_queue("all").fair_share.resources, crds::NamedAmounts{}) << "it states no quota";
  EXPECT_EQ(numbers.fair_share.cpu, std::nullopt) << "no quota accounts for CPUs";
  EXPECT_EQ(numbers.fair_share.memory, std::nullopt);
  EXPECT_EQ(model.numbers_of_pool("main").free.resources,
            (crds::NamedAmounts{{"hugepages-2Mi", std::int64_t{2} << 30}, {"rdma/hca", 0}}));
}

TEST_F(Model, WhyNobodyCanUseAResource) {
  model.pool(pool("main", "vendor/accelerator"));
  EXPECT_EQ(model.why_unused("rdma/hca"), "no node has any");
  model.node(node("n1", {{"rdma/hca", 8}}));
  model.node(node("n1", {{"rdma/hca", 8}}));
  EXPECT_EQ(model.why_unused("rdma/hca"), "");
  model.node(node("n1", {{"rdma/hca", 0}}));
  EXPECT_EQ(model.why_unused("rdma/hca"), "no node has any");
  model.node(node("n1", {{"rdma/hca", 8}}));
  model.node_gone(node("n1", {}));
  EXPECT_EQ(model.why_unused("rdma/hca"), "no node has any");
  EXPECT_EQ(model.pool_of_gpus("vendor/accelerator"), "main");
  EXPECT_EQ(model.pool_of_gpus("rdma/hca"), "");
}

TEST_F(Model, WhatPodsHoldIsCountedAnewWhenAPoolComesChangesAndGoes) {
  model.node(node("n1", {{"amd.com/gpu", 8}, {"nvidia.com/gpu", 4}}));
  model.foreign_pod(shared(running("else", "p", {{"amd.com/gpu", 3}, {"nvidia.com/gpu", 1}})));
  model.pool(pool("main", "amd.com/gpu"));
  EXPECT_EQ(all_gpus(), 8);
  EXPECT_EQ(free_gpus(), 5);
  model.pool(pool("main", "nvidia.com/gpu"));
  EXPECT_EQ(all_gpus(), 4);
  EXPECT_EQ(free_gpus(), 3);
  model.pool(pool("more", "amd.com/gpu", "n2"));
  EXPECT_EQ(all_gpus(), 12);
  EXPECT_EQ(free_gpus(), 8);
  model.pool_gone(pool("more", "amd.com/gpu", "n2"));
  EXPECT_EQ(all_gpus(), 4);
  EXPECT_EQ(free_gpus(), 3);
}

TEST_F(Model, APodThatWasGivenBackIsNotCountedAnew) {
  model.node(node("n1", {{"amd.com/gpu", 8}}));
  const auto pod = shared(running("else", "p", {{"amd.com/gpu", 3}}));
  model.foreign_pod(pod);
  client::Pod ended = *pod;
  ended.phase = client::PodPhase::kSucceeded;
  model.foreign_pod(shared(ended));
  model.pool(pool("main", "amd.com/gpu"));
  EXPECT_EQ(free_gpus(), 8);
}

TEST_F(Model, AReservationHoldsNoGpuOfItsOwnInAnyPool) {
  model.node(node("n1", {{"amd.com/gpu", 8}}));
  model.holder_pod(running("muster-system", "gpu-0", {{"amd.com/gpu", 1}}));
  model.pool(pool("main", "amd.com/gpu"));
  EXPECT_EQ(free_gpus(), 8);
}

// An evicted job's pod is still there: its GPUs are not free before it has gone, in pools of any resource.
TEST_F(Model, WhatAJobLeavesIsNotFreeBeforeItHasLeft) {
  model.pool(pool("main", "amd.com/gpu"));
  model.node(node("n1", {{"amd.com/gpu", 8}}));
  add_project();
  const auto victim = job("victim");
  client::Pod pod = running("nlp", "victim-worker-0-1", {{"amd.com/gpu", 8}});
  pod.labels = {{std::string(kAttemptLabel), "1"},
                {std::string(kIndexLabel), "0"},
                {std::string(kJobLabel), "victim"},
                {std::string(kRoleLabel), "worker"},
                {std::string(kTryLabel), "0"}};
  pod.annotations = {{std::string(kGpusAnnotation), "0,1,2,3,4,5,6,7"}};
  pod.deleting = true;
  waits(victim, {shared(pod)});
  waits(job("next"));
  model.plan(kStart);
  EXPECT_FALSE(model.decision("nlp/next")) << "the victim's pod still has the GPUs";
  EXPECT_TRUE(model.nomination("nlp/next")) << "they are its own as soon as it has gone";
  waits(victim);
  model.plan(kStart);
  ASSERT_TRUE(model.decision("nlp/next"));
  EXPECT_EQ(model.decision("nlp/next")->kind, JobDecision::Kind::kStart);
}

// A job `ends` that has the whole node, or had it, and its pod; `next` waits for the same GPUs. Whatever
// becomes of `ends`, `next` may start only when the pod has ended or is gone.
struct LingeringPods : Model {
  LingeringPods() {
    model.pool(pool("main", "amd.com/gpu"));
    model.node(node("n1", {{"amd.com/gpu", 8}}));
    add_project();
  }

  void add_second_node() {
    auto second = node("n2", {{"amd.com/gpu", 8}});
    second.labels = {{"kind", "n1"}};  // of the same pool
    model.node(second);
  }
  static client::Pod pod_of(const std::string& job, std::int32_t attempt = 1) {
    const auto name = job + "-worker-0-" + std::to_string(attempt);
    client::Pod pod = running("nlp", name, {{"amd.com/gpu", 8}});
    pod.labels = {{std::string(kAttemptLabel), std::to_string(attempt)},
                  {std::string(kIndexLabel), "0"},
                  {std::string(kJobLabel), job},
                  {std::string(kRoleLabel), "worker"},
                  {std::string(kTryLabel), "0"}};
    pod.annotations = {{std::string(kGpusAnnotation), "0,1,2,3,4,5,6,7"}};
    return pod;
  }
  static crds::TrainingJob admitted(const std::string& name) {
    auto j = job(name);
    auto& a = j.status.assignment;
    a.attempt = j.status.attempt = 1;
    a.generation = 1;
    a.pool = "main";
    a.admitted_at = kStart;
    a.pods = {{"worker", 0, "n1", {0, 1, 2, 3, 4, 5, 6, 7}, 0}};
    return j;
  }
  static crds::TrainingJob suspended(const std::string& name) {
    auto j = job(name);
    j.spec.suspend = true;
    return j;
  }
  void has(const crds::TrainingJob& job, const std::vector<client::Ptr<client::Pod>>& pods,
           std::vector<std::size_t> displaced = {}, bool settles = true) {
    Step step;
    step.status = job.status;
    step.settles = settles;
    step.displaced = std::move(displaced);
    model.update(client::make_key("nlp", job.metadata.name), job, wish(), step, pods);
  }
  void event(const crds::TrainingJob& job, const client::Pod& pod, bool is_new = false) {
    model.job_pod(client::make_key("nlp", job.metadata.name), job.status.assignment, shared(pod), is_new);
  }
  bool next_may_start() {
    if (!model.decision("nlp/next")) {
      waits(job("next"));
      model.plan(kStart);
    }
    const auto decision = model.decision("nlp/next");
    return decision && decision->kind == JobDecision::Kind::kStart;
  }
};

TEST_F(LingeringPods, AnEventOfAPodGivesNothingBackBeforeItHasEnded) {
  auto pod = pod_of("ends");
  has(suspended("ends"), {shared(pod)});
  EXPECT_FALSE(next_may_start());
  pod.deleting = true;
  event(suspended("ends"), pod);
  EXPECT_FALSE(next_may_start());
  pod.phase = client::PodPhase::kFailed;
  event(suspended("ends"), pod);
  EXPECT_TRUE(next_may_start());
}

// A LimitRange's defaults make a pod ask for more than its template. It is its job's all the same, and its
// place can be nominated. Of an attempt that nobody has seen it may have been made from another template.
TEST_F(LingeringPods, WhatAdmissionAddedMakesAPodNoStranger) {
  for (const bool seen : {true, false}) {
    auto pod = pod_of("ends");
    pod.milli_cpu += 250;
    pod.memory_bytes += 160 << 20;
    pod.deleting = true;
    if (seen) has(admitted("ends"), {shared(pod)});
    has(suspended("ends"), {shared(pod)});
    waits(job("ends"), {shared(pod)});  // it is resumed while its pod still saves
    waits(job("next"));
    model.plan(kStart);
    EXPECT_FALSE(model.decision("nlp/next"));
    EXPECT_EQ(model.nomination("nlp/next").has_value(), seen);
    model.forget("nlp/ends", {});
    model.forget("nlp/next", {});
    model.pod_gone(pod);
  }
}

TEST_F(LingeringPods, APodThatIsGoneHoldsNothing) {
  has(suspended("ends"), {shared(pod_of("ends"))});
  EXPECT_FALSE(next_may_start());
  model.pod_gone(pod_of("ends"));
  EXPECT_TRUE(next_may_start());
}

TEST_F(LingeringPods, APodThatNobodyExpectedIsChargedWhenItIsFirstSeen) {
  has(suspended("ends"), {});
  event(suspended("ends"), pod_of("ends"), true);
  EXPECT_FALSE(next_may_start());
  has(suspended("ends"), {});
  EXPECT_TRUE(next_may_start());
}

TEST_F(LingeringPods, APodOfTheAssignmentIsNotChargedTwice) {
  has(admitted("ends"), {});
  event(admitted("ends"), pod_of("ends"), true);
  EXPECT_EQ(free_gpus(), 0);
  has(admitted("ends"), {shared(pod_of("ends"))});
  EXPECT_EQ(free_gpus(), 0);
}

// Its node is lost to the job, and comes back while the job's new place is not written down yet.
TEST_F(LingeringPods, APodWhosePlaceIsLostHoldsItUntilItHasEnded) {
  add_second_node();
  auto away = node("n1", {{"amd.com/gpu", 8}});
  away.ready = false;
  model.node(away);
  has(admitted("ends"), {shared(pod_of("ends"))}, {0});
  model.plan(kStart);
  model.node(node("n1", {{"amd.com/gpu", 8}}));
  EXPECT_FALSE(next_may_start());
  model.pod_gone(pod_of("ends"));
  EXPECT_TRUE(next_may_start());
}

// Its node is lost, and no other has room: the job is evicted. Before that is written down the node is back,
// and the pod is there still.
TEST_F(LingeringPods, APodOfAJobToBeEvictedHoldsAPlaceThatWasLostForAWhile) {
  auto ends = admitted("ends");
  auto evicted = job("ends");
  ends.metadata.creation_timestamp = evicted.metadata.creation_timestamp = kStart;  // younger than `next`
  auto away = node("n1", {{"amd.com/gpu", 8}});
  away.ready = false;
  model.node(away);
  has(ends, {shared(pod_of("ends"))}, {0});
  model.plan(kStart);
  ASSERT_TRUE(model.decision("nlp/ends"));
  EXPECT_EQ(model.decision("nlp/ends")->kind, JobDecision::Kind::kEvict);
  model.node(node("n1", {{"amd.com/gpu", 8}}));
  has(ends, {shared(pod_of("ends"))});
  EXPECT_FALSE(next_may_start());
  waits(evicted, {shared(pod_of("ends"))});
  EXPECT_FALSE(next_may_start());
  model.pod_gone(pod_of("ends"));
  waits(evicted);
  EXPECT_TRUE(next_may_start());
}

// Its node is lost, and the elastic job is to go on without it. Before that is written down the node is back,
// and the pod is there still.
TEST_F(LingeringPods, AMemberThatIsToBeLeftOutHoldsAPlaceThatWasLostForAWhile) {
  add_second_node();
  auto elastic = admitted("ends");
  elastic.spec.roles[0].replicas.reset();
  elastic.spec.roles[0].min_replicas = 1;
  elastic.spec.roles[0].max_replicas = 2;
  elastic.status.assignment.pods.push_back({"worker", 1, "n2", {0, 1, 2, 3, 4, 5, 6, 7}, 0});
  auto second = pod_of("ends");
  second.meta.name = "ends-worker-1-1";
  second.labels[1].second = "1";
  ASSERT_EQ(second.labels[1].first, kIndexLabel);
  second.node_name = "n2";
  auto away = node("n1", {{"amd.com/gpu", 8}});
  away.ready = false;
  model.node(away);
  has(elastic, {shared(pod_of("ends")), shared(second)}, {0});
  model.plan(kStart);
  ASSERT_TRUE(model.decision("nlp/ends"));
  ASSERT_EQ(model.decision("nlp/ends")->kind, JobDecision::Kind::kShrink);
  model.node(node("n1", {{"amd.com/gpu", 8}}));
  has(elastic, {shared(pod_of("ends")), shared(second)}, {}, false);
  EXPECT_FALSE(next_may_start());
  model.pod_gone(pod_of("ends"));
  EXPECT_TRUE(next_may_start());
}

// It was charged as nobody's while its job could not be read; then it leaves, and is gone.
TEST_F(LingeringPods, WhatWasChargedAsAForeignPodIsNotChargedOnceMore) {
  auto pod = pod_of("ends");
  pod.deleting = true;
  model.foreign_pod(shared(pod));
  waits(job("ends"), {shared(pod)});
  EXPECT_FALSE(next_may_start());
  model.pod_gone(pod);
  waits(job("ends"));
  model.forget("nlp/ends", {});
  EXPECT_TRUE(next_may_start());
}

// A pod of an earlier try is left when an eviction is decided that is not written down yet.
TEST_F(LingeringPods, AStrayIsChargedWhileADecisionIsOnItsWay) {
  add_second_node();
  auto elastic = admitted("ends");
  elastic.spec.roles[0].replicas.reset();
  elastic.spec.roles[0].min_replicas = 1;
  elastic.spec.roles[0].max_replicas = 2;
  has(elastic, {});
  JobDecision evict;
  evict.kind = JobDecision::Kind::kEvict;
  model.decide("nlp/ends", evict);
  auto stray = pod_of("ends", 0);
  stray.node_name = "n2";
  has(elastic, {shared(stray)});
  EXPECT_FALSE(next_may_start()) << "n1 is the job's, n2 is the stray's";
  model.pod_gone(stray);
  EXPECT_TRUE(next_may_start());
}

// Whichever comes first, and when the pool says something else.
TEST_F(Model, TheMemoryOfGpusIsWhatTheLabelsOfThePoolSay) {
  client::Node amd = node("n1", {{"amd.com/gpu", 8}});
  amd.labels = {
      {"amd.com/gpu.product-name", "AMD_Instinct_MI300X_OAM"}, {"amd.com/gpu.vram", "192G"}, {"kind", "n1"}};
  model.node(amd);
  crds::NodePool stated = pool("main", "amd.com/gpu");
  model.pool(stated);
  EXPECT_EQ(model.gpu_memory_of("n1").value, 0);
  stated.spec.gpu_labels.emplace().memory = "amd.com/gpu.vram";
  model.pool(stated);
  EXPECT_EQ(model.gpu_memory_of("n1").value, std::int64_t{192} << 30);
  model.node(amd);
  EXPECT_EQ(model.gpu_memory_of("n1").value, std::int64_t{192} << 30);
  stated.spec.node_selector.match_labels = {{"kind", "n2"}};
  model.pool(stated);
  EXPECT_EQ(model.gpu_memory_of("n1").value, 0) << "the node is another pool's";
  stated.spec.node_selector.match_labels = {{"kind", "n1"}};
  model.pool(stated);
  model.pool_gone(stated);
  EXPECT_EQ(model.gpu_memory_of("n1").value, 0);
}

}  // namespace
}  // namespace muster::reconcilers
