#include "muster/reconcilers/services/service_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/services/service_objects.h"
#include "services/sample_services.h"

namespace muster::reconcilers {
namespace {

using ::testing::HasSubstr;

constexpr crds::Time kNow{std::chrono::sys_days{std::chrono::year{2026} / 1 / 2}};

struct Fleet {
  std::vector<crds::TrainingJob> jobs;
  std::vector<ReplicaView> views;

  void add(bool placed, bool ready, std::string revision = "new", std::string reason = "") {
    crds::TrainingJob job;
    job.metadata.name = "chat-" + revision + "-" + std::to_string(jobs.size());
    job.metadata.labels[std::string(kRevisionLabel)] = revision;
    job.spec.roles.push_back(role("server", 2, 4, bare_template()));
    if (placed) job.status.assignment.attempt = 1;
    if (placed) job.status.allocated.gpu = crds::MilliGpu{8000};
    job.status.queue.reason = reason;
    job.status.queue.message = reason.empty() ? "" : "8 GPUs are missing";
    job.status.queue.position = static_cast<std::int32_t>(jobs.size() + 1);
    jobs.push_back(std::move(job));
    ready_.push_back(ready);
  }
  crds::InferenceServiceStatus status(const crds::InferenceService& service, RolloutMemory rollout = {},
                                      const Refused& refused = {},
                                      const std::optional<ScalingVerdict>& scaling = {},
                                      const RevisionsView* revisions = nullptr) {
    views.clear();
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      auto view = view_of(jobs[i], {}, "new");
      view.state.is_ready = ready_[i];
      view.ready_pods = ready_[i] ? 2 : 0;
      views.push_back(view);
    }
    return status_of(service, views, "new", refused, rollout, kNow, scaling, revisions);
  }

 private:
  std::vector<bool> ready_;
};

TEST(ServiceStatus, CountsAndSaysWhatWaits) {
  Fleet fleet;
  fleet.add(true, true);
  fleet.add(true, true);
  fleet.add(false, false, "new", "QuotaExceeded");
  const auto status = fleet.status(sample_service());
  EXPECT_EQ(status.replicas, 3);
  EXPECT_EQ(status.ready_replicas, 2);
  EXPECT_EQ(status.updated_replicas, 3);
  EXPECT_EQ(status.desired_replicas, 3);
  EXPECT_EQ(status.pods, "4/6");
  EXPECT_EQ(status.selector, "muster.dev/service=chat");
  EXPECT_EQ(status.allocated.gpu, crds::MilliGpu{16000});
  EXPECT_EQ(status.queue.reason, "QuotaExceeded");
  EXPECT_EQ(status.queue.message, "1 of 3 replicas wait, the first of them chat-new-2: 8 GPUs are missing");
  const auto* ready = crds::find_condition(status.conditions, "Ready");
  EXPECT_EQ(ready->status, crds::ConditionStatus::kTrue) << "it serves";
  EXPECT_THAT(ready->message, HasSubstr("2 of 3 replicas are ready; 1 of 3 replicas wait"));
  const auto* rolled = crds::find_condition(status.conditions, "RolledOut");
  EXPECT_EQ(rolled->status, crds::ConditionStatus::kTrue) << "no place for one more is no rollout";
  EXPECT_EQ(rolled->message, "all replicas are of revision new, and 1 of 3 have no place");
  fleet.add(true, true, "old");
  EXPECT_FALSE(crds::is_true(fleet.status(sample_service()).conditions, "RolledOut"));
}

TEST(ServiceStatus, ACanaryIsNoRolloutThatHasEndedAndSaysHowItEnds) {
  Fleet fleet;
  fleet.add(true, true, "old");
  fleet.add(true, true, "old");
  fleet.add(true, true);
  RevisionsView revisions;
  revisions.decision = {.target = "new", .stable = "old", .canary = crds::CanaryStatus{"new", 1, 0, {}}};
  for (const char* name : {"old", "new"}) {
    revisions.kept.emplace_back().name = name;
    revisions.kept.back().number = static_cast<std::int64_t>(revisions.kept.size());
  }
  auto service = sample_service();
  auto status = fleet.status(service, {}, {}, {}, &revisions);
  const auto rolled = [&] { return *crds::find_condition(status.conditions, "RolledOut"); };
  EXPECT_EQ(rolled().status, crds::ConditionStatus::kFalse);
  EXPECT_EQ(rolled().reason, "CanaryServes");
  EXPECT_THAT(rolled().message,
              HasSubstr("1 of 3 replicas are of revision new, and the others of revision old"));
  EXPECT_THAT(rolled().message, HasSubstr("kubectl muster rollout promote chat"));
  EXPECT_EQ(status.stable_revision, "old");
  ASSERT_EQ(status.revisions.size(), 2u);
  EXPECT_EQ(status.revisions[0].name, "new") << "the newest first";
  EXPECT_EQ(status.revisions[0].replicas, 1);
  EXPECT_EQ(status.revisions[1].ready_replicas, 2);

  // A canary that is all replicas is one all the same.
  revisions.decision.canary->replicas = 3;
  Fleet all;
  for (int i = 0; i < 3; ++i) all.add(true, true);
  status = all.status(service, {}, {}, {}, &revisions);
  EXPECT_EQ(rolled().reason, "CanaryServes");
  EXPECT_EQ(status.stable_revision, "old");
  revisions.decision.canary.reset();
  status = all.status(service, {}, {}, {}, &revisions);
  EXPECT_EQ(rolled().reason, "RolledOut");
  EXPECT_EQ(status.stable_revision, "new") << "it has all replicas, and they serve";
}

TEST(ServiceStatus, ACanaryBesideTheOnlyReplicaAndOneThatHasNoneSaySo) {
  auto service = sample_service();
  service.spec.replicas = 1;
  Fleet fleet;
  fleet.add(true, true, "old");
  fleet.add(true, true);
  RevisionsView revisions;
  revisions.decision = {.target = "new", .stable = "old", .canary = crds::CanaryStatus{"new", 1, 0, {}}};
  revisions.decision.beside = 1;
  auto status = fleet.status(service, {}, {}, {}, &revisions);
  const auto said = [&](const char* type) { return *crds::find_condition(status.conditions, type); };
  EXPECT_EQ(said("RolledOut").reason, "CanaryServes");
  EXPECT_THAT(said("RolledOut").message, HasSubstr("1 of 2 replicas are of revision new"));
  EXPECT_THAT(said("Ready").message, HasSubstr("2 of 2 replicas are ready"));
  EXPECT_EQ(status.desired_replicas, 1);

  service.spec.replicas = 0;
  revisions.decision.beside = 0;
  revisions.decision.canary->replicas = 0;
  revisions.decision.why_no_canary = "at size 0 there is none";
  status = Fleet{}.status(service, {}, {}, {}, &revisions);
  EXPECT_EQ(said("RolledOut").reason, "CanaryWaits");
  EXPECT_THAT(said("RolledOut").message, HasSubstr("no replica is of revision new: at size 0 there is none"));
  EXPECT_EQ(said("Reconciling").status, crds::ConditionStatus::kFalse) << "tools would wait for ever";
}

TEST(ServiceStatus, SaysHowFarAStartIsAndWhatIsWrongWithIt) {
  Fleet fleet;
  fleet.add(true, true);
  fleet.add(true, false);
  fleet.add(true, false);
  const auto starts = [](crds::TrainingJob& job, std::string reason, std::string message) {
    job.spec.start_timeout = std::chrono::minutes{30};
    job.status.conditions = {
        {"Admitted", crds::ConditionStatus::kTrue, 1, kNow - std::chrono::minutes{4}, "Admitted", ""},
        {"PodsReady", crds::ConditionStatus::kFalse, 1, kNow - std::chrono::hours{4}, std::move(reason),
         std::move(message)}};
  };
  starts(fleet.jobs[1], "Starting", "");
  starts(fleet.jobs[2], "ImageNotPulled", "pod chat-2 on node n: ErrImagePull: no");
  auto status = fleet.status(sample_service());
  auto ready = *crds::find_condition(status.conditions, "Ready");
  EXPECT_EQ(ready.reason, "Serving");
  EXPECT_EQ(ready.message,
            "1 of 3 replicas are ready; replica chat-new-2 starts since 2026-01-01T23:56:00Z, until "
            "2026-01-02T00:26:00Z at most (startTimeout 30m): ImageNotPulled: pod chat-2 on node n: "
            "ErrImagePull: no");

  Fleet none;
  none.add(true, false);
  starts(none.jobs[0], "OutOfGPUMemory", "pod chat-0 on node n: no memory");
  ready = *crds::find_condition(none.status(sample_service()).conditions, "Ready");
  EXPECT_EQ(ready.status, crds::ConditionStatus::kFalse);
  EXPECT_EQ(ready.reason, "OutOfGPUMemory");
  // It has given its places back, and waits to try again.
  Fleet later;
  later.add(false, false, "new", "BackingOff");
  starts(later.jobs[0], "OutOfGPUMemory", "startTimeout 30m is used up");
  ready = *crds::find_condition(later.status(sample_service()).conditions, "Ready");
  EXPECT_EQ(ready.reason, "OutOfGPUMemory");
  // It waits for something else by now.
  later.jobs[0].status.queue.reason = "QuotaExceeded";
  ready = *crds::find_condition(later.status(sample_service()).conditions, "Ready");
  EXPECT_EQ(ready.reason, "QuotaExceeded");
}

TEST(ServiceStatus, SaysWhyTheSpecIsNotInForce) {
  Fleet fleet;
  for (int i = 0; i < 3; ++i) fleet.add(true, true);
  RevisionsView revisions;
  revisions.decision = {.target = "new", .stable = "new", .is_aborted = true, .why_not_own = "b was aborted"};
  auto status = fleet.status(sample_service(), {}, {}, {}, &revisions);
  const auto rolled = [&] { return *crds::find_condition(status.conditions, "RolledOut"); };
  EXPECT_EQ(rolled().reason, "RolledBack");
  EXPECT_THAT(rolled().message, HasSubstr("b was aborted"));
  fleet.add(true, true, "b");
  status = fleet.status(sample_service(), {}, {}, {}, &revisions);
  EXPECT_EQ(rolled().reason, "CanaryAborted");
  EXPECT_EQ(rolled().status, crds::ConditionStatus::kFalse);
}

client::Ptr<client::Pod> ready_pod(const char* role_name, int index, bool ready = true) {
  auto pod = std::make_shared<client::Pod>();
  pod->labels = {{"muster.dev/attempt", "1"},
                 {"muster.dev/index", std::to_string(index)},
                 {"muster.dev/job", "j"},
                 {"muster.dev/role", role_name},
                 {"muster.dev/try", "0"}};
  pod->ready = ready;
  return pod;
}

TEST(ServiceStatus, CountsTheGroupsOfEachRoleThatAreReady) {
  auto service = with_roles(sample_service());
  service.spec.replicas = 2;
  auto job = *crds::from_json<crds::TrainingJob>(replica_json(service, "new", 0, "", true));
  job.status.assignment.attempt = 1;
  std::vector<client::Ptr<client::Pod>> pods;
  for (int i = 0; i < 3; ++i) pods.push_back(ready_pod("prefill", i, i != 1));
  for (int i = 0; i < 4; ++i) pods.push_back(ready_pod("decode", i, i != 3));
  auto view = view_of(job, pods, "new");
  EXPECT_EQ(view.ready_pods, 5);
  EXPECT_FALSE(view.state.is_ready) << "a set is ready when all of it is";
  auto status = status_of(service, {view}, "new", {}, {}, kNow, {});
  EXPECT_EQ(status.pods, "5/14");
  EXPECT_EQ(status.roles, (std::vector<crds::ServiceRoleStatus>{{"prefill", 2, 6}, {"decode", 1, 4}}))
      << "of the second group of decode one pod is missing";
  pods = {ready_pod("prefill", 0), ready_pod("decode", 1), ready_pod("decode", 2)};
  EXPECT_EQ(status_of(service, {view_of(job, pods, "new")}, "new", {}, {}, kNow, {}).roles[1].ready, 0)
      << "of two groups one pod each";

  auto renamed = service;
  renamed.spec.roles[0].name = "context";
  status = status_of(renamed, {view}, "newer", {}, {}, kNow, {});
  EXPECT_EQ(status.roles,
            (std::vector<crds::ServiceRoleStatus>{{"context", 0, 6}, {"decode", 1, 4}, {"prefill", 2, 0}}))
      << "as long as a replica has it";
  EXPECT_EQ(status_of(renamed, {}, "newer", {}, {}, kNow, {}).roles.size(), 2u);
  EXPECT_TRUE(status_of(sample_service(), {}, "new", {}, {}, kNow, {}).roles.empty());

  renamed.status = status;
  auto later = status;
  later.roles[1].ready = 2;
  EXPECT_TRUE(only_numbers_differ(status, later));
  later.roles.pop_back();
  EXPECT_FALSE(only_numbers_differ(status, later));
}

TEST(ServiceStatus, SaysWhatItsProjectDoesNotAllowAnyMoreInItsOwnWords) {
  Fleet fleet;
  fleet.add(true, true);
  auto service = sample_service();
  service.status = fleet.status(service);
  EXPECT_EQ(crds::find_condition(service.status.conditions, "PolicyViolation"), nullptr);
  auto& conditions = fleet.jobs[0].status.conditions;
  crds::set_condition(conditions,
                      {"PolicyViolation", crds::ConditionStatus::kTrue, 1, kNow, "PolicyViolation",
                       "spec.roles[0].template.spec.hostPID: true is not allowed"});
  service.status = fleet.status(service);
  const auto* said = crds::find_condition(service.status.conditions, "PolicyViolation");
  ASSERT_NE(said, nullptr);
  EXPECT_EQ(said->message, "spec.template.spec.hostPID: true is not allowed");
  EXPECT_EQ(in_terms_of_service("spec.roles: ask for 6 pods in all", service.spec),
            "spec.groupSize: asks for 6 pods in all");
  conditions.clear();
  service.status = fleet.status(service);
  EXPECT_EQ(crds::find_condition(service.status.conditions, "PolicyViolation")->reason, "Allowed");
}

TEST(ServiceStatus, NothingIsRolledOutBeforeAllReplicasAreThere) {
  Fleet fleet;
  fleet.add(true, true);
  EXPECT_FALSE(crds::is_true(fleet.status(sample_service()).conditions, "RolledOut"));
}

TEST(ServiceStatus, OnlyWhatAnotherReplicaCouldGiveBackIsALackOfRoom) {
  Fleet fleet;
  fleet.add(false, false, "new", "InsufficientCapacity");
  auto& job = fleet.jobs[0];
  crds::set_condition(job.status.conditions,
                      {"Admitted", crds::ConditionStatus::kFalse, 1, kNow, "InsufficientCapacity", ""});
  const auto lacks_room = [&](const char* reason) {
    job.status.queue.reason = reason;
    return view_of(job, {}, "new").state.lacks_room;
  };
  for (const char* reason : {"InsufficientCapacity", "Fragmented", "TopologyUnsatisfiable",
                             "FairShareReached", "LimitReached", "QuotaExceeded", "Reserved"})
    EXPECT_TRUE(lacks_room(reason)) << reason;
  for (const char* reason : {"", "NoMatchingNodes", "PolicyViolation", "InvalidSpec", "PodsForbidden",
                             "BackingOff", "QueueHeld", "NamespaceNotReady", "WaitingForVictims"})
    EXPECT_FALSE(lacks_room(reason)) << reason;
  EXPECT_EQ(view_of(job, {}, "new").state.waits_since, kNow);
  job.status.assignment.attempt = 1;
  EXPECT_FALSE(lacks_room("InsufficientCapacity")) << "it has its places";
}

TEST(ServiceStatus, APodIsOnItsWayOutForItsGracePeriodOrUntilItIsCollected) {
  client::Pod pod;
  EXPECT_FALSE(is_leaving(pod, true, kNow));
  EXPECT_TRUE(is_leaving(pod, false, kNow));
  pod.deleting = true;
  pod.deleted_at = std::chrono::duration_cast<std::chrono::seconds>(kNow.time_since_epoch()).count() + 30;
  EXPECT_TRUE(is_leaving(pod, true, kNow));
  EXPECT_TRUE(is_leaving(pod, false, kNow));
  EXPECT_FALSE(is_leaving(pod, true, kNow + std::chrono::seconds{30})) << "its node is away";
  EXPECT_FALSE(is_leaving(pod, false, kNow + std::chrono::seconds{30}));
  pod.phase = client::PodPhase::kFailed;
  EXPECT_FALSE(is_leaving(pod, false, kNow)) << "it holds nothing any more";
}

TEST(ServiceStatus, IsNotReadyForTheReasonThatKeepsItsFirstReplicaWaiting) {
  Fleet fleet;
  fleet.add(false, false, "new", "InsufficientCapacity");
  const auto status = fleet.status(sample_service());
  const auto* ready = crds::find_condition(status.conditions, "Ready");
  EXPECT_EQ(ready->status, crds::ConditionStatus::kFalse);
  EXPECT_EQ(ready->reason, "InsufficientCapacity");
}

TEST(ServiceStatus, ARolloutIsOverWhenAllServeAndStaysOverWhenOneRestarts) {
  auto service = sample_service();
  Fleet fleet;
  fleet.add(true, true, "old");
  for (int i = 0; i < 2; ++i) fleet.add(true, true);
  service.status = fleet.status(service);
  EXPECT_EQ(crds::find_condition(service.status.conditions, "RolledOut")->reason, "RollingOut");
  EXPECT_FALSE(rollout_before(service.status, "new").gives_way);
  service.status = fleet.status(service, {2, true});
  EXPECT_EQ(rollout_before(service.status, "new"), (RolloutMemory{2, true}));
  EXPECT_EQ(rollout_before(service.status, "newer"), (RolloutMemory{2, false}));
  Fleet done;
  for (int i = 0; i < 3; ++i) done.add(true, true);
  service.status = done.status(service);
  EXPECT_TRUE(crds::is_true(service.status.conditions, "RolledOut"));
  Fleet falls;
  for (int i = 0; i < 3; ++i) falls.add(true, i > 0);
  service.status = falls.status(service);
  EXPECT_TRUE(crds::is_true(service.status.conditions, "RolledOut"));
  EXPECT_EQ(service.status.ready_replicas, 2);
}

// What kstatus reads: Flux, Helm and others judge by nothing else.
TEST(ServiceStatus, SaysToToolsWhetherItIsStillRollingOutAndWhetherItEverWill) {
  auto service = sample_service();
  const auto is = [&](const char* type) { return crds::is_true(service.status.conditions, type); };
  const auto reason = [&](const char* type) {
    return crds::find_condition(service.status.conditions, type)->reason;
  };
  Fleet fleet;
  for (int i = 0; i < 3; ++i) fleet.add(true, false);
  service.status = fleet.status(service);
  EXPECT_TRUE(is("Reconciling"));
  EXPECT_EQ(reason("Reconciling"), "RollingOut");
  EXPECT_FALSE(is("Stalled"));
  Fleet done;
  for (int i = 0; i < 3; ++i) done.add(true, true);
  service.status = done.status(service);
  EXPECT_FALSE(is("Reconciling"));
  EXPECT_FALSE(is("Stalled"));

  service.status = Fleet{}.status(service, {}, {"NameTaken", "services nlp/chat exists"});
  EXPECT_TRUE(is("Stalled"));
  EXPECT_EQ(reason("Stalled"), "NameTaken");
  EXPECT_FALSE(is("Reconciling")) << "the first that is True would count";

  service.spec.replicas = 0;
  service.status = Fleet{}.status(service);
  EXPECT_TRUE(is("Ready")) << "with False they would wait for ever";
  EXPECT_FALSE(is("Reconciling"));
}

TEST(ServiceStatus, WhatItsReplicasAreToldOfTheSpecItTellsItsOwner) {
  Fleet fleet;
  fleet.add(false, false);
  crds::set_condition(fleet.jobs[0].status.conditions, {"Accepted", crds::ConditionStatus::kFalse, 1, kNow,
                                                        "InvalidSpec", "spec.roles[0].gpus.fraction: no"});
  auto status = fleet.status(sample_service());
  const auto* accepted = crds::find_condition(status.conditions, "Accepted");
  EXPECT_EQ(accepted->reason, "InvalidSpec");
  EXPECT_EQ(accepted->message, "spec.gpus.fraction: no") << "the field that its owner wrote";
  status = fleet.status(sample_service(), {}, {"NameTaken", "services nlp/chat exists"});
  EXPECT_EQ(crds::find_condition(status.conditions, "Accepted")->reason, "NameTaken");
}

TEST(ServiceStatus, WhoIsRefusedSaysWhatForAndNotThatItStarts) {
  const auto service = sample_service();
  const Refused taken{"NameTaken", "services nlp/chat exists"};
  auto status = Fleet{}.status(service, {}, taken);
  EXPECT_EQ(status.queue.reason, "NameTaken") << "the column REASON";
  EXPECT_EQ(status.queue.message, taken.message);
  const auto* ready = crds::find_condition(status.conditions, "Ready");
  EXPECT_EQ(ready->status, crds::ConditionStatus::kFalse);
  EXPECT_EQ(ready->reason, "NameTaken");
  EXPECT_EQ(ready->message, "0 of 3 replicas are ready; no replica is made: services nlp/chat exists");

  // What serves goes on; what waits does so for a reason that its owner can do less about.
  Fleet some;
  some.add(true, true);
  some.add(false, false, "new", "InsufficientCapacity");
  status = some.status(service, {}, taken);
  EXPECT_EQ(status.queue.reason, "NameTaken");
  EXPECT_EQ(status.queue.position, 0);
  ready = crds::find_condition(status.conditions, "Ready");
  EXPECT_EQ(ready->status, crds::ConditionStatus::kTrue);
  EXPECT_THAT(ready->message,
              HasSubstr("1 of 3 replicas are ready; no other is made: services nlp/chat exists; 1 of 2"));

  Fleet starts;
  starts.add(true, false);
  status = starts.status(service, {}, taken);
  EXPECT_EQ(crds::find_condition(status.conditions, "Ready")->reason, "Starting") << "one does";

  auto none = service;
  none.spec.replicas = 0;
  status = Fleet{}.status(none, {}, taken);
  EXPECT_EQ(crds::find_condition(status.conditions, "Ready")->reason, "NoReplicas");
  EXPECT_EQ(status.queue.reason, "NameTaken");

  auto mended = service;
  mended.status = Fleet{}.status(service, {}, taken);
  EXPECT_EQ(Fleet{}.status(mended).queue, crds::Waiting{});
}

TEST(ServiceStatus, TheSizeIsTheRecordOfWhatWasDecidedWhereItIsAutoscaled) {
  auto service = sample_service();
  EXPECT_EQ(crds::size_of(service), 3);
  auto& rule = service.spec.autoscaling.emplace();
  rule.min_replicas = 2;
  rule.max_replicas = 8;
  EXPECT_EQ(crds::size_of(service), 2) << "nothing was decided yet";
  service.status.desired_replicas = 5;
  EXPECT_EQ(crds::size_of(service), 5);
  EXPECT_EQ(disruption_budget_json(service)["spec"]["minAvailable"], 9);
  EXPECT_EQ(Fleet{}.status(service).desired_replicas, 5);
  EXPECT_EQ(Fleet{}.status(service).pods, "0/10");
  rule.max_replicas = 4;
  EXPECT_EQ(crds::size_of(service), 4);
  rule.max_replicas = 1;
  EXPECT_EQ(crds::size_of(service), 2) << "which the schema refuses";
}

TEST(ServiceStatus, SaysWhetherTheSizeFollowsTheLoad) {
  Fleet fleet;
  auto service = sample_service();
  const auto scaling = [&](const std::optional<ScalingVerdict>& verdict) {
    service.status = fleet.status(service, {}, {}, verdict);
    return *crds::find_condition(service.status.conditions, "ScalingActive");
  };
  EXPECT_EQ(scaling({}).reason, "ScalingDisabled");
  EXPECT_EQ(scaling({}).status, crds::ConditionStatus::kFalse);
  service.spec.autoscaling.emplace().max_replicas = 8;
  EXPECT_EQ(scaling({}).reason, "NotReadYet");
  EXPECT_EQ(scaling({}).status, crds::ConditionStatus::kUnknown);
  const auto read = scaling(ScalingVerdict{3, true, "ValidMetricFound", "3 wanted"});
  EXPECT_EQ(read.status, crds::ConditionStatus::kTrue);
  EXPECT_EQ(read.message, "3 wanted");
  EXPECT_EQ(scaling({}).reason, "ValidMetricFound") << "another process has not read yet";
  EXPECT_EQ(scaling(ScalingVerdict{3, false, "ReadingsFailed", ""}).status, crds::ConditionStatus::kFalse);
}

TEST(ServiceStatus, OnlyNumbersMayWait) {
  Fleet fleet;
  for (int i = 0; i < 3; ++i) fleet.add(true, i > 0);
  auto service = sample_service();
  const auto two = fleet.status(service);
  Fleet whole;
  for (int i = 0; i < 3; ++i) whole.add(true, true);
  EXPECT_FALSE(only_numbers_differ(two, whole.status(service))) << "RolledOut has come";
  service.status = two;
  Fleet one;
  for (int i = 0; i < 3; ++i) one.add(true, i > 1);
  EXPECT_TRUE(only_numbers_differ(two, one.status(service)));
}

}  // namespace
}  // namespace muster::reconcilers
