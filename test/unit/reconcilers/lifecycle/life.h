// A job's life in small, for tests of advance().
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/reconcilers/lifecycle/job_status.h"
#include "muster/reconcilers/lifecycle/lifecycle.h"
#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/pods/pod_end.h"
#include "muster/reconcilers/pods/pod_identity.h"

namespace muster::reconcilers {

using client::PodPhase;
using crds::ConditionStatus;
using crds::Phase;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

inline constexpr crds::Time kStart{std::chrono::sys_days{std::chrono::year{2026} / 1 / 2}};

// One job, its pods and what is known about them: the API server in small. Pods are made and removed at once
// and whole unless a test does otherwise.
struct Life {
  crds::TrainingJob job;
  std::vector<client::Ptr<client::Pod>> pods;
  crds::Time now = kStart;
  std::optional<std::string> invalid, blocked;
  std::string invalid_reason = "InvalidSpec";
  std::optional<JobDecision> decision;
  std::optional<crds::Waiting> verdict;
  std::set<std::string> unusable_nodes;
  std::vector<GangReport> reports;
  std::optional<crds::Nomination> nomination;
  std::set<std::string> lost_nodes;
  std::map<std::string, NodeHealth> health;
  Idleness idleness;
  bool serves = false;
  DependencyVerdict dependencies;
  std::optional<Exposure> exposure;
  std::function<crds::MilliGpu(const crds::PodAssignment&)> charge;
  std::function<crds::MilliCpu(const crds::PodAssignment&)> cpus;
  std::function<crds::NamedAmounts(const crds::PodAssignment&)> named;

  explicit Life(std::int32_t workers = 2) {
    job.metadata.name = "llama";
    job.metadata.ns = "nlp";
    job.metadata.uid = "uid-1";
    job.metadata.generation = 1;
    crds::Role worker;
    worker.name = "worker";
    worker.replicas = workers;
    job.spec.roles.push_back(worker);
  }

  void add_role(std::string name, std::int32_t replicas) {
    crds::Role role;
    role.name = std::move(name);
    role.replicas = replicas;
    job.spec.roles.push_back(std::move(role));
  }

  Step look() const {
    Observed seen{.job = job, .pods = pods, .now = now, .invalid = invalid, .blocked = blocked};
    seen.invalid_reason = invalid_reason;
    seen.decision = decision ? &*decision : nullptr;
    seen.verdict = verdict ? &*verdict : nullptr;
    seen.reports = reports;
    seen.nomination = nomination ? &*nomination : nullptr;
    seen.serves = serves;
    seen.exposure = exposure;
    seen.charge = charge;
    seen.cpus = cpus;
    seen.named = named;
    seen.idleness = idleness;
    seen.dependencies = dependencies;
    seen.node_lost = [this](const std::string& node) { return lost_nodes.contains(node); };
    seen.health = [this](const std::string& node) {
      const auto found = health.find(node);
      return found == health.end() ? NodeHealth{} : found->second;
    };
    seen.node_usable = [this](const std::string& node) { return !unusable_nodes.contains(node); };
    return advance(seen);
  }

  void commit(const Step& step) {
    job.status = step.status;
    decision.reset();
  }

  void make(const crds::PodAssignment& place) {
    client::Pod pod;
    const auto attempt = job.status.assignment.attempt;
    pod.meta.name = pod_name("llama", place.role, place.index, attempt, place.tries);
    pod.meta.ns = "nlp";
    pod.meta.uid = pod.meta.name + "-uid" + std::to_string(++made_);
    pod.labels = {{std::string(kAttemptLabel), std::to_string(attempt)},
                  {std::string(kIndexLabel), std::to_string(place.index)},
                  {std::string(kJobLabel), "llama"},
                  {std::string(kRoleLabel), place.role},
                  {std::string(kTryLabel), std::to_string(place.tries)}};
    pod.node_name = place.node;
    pod.owner_uid = "uid-1";
    pod.created_at = now.time_since_epoch().count();
    pods.push_back(std::make_shared<const client::Pod>(std::move(pod)));
  }

  void remove(const std::string& uid) {
    std::erase_if(pods, [&](const auto& p) { return p->meta.uid == uid; });
  }

  void apply(const Step& step) {
    for (const auto& r : step.remove) remove(r.uid);
    for (const auto i : step.create) make(job.status.assignment.pods.at(i));
  }

  // One turn of the reconciler.
  Step turn() {
    Step step = look();
    commit(step);
    apply(step);
    return step;
  }
  Step after(seconds passed) {
    now += passed;
    return turn();
  }

  template <class Change>
  void change(const std::string& name, Change how) {
    const auto found =
        std::find_if(pods.begin(), pods.end(), [&](const auto& p) { return p->meta.name == name; });
    ASSERT_NE(found, pods.end()) << "no pod " << name;
    auto pod = std::make_shared<client::Pod>(**found);
    how(*pod);
    *found = pod;
  }
  void end(const std::string& name, PodPhase phase, std::int32_t code, std::string reason = "") {
    change(name, [&](client::Pod& p) {
      p.phase = phase;
      p.ready = false;
      p.reason = std::move(reason);
      p.ended = {{"main", code, code == 0 ? "Completed" : "Error", "", 0}};
    });
  }
  void fail(const std::string& name, std::int32_t code = 1) { end(name, PodPhase::kFailed, code); }
  void succeed(const std::string& name) { end(name, PodPhase::kSucceeded, 0); }
  void refuse(const std::string& name, std::string reason) {
    change(name, [&](client::Pod& p) {
      p.phase = PodPhase::kFailed;
      p.reason = std::move(reason);
      p.message = "Pod was rejected";
    });
  }
  void drop(const std::string& name) {
    std::erase_if(pods, [&](const auto& p) { return p->meta.name == name; });
  }
  void ready(const std::string& name, bool value = true) {
    change(name, [&](client::Pod& p) {
      p.phase = PodPhase::kRunning;
      p.ready = value;
    });
  }
  void all_ready() {
    for (const auto& name : names()) ready(name);
  }

  std::vector<std::string> names() const {
    std::vector<std::string> list;
    for (const auto& p : pods) list.push_back(p->meta.name);
    return list;
  }

  // What placement would say: worker i (and all further roles) on nodes of their own.
  JobDecision place(JobDecision::Kind kind = JobDecision::Kind::kStart) const {
    JobDecision d;
    d.kind = kind;
    d.generation = job.metadata.generation;
    d.pool = "a100";
    for (const auto& r : job.spec.roles) {
      for (std::int32_t i = 0; i < crds::least_replicas(r); ++i)
        d.places.push_back({r.name, i, "node-" + std::to_string(i), {0, 1}});
    }
    return d;
  }
  static JobDecision give_back(JobDecision::Kind kind, std::string reason, std::string message) {
    JobDecision d;
    d.kind = kind;
    d.reason = std::move(reason);
    d.message = std::move(message);
    return d;
  }

  void admit() {
    turn();
    decision = place();
    turn();
  }
  void run() {
    admit();
    all_ready();
    turn();
  }

  const crds::Condition& condition(std::string_view type) const {
    static const crds::Condition kNone{};
    const auto* c = crds::find_condition(job.status.conditions, type);
    EXPECT_NE(c, nullptr) << type;
    return c == nullptr ? kNone : *c;
  }
  ConditionStatus is(std::string_view type) const { return condition(type).status; }
  std::string reason(std::string_view type) const { return condition(type).reason; }
  std::string message(std::string_view type) const { return condition(type).message; }
  Phase phase() const { return job.status.phase.value_or(Phase::kQueued); }

 private:
  int made_ = 0;
};

// One role that may change its size.
struct Elastic : Life {
  explicit Elastic(std::int32_t least, std::int32_t most, crds::Resize resize = crds::Resize::kInPlace)
      : Life(1) {
    auto& role = job.spec.roles.front();
    role.replicas.reset();
    role.min_replicas = least;
    role.max_replicas = most;
    job.spec.elastic = crds::Elastic{.resize = resize};
  }

  JobDecision size(JobDecision::Kind kind, std::vector<std::int32_t> indexes, std::string reason = "",
                   std::string message = "") const {
    JobDecision d;
    d.kind = kind;
    d.generation = job.metadata.generation;
    d.attempt = job.status.assignment.attempt;
    d.pool = "a100";
    d.reason = std::move(reason);
    d.message = std::move(message);
    for (const auto i : indexes) d.places.push_back({"worker", i, "node-" + std::to_string(i), {0, 1}});
    return d;
  }
  void run_with(std::vector<std::int32_t> indexes) {
    turn();
    decision = size(JobDecision::Kind::kStart, std::move(indexes));
    turn();
    all_ready();
    turn();
    ASSERT_EQ(phase(), Phase::kRunning);
  }
  Step decide(const JobDecision& d) {
    decision = d;
    return turn();
  }
  std::vector<std::int32_t> indexes() const {
    std::vector<std::int32_t> list;
    for (const auto& p : job.status.assignment.pods) list.push_back(p.index);
    return list;
  }
  void edit() { ++job.metadata.generation; }
};

inline constexpr auto kTrue = ConditionStatus::kTrue;
inline constexpr auto kFalse = ConditionStatus::kFalse;
inline constexpr auto kUnknown = ConditionStatus::kUnknown;

// Nothing is left to write, make or remove.
inline void expect_quiet(const Life& life, const char* when) {
  const Step again = life.look();
  EXPECT_TRUE(again.status == life.job.status) << when << ": the same observation changes the status again";
  EXPECT_THAT(again.notes, IsEmpty()) << when;
}

inline std::vector<std::string> removed(const Step& step) {
  std::vector<std::string> list;
  for (const auto& r : step.remove) list.push_back(r.name);
  return list;
}

}  // namespace muster::reconcilers
