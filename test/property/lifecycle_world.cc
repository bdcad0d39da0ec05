#include "lifecycle_world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "muster/crds/crds.h"
#include "muster/reconcilers/lifecycle/job_status.h"
#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/pods/pod_end.h"

namespace muster::reconcilers::sim {

using client::PodPhase;
using std::chrono::minutes;
using std::chrono::seconds;

namespace {

// Nobody else has any of its places.
bool keeps(const crds::Nomination& promise, const std::set<std::pair<std::string, std::int32_t>>& taken) {
  for (const auto& p : promise.pods) {
    for (const auto g : p.gpus) {
      if (taken.contains({p.node, g})) return false;
    }
  }
  return true;
}

std::string checkpoint_text(int step) {
  return fmt::format(R"({{"checkpoint":{{"step":{},"uri":"/ckpt/{}"}}}})", step, step);
}

}  // namespace

LifecycleWorld::LifecycleWorld(std::uint64_t seed, Faults faults)
    : random_(seed), faults_(faults), now_(std::chrono::sys_days{std::chrono::year{2026} / 1 / 2}) {
  programs_end_ = chance(500);
  const auto nodes = 2 + pick(3);
  for (std::size_t n = 0; n < nodes; ++n) nodes_.push_back(fmt::format("node-{}", n));
  const auto jobs = 1 + pick(5);
  for (std::size_t j = 0; j < jobs; ++j) {
    SimJob s;
    s.job.metadata.name = fmt::format("job{}", j);
    s.job.metadata.ns = "ns";
    s.job.metadata.uid = fmt::format("uid-{}", j);
    s.job.metadata.generation = 1;
    const auto roles = 1 + pick(2);
    for (std::size_t r = 0; r < roles; ++r) {
      crds::Role role;
      role.name = r == 0 ? "worker" : "ps";
      role.replicas = static_cast<std::int32_t>(1 + pick(3));
      if (r == 0 || chance(500))
        role.gpus = crds::Gpus{.count = static_cast<std::int32_t>(1 + pick(3)), .models = {}};
      s.job.spec.roles.push_back(std::move(role));
    }
    if (auto& worker = s.job.spec.roles.front(); chance(300)) {
      worker.min_replicas = worker.replicas;
      worker.max_replicas = *worker.replicas + static_cast<std::int32_t>(1 + pick(2));
      worker.replicas.reset();
      s.job.spec.elastic =
          crds::Elastic{.resize = chance(700) ? crds::Resize::kInPlace : crds::Resize::kRestart};
    }
    s.job.spec.restart = {.limit = static_cast<std::int32_t>(pick(4)), .window = minutes{1 + pick(60)}};
    s.job.spec.start_timeout = minutes{1 + pick(10)};
    if (chance(300)) s.job.spec.max_runtime = minutes{5 + pick(120)};
    if (chance(200)) s.job.spec.ttl_after_finished = minutes{pick(60)};
    if (chance(300)) s.job.spec.completion.role = "worker";
    if (chance(300)) s.job.spec.completion.policy = crds::CompletionPolicy::kFirst;
    s.poisoned = chance(50);
    jobs_.push_back(std::move(s));
  }
  start_process();
}

// --- the controller

// A new process: lists everything, remembers nothing.
void LifecycleWorld::start_process() {
  memory_ = {};
  for (std::size_t j = 0; j < jobs_.size(); ++j) {
    memory_.jobs[j] = {jobs_[j].job, jobs_[j].version, jobs_[j].gone};
    memory_.dirty.insert(j);
    const auto& nominated = jobs_[j].job.status.nominated;
    if (!nominated.pods.empty()) memory_.promises[j] = nominated;
  }
  memory_.pods = pods_;
  for (const auto& [name, p] : pods_) memory_.reports[p.job].note(*p.pod, now_);
}

void LifecycleWorld::reconcile(std::size_t j) {
  ++totals_.reconciles;
  memory_.dirty.erase(j);
  memory_.wake.erase(j);
  const CachedJob seen_job = memory_.jobs.at(j);
  if (seen_job.gone) {
    memory_.decisions.erase(j);
    memory_.wants.erase(j);
    return;
  }
  std::vector<client::Ptr<client::Pod>> pods;
  for (const auto& [name, p] : memory_.pods) {
    if (p.job == j) pods.push_back(p.pod);
  }
  Observed seen{.job = seen_job.job, .pods = pods, .now = now_};
  const auto rejected = memory_.rejected.find(j);
  if (rejected != memory_.rejected.end() && rejected->second == seen_job.job.metadata.generation) {
    seen.invalid = "the API server refuses its pods";
  }
  if (jobs_[j].blocked) seen.blocked = "claim ns/data is not bound";
  const auto decision = memory_.decisions.find(j);
  if (decision != memory_.decisions.end()) seen.decision = &decision->second;
  const auto verdict = memory_.verdicts.find(j);
  if (verdict != memory_.verdicts.end()) seen.verdict = &verdict->second;
  seen.reports = memory_.reports[j].gangs();
  const auto promise = memory_.promises.find(j);
  const bool is_promised =
      promise != memory_.promises.end() && promise->second.generation == seen_job.job.metadata.generation;
  if (is_promised) seen.nomination = &promise->second;
  const Step step = advance(seen);
  check_step(j, seen, step);

  if (step.remove_job) {
    const auto answer = write([&] { jobs_[j].gone = true; });
    if (answer != Answer::kApplied) memory_.dirty.insert(j);
    return;
  }
  if (!commit(j, step, seen_job)) {
    memory_.dirty.insert(j);
    return;
  }
  tell_placement(j, step);
  bool ok = true;
  for (const auto& r : step.remove) {
    if (write([&] { remove_pod(r.name, r.uid); }) != Answer::kApplied) ok = false;
  }
  for (const auto i : step.create) {
    if (!ok || !still_wanted(j, step.status.assignment.attempt)) break;
    ok = make_pod(j, step.status.assignment.pods.at(i));
  }
  if (!ok) memory_.dirty.insert(j);
  if (step.wake_at) memory_.wake[j] = *step.wake_at;
}

bool LifecycleWorld::commit(std::size_t j, const Step& step, const CachedJob& seen) {
  const auto& before = seen.job.status;
  if (step.status == before) return true;
  if (before.conditions.empty() && step.wants_place && step.status.queue.reason.empty() &&
      step.status.assignment.attempt == 0) {
    return true;  // its first word waits for placement's
  }
  bool conflict = false;
  const auto answer = write([&] {
    SimJob& s = jobs_[j];
    conflict = s.gone || s.version != seen.version;
    if (conflict) return;
    const auto old = s.job.status;
    s.job.status = step.status;
    ++s.version;
    check_status(j, old, s.job.status);
  });
  if (conflict) ++totals_.conflicts;
  if (answer == Answer::kUnknown && !conflict) {
    // After an unknown outcome it reads before it acts again.
    if (faults_.give_back_on_unknown) {
      memory_.decisions.erase(j);
    } else {
      memory_.jobs[j] = {jobs_[j].job, jobs_[j].version, jobs_[j].gone};
      memory_.displaced.erase(j);  // what is read is charged at once, as it is
    }
    return false;
  }
  if (conflict || answer != Answer::kApplied) {
    memory_.decisions.erase(j);
    return false;
  }
  memory_.jobs[j].job.status = step.status;  // the answer is in the cache at once
  memory_.jobs[j].version = seen.version + 1;
  return true;
}

void LifecycleWorld::tell_placement(std::size_t j, const Step& step) {
  const bool holds = step.status.assignment.attempt != 0;
  memory_.wants[j] = step.wants_place && !holds;
  memory_.promises.erase(j);
  if (!step.status.nominated.pods.empty()) memory_.promises[j] = step.status.nominated;
  memory_.displaced[j] = step.displaced;
  const auto decision = memory_.decisions.find(j);
  if (decision == memory_.decisions.end()) return;
  const bool waits_for_start = !holds && step.wants_place &&
                               decision->second.kind == JobDecision::Kind::kStart &&
                               decision->second.generation == memory_.jobs[j].job.metadata.generation;
  if (!waits_for_start) memory_.decisions.erase(decision);
}

bool LifecycleWorld::still_wanted(std::size_t j, std::int32_t attempt) const {
  const auto& job = memory_.jobs.at(j);
  return !job.gone && !job.job.spec.suspend && job.job.status.assignment.attempt == attempt;
}

bool LifecycleWorld::make_pod(std::size_t j, const crds::PodAssignment& place) {
  const auto attempt = memory_.jobs[j].job.status.assignment.attempt;
  const auto name = pod_name(jobs_[j].job.metadata.name, place.role, place.index, attempt, place.tries);
  if (jobs_[j].poisoned) {
    memory_.rejected[j] = memory_.jobs[j].job.metadata.generation;
    JobDecision back;
    back.kind = JobDecision::Kind::kEvict;
    back.reason = "InvalidSpec";
    back.message = "spec.containers[0].image: Required value";
    memory_.decisions[j] = std::move(back);
    return false;
  }
  const auto answer = write([&] {
    if (pods_.contains(name)) return;  // a harmless conflict
    check_created(j, attempt, name);
    client::Pod pod;
    pod.meta = {"ns", name, fmt::format("pod-{}", ++uids_), "1"};
    pod.labels = {{std::string(kAttemptLabel), std::to_string(attempt)},
                  {std::string(kIndexLabel), std::to_string(place.index)},
                  {std::string(kJobLabel), jobs_[j].job.metadata.name},
                  {std::string(kRoleLabel), place.role},
                  {std::string(kTryLabel), std::to_string(place.tries)}};
    pod.node_name = place.node;
    pod.annotations = {{std::string(kGpusAnnotation), fmt::format("{}", fmt::join(place.gpus, ","))}};
    pod.owner_uid = jobs_[j].job.metadata.uid;
    const auto& resume = memory_.jobs[j].job.status.assignment.resume;
    totals_.resumes += resume.step ? 1 : 0;
    pods_[name] = {std::make_shared<const client::Pod>(std::move(pod)), j, attempt, place.gpus, resume};
    check_pods();
  });
  if (answer == Answer::kRefused) return false;
  if (const auto there = pods_.find(name); there != pods_.end())
    memory_.pods[name] = there->second;  // read after an unknown outcome
  memory_.dirty.insert(j);
  return answer == Answer::kApplied;
}

// What is taken, as this job sees it.
LifecycleWorld::Used LifecycleWorld::used(std::size_t for_job) const {
  Used all;
  const auto take = [&](const std::string& node, const std::vector<std::int32_t>& gpus) {
    for (const auto g : gpus) all.emplace(node, g);
  };
  for (const auto& [j, cached] : memory_.jobs) {
    if (cached.gone) continue;
    const auto& places = cached.job.status.assignment.pods;
    const auto displaced = memory_.displaced.find(j);
    for (std::size_t i = 0; i < places.size(); ++i) {
      const bool holds_nothing =
          displaced != memory_.displaced.end() &&
          std::find(displaced->second.begin(), displaced->second.end(), i) != displaced->second.end();
      if (!holds_nothing) take(places[i].node, places[i].gpus);
    }
  }
  for (const auto& [j, promise] : memory_.promises) {
    if (j == for_job) continue;
    for (const auto& p : promise.pods) take(p.node, p.gpus);
  }
  for (const auto& [j, decision] : memory_.decisions) {
    for (const auto& p : decision.places) take(p.node, p.gpus);
  }
  for (const auto& [name, p] : memory_.pods) {
    if (!is_terminal(*p.pod)) take(p.pod->node_name, p.gpus);
  }
  return all;
}

std::optional<std::vector<Place>> LifecycleWorld::find_places(
    std::size_t j, const std::vector<std::pair<std::string, std::int32_t>>& which, Used& used) {
  const auto& job = memory_.jobs[j].job;
  std::vector<Place> places;
  for (const auto& [role_name, index] : which) {
    const auto role = std::find_if(job.spec.roles.begin(), job.spec.roles.end(),
                                   [&](const auto& r) { return r.name == role_name; });
    const std::size_t need = role->gpus ? static_cast<std::size_t>(crds::devices_of(*role->gpus)) : 0;
    const auto first = calm_ ? 0 : pick(nodes_.size());
    bool found = false;
    for (std::size_t n = 0; n < nodes_.size() && !found; ++n) {
      const auto& node = nodes_[(first + n) % nodes_.size()];
      const auto& avoid = job.status.node_refusals;
      if (std::any_of(avoid.begin(), avoid.end(), [&](const auto& r) { return r.node == node; })) continue;
      std::vector<std::int32_t> gpus;
      for (std::int32_t g = 0; g < gpus_per_node_ && gpus.size() < need; ++g) {
        if (!used.contains({node, g})) gpus.push_back(g);
      }
      if (gpus.size() < need) continue;
      for (const auto g : gpus) used.emplace(node, g);
      places.push_back({role_name, index, node, std::move(gpus)});
      found = true;
    }
    if (!found) return std::nullopt;
  }
  return places;
}

void LifecycleWorld::plan() {
  for (auto& [j, cached] : memory_.jobs) {
    if (cached.gone || memory_.decisions.contains(j)) continue;
    Used taken = used(j);
    const auto& a = cached.job.status.assignment;
    std::vector<std::pair<std::string, std::int32_t>> which;
    JobDecision d;
    d.generation = cached.job.metadata.generation;
    d.pool = "pool";
    const auto promise = memory_.promises.find(j);
    if (a.attempt == 0 && promise != memory_.promises.end()) {
      if (memory_.wants[j] && keeps(promise->second, taken)) {
        for (const auto& p : promise->second.pods) d.places.push_back({p.role, p.index, p.node, p.gpus});
        memory_.verdicts.erase(j);
        memory_.decisions[j] = std::move(d);
        memory_.dirty.insert(j);
      }
      continue;
    }
    if (a.attempt != 0 && !memory_.displaced[j].empty()) {
      d.kind = JobDecision::Kind::kReplace;
      for (const auto i : memory_.displaced[j]) which.emplace_back(a.pods.at(i).role, a.pods.at(i).index);
    } else if (a.attempt == 0 && memory_.wants[j]) {
      for (const auto& r : cached.job.spec.roles) {
        for (std::int32_t i = 0; i < crds::least_replicas(r); ++i) which.emplace_back(r.name, i);
      }
    } else {
      memory_.verdicts.erase(j);
      if (a.attempt != 0 && (calm_ || chance(200)) && resize(j, taken)) continue;
      if (a.attempt == 0 || calm_ || !chance(20)) continue;
      d.kind = chance(500) ? JobDecision::Kind::kEvict : JobDecision::Kind::kBackOff;
      if (chance(500)) {
        for (const auto& p : a.pods) which.emplace_back(p.role, p.index);
        if (auto places = find_places(j, which, taken)) {
          ++totals_.moves;
          d.kind = JobDecision::Kind::kMove;
          d.places = std::move(*places);
        }
      }
      d.reason = "PlacesLost";
      d.message = "the rules say so";
      memory_.decisions[j] = std::move(d);
      memory_.dirty.insert(j);
      continue;
    }
    if (auto places = find_places(j, which, taken)) {
      d.places = std::move(*places);
      memory_.verdicts.erase(j);
      memory_.decisions[j] = std::move(d);
      memory_.dirty.insert(j);
    } else if (a.attempt == 0) {
      const crds::Waiting verdict{.position = static_cast<std::int32_t>(j) + 1,
                                  .project_position = 1,
                                  .reason = "InsufficientCapacity",
                                  .message = "there is less than it needs",
                                  .blocking = {}};
      if (!memory_.verdicts.contains(j) || cached.job.status.queue != verdict) {
        memory_.verdicts[j] = verdict;
        memory_.dirty.insert(j);
      }
    }
  }
}

// An elastic gang that holds its places gets one more, or one less; as placement does, no more once a pod has
// succeeded, and in calm only more.
bool LifecycleWorld::resize(std::size_t j, Used& taken) {
  const auto& job = memory_.jobs[j].job;
  const auto& worker = job.spec.roles.front();
  const auto& a = job.status.assignment;
  if (!crds::is_elastic(worker) || jobs_[j].blocked) return false;
  std::set<std::int32_t> held;
  JobDecision d{.kind = JobDecision::Kind::kShrink,
                .generation = job.metadata.generation,
                .attempt = a.attempt,
                .pool = a.pool,
                .places = {},
                .reason = "Reclaimed",
                .message = "for another"};
  for (const auto& p : a.pods) {
    d.places.push_back({p.role, p.index, p.node, p.gpus});
    if (p.role == worker.name) held.insert(p.index);
  }
  const auto size = static_cast<std::int32_t>(held.size());
  if (!calm_ && chance(500)) {
    if (size <= crds::least_replicas(worker)) return false;
    std::erase_if(d.places,
                  [&](const Place& p) { return p.role == worker.name && p.index == *held.rbegin(); });
    ++totals_.shrinks;
  } else {
    if (size >= crds::most_replicas(worker) || !a.succeeded.empty()) return false;
    std::int32_t index = 0;
    while (held.contains(index)) ++index;
    auto places = find_places(j, {{worker.name, index}}, taken);
    if (!places) return false;
    d.kind = JobDecision::Kind::kGrow;
    d.places.push_back(places->front());
    ++totals_.grows;
  }
  memory_.decisions[j] = std::move(d);
  memory_.dirty.insert(j);
  return true;
}

// --- the API server

template <class Apply>
LifecycleWorld::Answer LifecycleWorld::write(Apply apply) {
  ++totals_.writes;
  if (calm_) {
    apply();
    return Answer::kApplied;
  }
  while (chance(faults_.world_event)) world_event();
  if (chance(faults_.crash)) throw Crash{};
  if (chance(faults_.refused_write)) return Answer::kRefused;
  apply();
  if (chance(faults_.crash)) throw Crash{};
  return chance(faults_.lost_answer) ? Answer::kUnknown : Answer::kApplied;
}

void LifecycleWorld::remove_pod(const std::string& name, const std::string& uid) {
  const auto found = pods_.find(name);
  if (found == pods_.end() || found->second.pod->meta.uid != uid) return;
  if (chance(300)) {
    pods_.erase(found);  // it ended at once
  } else {
    change_pod(name, [](client::Pod& p) { p.deleting = true; });
  }
}

// What the watches bring: changes of jobs and pods, each some time after it happened.
void LifecycleWorld::deliver(bool all) {
  for (std::size_t j = 0; j < jobs_.size(); ++j) {
    auto& cached = memory_.jobs[j];
    const bool old = cached.version != jobs_[j].version || cached.gone != jobs_[j].gone;
    if (!old || !(all || chance(500))) continue;
    cached = {jobs_[j].job, jobs_[j].version, jobs_[j].gone};
    memory_.dirty.insert(j);
  }
  for (auto it = memory_.pods.begin(); it != memory_.pods.end();) {
    const auto now = pods_.find(it->first);
    const bool old = now == pods_.end() || now->second.pod != it->second.pod;
    if (!old || !(all || chance(500))) {
      ++it;
      continue;
    }
    memory_.dirty.insert(it->second.job);
    memory_.reports[it->second.job].note(now == pods_.end() ? *it->second.pod : *now->second.pod, now_);
    if (now == pods_.end()) {
      it = memory_.pods.erase(it);
    } else {
      it->second = now->second;
      ++it;
    }
  }
  for (const auto& [name, p] : pods_) {
    if (memory_.pods.emplace(name, p).second) memory_.dirty.insert(p.job);
  }
}

// --- kubelets and users

template <class Change>
void LifecycleWorld::change_pod(const std::string& name, Change change) {
  auto pod = std::make_shared<client::Pod>(*pods_.at(name).pod);
  change(*pod);
  pods_.at(name).pod = std::move(pod);
}

void LifecycleWorld::world_event() {
  if (pods_.empty() || chance(50)) {
    user_event();
  } else {
    pod_event();
  }
}

void LifecycleWorld::pod_event() {
  const auto it = std::next(pods_.begin(), static_cast<std::ptrdiff_t>(pick(pods_.size())));
  const std::string name = it->first;
  const client::Pod old = *it->second.pod;
  SimJob& job = jobs_[it->second.job];
  const auto attempt = it->second.attempt;
  const auto end = [&](PodPhase phase, int code, const char* reason) {
    change_pod(name, [&](client::Pod& p) {
      p.phase = phase;
      p.ready = false;
      p.reason = reason;
      const int step = attempt * 100 + static_cast<int>(pick(3));
      const bool says = chance(500);
      p.ended = {{"main", code, "Error", says ? checkpoint_text(step) : "said", 0}};
    });
  };
  const auto dice = pick(100);
  if (old.deleting) {
    if (dice < 70) {
      pods_.erase(name);
    } else if (!is_terminal(old)) {
      end(PodPhase::kFailed, 143, "");
    }
  } else if (is_terminal(old)) {
    if (dice < 2) pods_.erase(name);  // collected
  } else if (dice < 2) {
    change_pod(name, [](client::Pod& p) { p.deleting = true; });
  } else if (dice < 3) {
    pods_.erase(name);  // by force
  } else if (dice < 5) {
    end(PodPhase::kFailed, 137, "Evicted");
  } else if (old.phase == PodPhase::kPending) {
    if (dice < 15) {
      ++totals_.refusals;
      change_pod(name, [&](client::Pod& p) {
        p.phase = PodPhase::kFailed;
        p.reason = dice < 10 ? "OutOfcpu" : "UnexpectedAdmissionError";
      });
    } else if (dice < 90) {
      change_pod(name, [](client::Pod& p) {
        p.phase = PodPhase::kRunning;
        p.ready = true;
      });
    }
  } else if (dice < 12) {
    job.faulty_attempts.insert(attempt);
    end(PodPhase::kFailed, 1, "");
  } else if (dice < 25) {
    end(PodPhase::kSucceeded, 0, "");
  } else if (dice < 40) {
    change_pod(name, [&](client::Pod& p) {
      const std::string text = checkpoint_text(attempt * 100 + static_cast<int>(pick(3)));
      if (p.annotations.size() == 1)
        p.annotations.insert(p.annotations.begin(), {std::string(kCheckpointAnnotation), ""});
      p.annotations.front().second = text;
    });
  } else {
    change_pod(name, [&](client::Pod& p) { p.ready = dice < 80; });
  }
}

void LifecycleWorld::user_event() {
  SimJob& s = jobs_[pick(jobs_.size())];
  if (s.gone) return;
  switch (pick(4)) {
    case 0:
      s.job.spec.suspend = !s.job.spec.suspend;
      break;
    case 1:
      s.job.spec.start_timeout = minutes{1 + pick(10)};
      break;
    case 2:
      s.blocked = !s.blocked;
      memory_.dirty.insert(static_cast<std::size_t>(&s - jobs_.data()));
      return;
    default:
      s.poisoned = chance(100);
      break;
  }
  ++s.job.metadata.generation;
  ++s.version;
}

// Kubelets that only do their work. False: nothing left for them.
bool LifecycleWorld::kubelets_calmly() {
  bool busy = false;
  std::vector<std::string> names;
  for (const auto& [name, p] : pods_) names.push_back(name);
  for (const auto& name : names) {
    const client::Pod& p = *pods_.at(name).pod;
    const bool orphan = jobs_[pods_.at(name).job].gone;
    if (p.deleting || orphan) {
      pods_.erase(name);
    } else if (p.phase == PodPhase::kPending || (p.phase == PodPhase::kRunning && !p.ready)) {
      change_pod(name, [](client::Pod& q) {
        q.phase = PodPhase::kRunning;
        q.ready = true;
      });
    } else if (p.phase == PodPhase::kRunning && programs_end_) {
      change_pod(name, [](client::Pod& q) {
        q.phase = PodPhase::kSucceeded;
        q.ready = false;
        q.ended = {{"main", 0, "Completed", "", 0}};
      });
    } else {
      continue;
    }
    busy = true;
  }
  return busy;
}

// --- time

void LifecycleWorld::storm(int rounds) {
  for (int round = 0; round < rounds && violations_.empty(); ++round) {
    try {
      world_event();
      deliver(false);
      if (chance(700)) plan();
      for (const auto& [j, at] : memory_.wake) {
        if (at <= now_) memory_.dirty.insert(j);
      }
      if (!memory_.dirty.empty()) {
        reconcile(*std::next(memory_.dirty.begin(), static_cast<std::ptrdiff_t>(pick(memory_.dirty.size()))));
      }
      check_pods();
    } catch (const Crash&) {
      ++totals_.crashes;
      start_process();
    }
    if (chance(300)) now_ += seconds{pick(chance(50) ? 900 : 20)};
  }
}

void LifecycleWorld::settle() {
  calm_ = true;
  for (int turn = 0; turn < 5000 && violations_.empty(); ++turn) {
    bool busy = kubelets_calmly();
    deliver(true);
    plan();
    const auto dirty = memory_.dirty;
    for (const auto j : dirty) reconcile(j);
    check_pods();
    busy = busy || !dirty.empty() || !memory_.dirty.empty();
    if (busy) continue;
    // Nobody does anything: only time can.
    const auto first = std::min_element(memory_.wake.begin(), memory_.wake.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
    if (first == memory_.wake.end()) return check_end();
    now_ = std::max(now_, first->second);
    memory_.dirty.insert(first->first);
  }
  if (violations_.empty()) violation("it never comes to rest");
}

// --- what must hold

void LifecycleWorld::violation(std::string text) {
  violations_.push_back(std::move(text));
}

void LifecycleWorld::check_step(std::size_t j, const Observed& seen, const Step& step) {
  const auto& name = jobs_[j].job.metadata.name;
  const bool held = seen.job.status.assignment.attempt != 0;
  crds::TrainingJob after = seen.job;
  after.status = step.status;
  Observed again{
      .job = after, .pods = seen.pods, .now = seen.now, .invalid = seen.invalid, .blocked = seen.blocked};
  again.reports = seen.reports;
  if (!step.status.nominated.pods.empty()) again.nomination = &step.status.nominated;
  again.verdict = held ? nullptr : seen.verdict;
  const Step second = advance(again);
  if (second.status != step.status) {
    std::string what;
    for (std::size_t c = 0; c < step.status.conditions.size(); ++c) {
      const auto &x = step.status.conditions[c], &y = second.status.conditions[c];
      if (x != y)
        what +=
            fmt::format(" {}: {} \"{}\" then {} \"{}\"", x.type, x.reason, x.message, y.reason, y.message);
    }
    crds::TrainingJob later = after;
    later.status = second.status;
    if (what.empty())
      what =
          fmt::format(" {} then {}", crds::status_to_json(after).dump(), crds::status_to_json(later).dump());
    violation(fmt::format("{}: the same observation changes the status twice:{}", name, what));
  }
  if (!second.notes.empty())
    violation(fmt::format("{}: the same event twice: {}", name, second.notes[0].text));
  const bool may_end_soon = crds::find_condition(step.status.conditions, "EndsSoon") != nullptr;
  if (step.status.conditions.size() != (may_end_soon ? 10U : 9U))
    violation(fmt::format("{}: {} conditions", name, step.status.conditions.size()));
  for (const auto& c : step.status.conditions) {
    if (c.reason.empty() || c.message.size() > 4096)
      violation(fmt::format("{}: condition {} is not as the schema has it", name, c.type));
  }
  if (step.wants_place &&
      std::any_of(seen.pods.begin(), seen.pods.end(), [](const auto& p) { return !is_terminal(*p); })) {
    violation(fmt::format("{}: asks for a place while it has pods", name));
  }
  for (const auto i : step.create) {
    if (i >= step.status.assignment.pods.size())
      violation(fmt::format("{}: creates a pod that is not assigned", name));
  }
}

void LifecycleWorld::check_status(std::size_t j, const crds::TrainingJobStatus& before,
                                  const crds::TrainingJobStatus& after) {
  SimJob& s = jobs_[j];
  const auto& name = s.job.metadata.name;
  if (is_finished(before)) {
    auto same = after;
    same.observed_generation = before.observed_generation;
    same.checkpoint = before.checkpoint;  // what pods say while they go counts
    if (same != before) violation(fmt::format("{}: changed after its end", name));
  }
  if (after.attempt < before.attempt || after.attempt > before.attempt + 1)
    violation(fmt::format("{}: attempt {} after {}", name, after.attempt, before.attempt));
  if (after.assignment.attempt != 0 && after.assignment.attempt != after.attempt)
    violation(fmt::format("{}: assigned attempt is not the latest", name));
  if (after.restarts.count != before.restarts.count) {
    ++totals_.restarts;
    if (after.restarts.count != before.restarts.count + 1)
      violation(
          fmt::format("{}: {} restarts counted at once", name, after.restarts.count - before.restarts.count));
    if (!s.faulty_attempts.contains(before.assignment.attempt))
      violation(fmt::format("{}: a restart counted though no program failed", name));
    if (!s.counted_attempts.insert(before.assignment.attempt).second)
      violation(fmt::format("{}: attempt {} counted twice", name, before.assignment.attempt));
  }
  if (after.disruption.ran < before.disruption.ran)
    violation(fmt::format("{}: it has run less than before", name));
  const auto& was = before.assignment;
  const auto& is = after.assignment;
  const bool goes_on =
      was.attempt == is.attempt && was.admitted_at == is.admitted_at && was.resized_at == is.resized_at;
  if (goes_on && after.disruption.ran != before.disruption.ran)
    violation(fmt::format("{}: what it has run is counted while it goes on at its size", name));
  if (before.assignment.attempt == 0 && after.assignment.attempt != 0) ++totals_.starts;
  if (before.assignment.attempt != 0 && after.assignment.attempt == 0 && !is_finished(after))
    ++totals_.withdrawals;
  if (!is_finished(before) && is_finished(after)) ++totals_.finished;
}

void LifecycleWorld::check_created(std::size_t j, std::int32_t attempt, const std::string& name) {
  const auto& a = jobs_[j].job.status.assignment;
  if (a.attempt != attempt) violation(fmt::format("{} made while attempt {} is assigned", name, a.attempt));
  for (const auto& [other, p] : pods_) {
    if (p.job == j && p.attempt < attempt && !is_terminal(*p.pod))
      violation(fmt::format("{} made while {} has not ended", name, other));
    if (p.job == j && p.attempt == attempt && p.resume != a.resume)
      violation(fmt::format("{} and {} are told to start from different checkpoints", name, other));
  }
}

// No GPU has two owners.
void LifecycleWorld::check_pods() {
  std::map<std::pair<std::string, std::int32_t>, const SimPod*> owner;
  for (const auto& [name, p] : pods_) {
    if (is_terminal(*p.pod)) continue;
    for (const auto g : p.gpus) {
      const auto [it, fresh] = owner.emplace(std::pair{p.pod->node_name, g}, &p);
      if (!fresh)
        violation(fmt::format("GPU {} of {} is given to {} and {}", g, p.pod->node_name, name,
                              it->second->pod->meta.name));
    }
  }
}

// Events have stopped: every job has ended, runs whole, or waits with a reason and holds nothing.
void LifecycleWorld::check_end() {
  for (std::size_t j = 0; j < jobs_.size(); ++j) {
    const auto& s = jobs_[j];
    std::size_t living = 0, there = 0;
    for (const auto& [name, p] : pods_) {
      if (p.job != j) continue;
      if (!is_terminal(*p.pod)) ++living;
      const bool ended = is_terminal(*p.pod);
      if (p.attempt == s.job.status.assignment.attempt && !ended) ++there;
    }
    const auto& st = s.job.status;
    there += st.assignment.succeeded.size();  // whether their pods still exist or not
    const auto& name = s.job.metadata.name;
    const bool holds = !s.gone && st.assignment.attempt != 0;
    if (!holds && living > 0) violation(fmt::format("{} holds {} pods and should hold none", name, living));
    if (s.gone) continue;
    const bool ended = is_finished(st);
    if (ended || (s.job.spec.suspend && st.phase == crds::Phase::kSuspended)) continue;
    if (holds) {
      if (st.phase != crds::Phase::kRunning || there != st.assignment.pods.size()) {
        violation(fmt::format("{} rests with {} of {} pods, started: {}", name, there,
                              st.assignment.pods.size(), st.started_at.has_value()));
      }
      if (s.job.spec.suspend) violation(fmt::format("{} runs though suspended", name));
      continue;
    }
    if (st.queue.reason.empty() || st.queue.message.empty())
      violation(fmt::format("{} waits without a reason", name));
    if (st.queue.reason == "BackingOff")
      violation(fmt::format("{} backs off for ever: {}", name, st.queue.message));
    if (st.queue.reason != "InsufficientCapacity") continue;
    std::vector<std::pair<std::string, std::int32_t>> which;
    for (const auto& r : s.job.spec.roles) {
      for (std::int32_t i = 0; i < crds::least_replicas(r); ++i) which.emplace_back(r.name, i);
    }
    Used taken = used(j);
    if (find_places(j, which, taken)) violation(fmt::format("{} waits though there is room", name));
  }
}

}  // namespace muster::reconcilers::sim
