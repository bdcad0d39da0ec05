// What workloads do: start, get on, yield, save, end.
#include <algorithm>

#include "muster/reconcilers/placement/placement_specs.h"
#include "world.h"

namespace muster::simulate {
namespace {

// Assignment's pods that `kept` has not.
std::vector<pl::PodPlace> without(const pl::Assignment& all, const pl::Assignment& kept) {
  std::vector<pl::PodPlace> rest;
  for (const pl::PodPlace& p : all.pods) {
    // One that is shrunk and grown in one decision has some pods at another place.
    if (std::ranges::find(kept.pods, p) == kept.pods.end()) rest.push_back(p);
  }
  return rest;
}

bool restarts_to_resize(const Workload& w) {
  return !w.is_service && !crds::resizes_in_place(w.job().job.spec);
}

// A gang whose members come and go goes on without them; any other starts again from its checkpoint.
bool survives_loss(const Workload& w) {
  return !w.is_service && !restarts_to_resize(w);
}

}  // namespace

std::string_view object_of(std::string_view gang_id) {
  const std::size_t slash = gang_id.find('/', gang_id.find('/') + 1);
  return gang_id.substr(0, slash);
}

pl::Duration World::grace(const Gang& g) const {
  if (g.owner->is_service) return pl::seconds(30);
  const auto& checkpoint = g.owner->job().job.spec.checkpoint;
  return checkpoint ? reconcilers::to_duration(checkpoint->grace_period) : pl::seconds(30);
}

pl::Duration World::saves_in(const Gang& g) const {
  return reconcilers::to_duration(g.owner->behaviour().saves_in);
}

// Asked now, it saves: all its pods are there, and the time will do.
bool World::saves(const Gang& g) const {
  const bool whole = g.state == Gang::State::kBroken ? g.can_save : g.stalled == 0;
  return whole && saves_in(g) <= grace(g);
}

std::int64_t World::milli_gpu(const pl::RoleSpec& role, const std::string& node) const {
  using Kind = pl::GpuShare::Kind;
  std::int64_t of_one = pl::kMilliPerGpu;
  if (role.share.kind == Kind::kFraction) of_one = role.share.milli.value;
  if (role.share.kind == Kind::kMig)
    of_one = std::int64_t{(role.share.profile.empty() ? '7' : role.share.profile[0]) - '0'} * 1000;
  if (role.share.kind == Kind::kMig) of_one = (of_one + 6) / 7;
  if (role.share.kind == Kind::kMemory) {
    const std::int64_t memory = node_spec(node).gpu_memory.value;
    of_one = memory == 0 ? pl::kMilliPerGpu
                         : (std::min(role.share.memory.value, memory) * 1000 + memory - 1) / memory;
  }
  return of_one * role.gpus;
}

std::int64_t World::milli_gpu(const Gang& g, const std::vector<pl::PodPlace>& pods) const {
  std::int64_t sum = 0;
  for (const pl::PodPlace& p : pods) sum += milli_gpu(g.spec.roles[static_cast<std::size_t>(p.role)], p.node);
  return sum;
}

void World::append_pods(const Gang& g, const pl::Assignment& a, Pods& pods) const {
  for (const pl::PodPlace& p : a.pods) {
    const auto size = g.owner->is_service ? g.owner->service().service.spec.group_size : 0;
    pods.push_back(
        {g.spec.roles[static_cast<std::size_t>(p.role)].name, g.number * size + p.index, p.node, p.gpus});
  }
}

std::shared_ptr<const Pods> World::pods_of(const Workload& w) const {
  auto pods = std::make_shared<Pods>();
  for (const auto& g : w.gangs) append_pods(*g, g->assignment, *pods);
  return pods;
}

void World::tell(EventType type, const Workload& w, std::string reason, std::string beneficiary,
                 std::shared_ptr<const Pods> pods) {
  ++event_counts[static_cast<std::size_t>(type)];
  if (pods == nullptr) pods = pods_of(w);
  events.push_back({to_instant(now), type, w.key, std::move(reason), std::string(object_of(beneficiary)),
                    std::move(pods)});
}

void World::schedule_end(Gang& g) {
  ++g.ends_version;
  if (const auto end = g.work.ends()) agenda_add(std::max(*end, now), Due::kWorkDone, &g, 0, g.ends_version);
}

void World::stop_work(Gang& g) {
  g.owner->lost_ms += g.work.ms_at_full_size(g.work.stop(now).pod_ms);
  ++g.ends_version;
}

// --- start and resize

void World::start(Gang& g, const pl::Assignment& assignment) {
  Workload& w = *g.owner;
  const bool again = g.moving_to != nullptr;
  hold(g, assignment);
  g.assignment.since = now;
  g.moving_to.reset();
  g.state = Gang::State::kRunning;
  g.began = now;
  g.waits_for = pl::Reason::kNone;
  ++g.attempt;
  if (!g.first_started) {
    g.first_started = now;
    waits_.push_back(std::max<std::int64_t>((now - g.submitted).ms, 0));
  }
  g.work.start(now, static_cast<std::int32_t>(g.assignment.pods.size()), milli_gpu(g, g.assignment.pods));
  cluster.set_assignment(g.id, g.assignment);
  cluster.set_progress(g.id, {now, std::nullopt, std::nullopt, std::nullopt});
  schedule_end(g);
  if (g.spec.max_runtime) {
    const auto left = g.spec.max_runtime;
    refresh(g);  // less is left of it; not before, a changed spec gives up the place that is kept for it
    changed_ = changed_ || g.spec.max_runtime != left;
    follow_limit(g);
  }
  tell(again ? EventType::kRestarted : EventType::kAdmitted, w, again ? "Moved" : "");
}

// Lost pods have other places.
void World::restart_on(Gang& g, const pl::Decision& d) {
  pl::Assignment whole = g.assignment;
  for (const pl::PodPlace& p : d.assignment.pods) {
    for (pl::PodPlace& mine : whole.pods) {
      if (mine.role == p.role && mine.index == p.index) mine = p;
    }
  }
  if (!survives_loss(*g.owner)) {
    if (saves(g)) g.work.save(now);
    stop_work(g);
    ++g.attempt;
  }
  hold(g, whole);
  g.state = Gang::State::kRunning;
  const auto pods = static_cast<std::int32_t>(whole.pods.size());
  if (survives_loss(*g.owner)) {
    g.work.resize(now, pods, milli_gpu(g, whole.pods));
  } else {
    g.ran_ms += (now - g.began).ms;
    g.began = now;
    g.work.start(now, pods, milli_gpu(g, whole.pods));
    cluster.set_progress(g.id, {now, std::nullopt, std::nullopt, std::nullopt});
  }
  cluster.set_assignment(g.id, g.assignment);
  schedule_end(g);
  g.stalled = 0;
  stall(g, failed_under(g));
  tell(EventType::kRestarted, *g.owner, "NodeFailed");
  if (g.spec.max_runtime) refresh(g);  // less is left of it, from now on
}

void World::resize(Gang& g, const pl::Assignment& to, EventType type, const std::string& reason,
                   const std::string& beneficiary) {
  auto surplus = without(g.assignment, to);
  // What stood on lost ground does not leave: it is gone.
  std::erase_if(surplus, [&](const pl::PodPlace& p) { return is_lost(p); });
  if (restarts_to_resize(*g.owner)) {
    if (saves(g)) g.work.save(now);
    stop_work(g);
    ++g.attempt;
  }
  const pl::Time since = g.assignment.since;
  hold(g, to);
  g.assignment.since = since;
  g.state = Gang::State::kRunning;
  const auto pods = static_cast<std::int32_t>(g.assignment.pods.size());
  if (g.work.runs()) {
    g.work.resize(now, pods, milli_gpu(g, g.assignment.pods));
  } else {
    g.work.start(now, pods, milli_gpu(g, g.assignment.pods));
  }
  cluster.set_assignment(g.id, g.assignment);
  cluster.set_progress(g.id, {g.began, std::nullopt, std::nullopt, now});
  schedule_end(g);
  const auto stalled = failed_under(g);
  g.stalled = 0;
  stall(g, stalled);
  tell(type, *g.owner, reason, beneficiary);
  if (surplus.empty()) return;
  g.leaving.insert(g.leaving.end(), surplus.begin(), surplus.end());
  charge(g);
  cluster.set_leaving(g.id, g.leaving);
  const auto gone = now + std::min(saves_in(g), grace(g));
  ++g.leaves_version;
  if (gone > now) {
    agenda_add(gone, Due::kPodsGone, &g, 0, g.leaves_version);
  } else {
    release(g);
  }
}

// --- the way out

// Asked to checkpoint; its pods stay until they have saved, or their grace period is over.
void World::let_go(Gang& g, EventType type, const std::string& reason, const std::string& beneficiary,
                   const pl::Assignment* moving_to) {
  Workload& w = *g.owner;
  const bool whole = g.state == Gang::State::kRunning && g.stalled == 0;
  if (saves(g)) g.work.save(now);
  stop_work(g);
  g.ran_ms += (now - g.began).ms;
  ++g.limit_version;
  g.stalled = 0;
  // What stood on lost ground is gone at once.
  std::vector<pl::PodPlace> pods = g.assignment.pods;
  std::erase_if(pods, [&](const pl::PodPlace& p) { return is_lost(p); });
  g.leaving.insert(g.leaving.end(), pods.begin(), pods.end());
  hold(g, {});
  g.leaves_whole = true;
  g.state = g.ends_as.empty() ? Gang::State::kWaiting : Gang::State::kOut;
  g.waits_for = pl::Reason::kNone;
  std::shared_ptr<const Pods> target;
  if (moving_to != nullptr) {
    auto destination = std::make_shared<Pods>();
    append_pods(g, *moving_to, *destination);
    target = g.moving_to = std::move(destination);
  }
  tell(type, w, reason, beneficiary, target);
  const auto gone = whole ? now + std::min(saves_in(g), grace(g)) : now;
  ++g.leaves_version;
  // What plan() did not decide, the cluster does not know yet.
  if (cluster.assignment(g.id) != nullptr && !cluster.nominated(g.id)) cluster.clear_assignment(g.id);
  cluster.set_leaving(g.id, g.leaving);
  if (gone > now) {
    agenda_add(gone, Due::kPodsGone, &g, 0, g.leaves_version);
  } else {
    release(g);
  }
}

// The last of the leaving pods are gone.
void World::release(Gang& g) {
  g.leaving.clear();
  charge(g);
  cluster.set_leaving(g.id, {});
  changed_ = true;
  if (!g.leaves_whole) return;
  g.leaves_whole = false;
  tell(EventType::kReleased, *g.owner, {}, {}, g.moving_to);
  if (!g.ends_as.empty()) {
    const std::string reason = g.ends_as;
    g.ends_as.clear();
    if (reason == "Suspended") {
      cluster.remove_job(g.id);
      g.known = false;
    } else {
      finish(g, true, reason);
    }
  } else if (g.moving_to == nullptr) {
    // What it had taken from its Project it has given back, and its Project's rules hold for it again. A
    // place that is kept for it would be given up by that.
    refresh(g);
  }
}

void World::finish(Gang& g, bool failed, const std::string& reason) {
  Workload& w = *g.owner;
  if (g.work.runs()) {
    g.work.save(now);
    stop_work(g);
  }
  hold_nothing(g);
  g.state = Gang::State::kOut;
  ++g.limit_version;
  ++g.leaves_version;
  cluster.remove_job(g.id);
  g.known = false;
  gangs_.erase(g.id);
  changed_ = true;
  w.finished = now;
  w.failed = failed;
  w.end_reason = reason;
  ++finished_jobs_;
  tell(EventType::kFinished, w, reason);
}

// --- nodes

// Nodes under it that have failed and do not count as lost yet.
std::int32_t World::failed_under(const Gang& g) const {
  std::set<std::string> failed;
  for (const pl::PodPlace& p : g.assignment.pods) {
    const auto node = nodes.find(p.node);
    if (node != nodes.end() && node->second.failed && !node->second.counted) failed.insert(p.node);
  }
  return static_cast<std::int32_t>(failed.size());
}

// A program whose pods are not all there does not get on.
void World::stall(Gang& g, std::int32_t by) {
  if (g.state != Gang::State::kRunning) return;
  const bool was = g.stalled > 0;
  g.stalled += by;
  const bool is = g.stalled > 0;
  if (was == is) return;
  if (is) {
    g.work.resize(now, 0, 0);
    ++g.ends_version;
  } else {
    g.work.resize(now, static_cast<std::int32_t>(g.assignment.pods.size()), milli_gpu(g, g.assignment.pods));
    schedule_end(g);
  }
}

Phase World::phase(const Workload& w) const {
  if (w.finished) return w.failed ? Phase::kFailed : Phase::kSucceeded;
  if (!w.is_service && w.job().job.spec.suspend && w.invalid.empty()) {
    return w.gangs.front()->leaving.empty() ? Phase::kSuspended : Phase::kCheckpointing;
  }
  Phase phase = Phase::kRunning;
  for (const auto& g : w.gangs) {
    if (g->leaves_whole) return Phase::kCheckpointing;
    if (g->state != Gang::State::kRunning) phase = Phase::kQueued;
  }
  return phase;
}

}  // namespace muster::simulate
