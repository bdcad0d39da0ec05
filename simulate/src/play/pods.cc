// What kubelets and programs do: pods take their time to start, and to save when they are told to go, and
// their programs get on with the work as long as all of them are there.
#include <algorithm>

#include "muster/reconcilers/placement/placement_specs.h"
#include "muster/reconcilers/pods/gpu_share.h"
#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/pods/pod_end.h"
#include "muster/reconcilers/pods/pod_identity.h"
#include "world/world.h"

namespace muster::simulate {
namespace {

// A pod that states nothing else has so long to save.
constexpr std::int64_t kGraceSeconds = 30;

client::KeyValues labels_of(const crds::TrainingJob& job, const crds::PodAssignment& place) {
  return {{std::string(reconcilers::kAttemptLabel), std::to_string(job.status.assignment.attempt)},
          {std::string(reconcilers::kIndexLabel), std::to_string(place.index)},
          {std::string(reconcilers::kJobLabel), reconcilers::job_label(job.metadata.name)},
          {std::string(reconcilers::kRoleLabel), place.role},
          {std::string(reconcilers::kTryLabel), std::to_string(place.tries)}};
}

// What a pod of this role asks of the node, and how it says which GPUs are its.
void ask(client::Pod& pod, const reconcilers::PodNeeds& needs, const crds::Role& role,
         const crds::PodAssignment& place, const std::string& gpu_resource) {
  pod.milli_cpu = needs.requests.cpu.value;
  pod.memory_bytes = needs.requests.memory.value;
  const std::string share = role.gpus ? reconcilers::share_text(*role.gpus) : std::string();
  if (!share.empty()) pod.annotations.emplace_back(reconcilers::kShareAnnotation, share);
  pod.extended.assign(needs.requests.named.begin(), needs.requests.named.end());
  if (share.empty() && needs.gpus > 0) pod.extended.emplace_back(gpu_resource, needs.gpus);
  std::ranges::sort(pod.extended);
  if (!place.gpus.empty())
    pod.annotations.emplace_back(reconcilers::kGpusAnnotation, reconcilers::gpu_list(place.gpus));
  std::ranges::sort(pod.annotations);
}

template <class Change>
client::Ptr<client::Pod> changed(const client::Ptr<client::Pod>& pod, Change change) {
  auto next = std::make_shared<client::Pod>(*pod);
  change(*next);
  return next;
}

bool is_at(const pl::PodPlace& a, const pl::PodPlace& b) {
  return a.role == b.role && a.node == b.node && a.gpus == b.gpus;
}

}  // namespace

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
  for (const pl::PodPlace& p : pods)
    sum += milli_gpu(g.spec->roles[static_cast<std::size_t>(p.role)], p.node);
  return sum;
}

crds::MilliGpu World::charge_of(const Gang& g, const crds::PodAssignment& place) const {
  const auto role = std::ranges::find(g.spec->roles, place.role, &pl::RoleSpec::name);
  return crds::MilliGpu{role == g.spec->roles.end() ? 0 : milli_gpu(*role, place.node)};
}

// --- pods come and go

// It is there at once, and ready when it has started.
void World::make_pod(Gang& g, const crds::PodAssignment& place) {
  const auto role = std::ranges::find(g.job.spec.roles, place.role, &crds::Role::name);
  const auto r = static_cast<std::size_t>(role - g.job.spec.roles.begin());
  const auto& a = g.job.status.assignment;
  client::Pod pod;
  pod.meta.ns = g.job.metadata.ns;
  pod.meta.name = reconcilers::pod_name(g.job.metadata.name, place.role, place.index, a.attempt, place.tries);
  pod.meta.uid = std::to_string(++pods_made_);
  pod.labels = labels_of(g.job, place);
  pod.node_name = place.node;
  pod.owner_uid = g.job.metadata.uid;
  pod.created_at = pod.ready_at = to_stamp(now).time_since_epoch().count();
  pod.phase = client::PodPhase::kRunning;
  pod.ready = true;
  const auto pool = pools_.find(a.pool);
  if (r < g.wish.needs.size())
    ask(pod, g.wish.needs[r], *role, place, pool == pools_.end() ? std::string() : pool->second.gpu_resource);
  const pl::PodPlace at{static_cast<std::int32_t>(r), place.index, place.node, place.gpus};
  const auto milli = milli_gpu(g.spec->roles[r], place.node);
  const bool joins = g.job.status.started_at && place.joining;
  const auto& behaviour = g.owner->behaviour();
  const auto takes = joins                     ? behaviour.resizes_in
                     : g.job.status.started_at ? crds::Duration{}
                                               : behaviour.starts_in;
  GangPod made{.pod = {}, .of = g.spec, .place = at, .milli_gpu = milli};
  if (takes.count() > 0) {
    pod.ready = false;
    pod.ready_at = 0;
    made.ready_at = now + reconcilers::to_duration(takes);
    agenda_add(*made.ready_at, Due::kPodsReady, &g, 0, 0);
  }
  made.pod = std::make_shared<const client::Pod>(std::move(pod));
  g.pods.push_back(std::move(made));
  if (joins) stand_still(g);
}

// While a gang that runs takes in members, or goes on without some, nothing is done.
void World::stand_still(Gang& g) {
  const auto takes = reconcilers::to_duration(g.owner->behaviour().resizes_in);
  if (takes.ms == 0) return;
  g.stands_until = now + takes;
  agenda_add(*g.stands_until, Due::kPodsReady, &g, 0, 0);
}

// The time that they needed is over.
void World::pods_ready(Gang& g) {
  bool any = false;
  for (GangPod& p : g.pods) {
    if (!p.ready_at || *p.ready_at > now) continue;
    p.ready_at.reset();
    if (p.gone_at || reconcilers::is_terminal(*p.pod)) continue;
    any = true;
    p.pod = changed(p.pod, [&](client::Pod& pod) {
      pod.ready = true;
      pod.ready_at = to_stamp(now).time_since_epoch().count();
    });
  }
  if (g.stands_until && *g.stands_until <= now) {
    g.stands_until.reset();
    any = true;
  }
  if (any && !g.is_retired) reconcile(g);
}

// Whole gangs save, within their grace period; a program whose peers are gone ends at once. True: some pods
// have been told to go, or are gone.
bool World::tell_to_go(Gang& g, const std::vector<reconcilers::PodRemoval>& pods, bool is_whole) {
  const auto saves = reconcilers::to_duration(g.owner->behaviour().saves_in);
  bool any = false;
  for (const reconcilers::PodRemoval& removal : pods) {
    const auto found =
        std::ranges::find_if(g.pods, [&](const GangPod& p) { return p.pod->meta.uid == removal.uid; });
    if (found == g.pods.end()) continue;
    any = true;
    const std::int64_t grace = removal.grace_seconds.value_or(kGraceSeconds);
    const bool ends = reconcilers::is_terminal(*found->pod) || is_dead(found->place.node);
    found->gone_at = now + (ends || !is_whole ? pl::Duration{} : std::min(saves, pl::seconds(grace)));
    found->pod = changed(found->pod, [&](client::Pod& p) {
      p.deleting = true;
      p.deleted_at = to_stamp(now).time_since_epoch().count() + grace;
      p.grace_seconds = grace;
    });
    if (*found->gone_at > now) agenda_add(*found->gone_at, Due::kPodsGone, &g, 0, 0);
  }
  if (any) erase_gone_pods(g);
  return any;
}

// True: some were there still.
bool World::erase_gone_pods(Gang& g) {
  if (std::erase_if(g.pods, [&](const GangPod& p) { return p.gone_at && *p.gone_at <= now; }) == 0)
    return false;
  changed_ = true;
  settle(g);
  tell_release(g);
  return true;
}

// The time that they needed is over.
void World::pods_gone(Gang& g) {
  if (!g.is_retired) {
    if (erase_gone_pods(g)) reconcile(g);
    return;
  }
  const auto is_gone = [&](const GangPod& p) { return *p.gone_at <= now; };
  for (const GangPod& p : g.pods) {
    if (is_gone(p)) other_pods_.give_back(p.pod->meta.key());
  }
  if (std::erase_if(g.pods, is_gone) == 0) return;
  changed_ = true;
  charge(g);
  count_losses(g);
  if (!g.owner->deleted) to_serve_.insert(g.owner->source->key);
}

// A pod whose owner is deleted is told to go, and charged to its Project for itself while it is there.
void World::leave_behind(Gang& g, GangPod& pod, pl::Duration saves) {
  const bool ends = reconcilers::is_terminal(*pod.pod) || is_dead(pod.place.node);
  const pl::Time due = now + (ends ? pl::Duration{} : std::min(saves, pl::seconds(kGraceSeconds)));
  if (!pod.gone_at || due < *pod.gone_at) pod.gone_at = due;
  if (*pod.gone_at <= now) return;
  other_pods_.charge(pod.pod, placed_.project_of(g.owner->ns), true);
  agenda_add(*pod.gone_at, Due::kPodsGone, &g, 0, 0);
}

void World::end_programs(Gang& g) {
  for (GangPod& p : g.pods) {
    if (p.gone_at) continue;
    p.pod = changed(p.pod, [](client::Pod& pod) {
      pod.phase = client::PodPhase::kSucceeded;
      pod.ready = false;
    });
  }
}

// The program of one pod of the workload fails, of a service one of the first replica that runs, of an array
// one of the first index that does. Nothing
// happens where none runs, or where an edit has replaced the statement that said so.
void World::program_fails(std::size_t change) {
  const auto found = workloads_.find(input_.changes[change].key);
  if (found == workloads_.end() || found->second->source != &input_.changes[change]) return;
  std::vector<Gang*> gangs;
  for (const auto& g : found->second->gangs) gangs.push_back(g.get());
  for (const auto& [index, job] : found->second->indexes) gangs.push_back(job->gangs.front().get());
  const auto gang = std::ranges::find_if(gangs, [&](const Gang* g) { return is_whole(*g); });
  if (gang == gangs.end()) return;
  Gang& g = **gang;
  const auto first =
      std::ranges::find_if(g.pods, [](const GangPod& p) { return !p.is_beside && !p.gone_at; });
  first->pod = changed(first->pod, [&](client::Pod& pod) {
    pod.phase = client::PodPhase::kFailed;
    pod.ready = false;
    pod.ended = {{"main", 1, "Error", "", to_stamp(now).time_since_epoch().count()}};
  });
  reconcile(g);
}

// All pods of its attempt run, on nodes that are well, and nobody has told one to go.
bool World::is_whole(const Gang& g) const {
  const auto& a = g.job.status.assignment;
  if (a.attempt == 0 || !g.job.status.started_at) return false;
  std::size_t there = 0;
  for (const GangPod& p : g.pods) {
    const bool runs = !p.is_beside && !p.gone_at && !reconcilers::is_terminal(*p.pod);
    if (runs && !is_failed(p.place.node)) ++there;
  }
  return there == a.pods.size();
}

// Pods that hold something that no place of the assignment pays for.
void World::find_pods_beside(Gang& g) {
  const auto& a = g.job.status.assignment;
  std::map<std::pair<std::string_view, std::int32_t>, std::int32_t> tries;
  for (const auto& p : a.pods) tries[{p.role, p.index}] = p.tries;
  std::vector<bool> is_taken_up(g.assignment.pods.size());
  for (GangPod& p : g.pods) {
    const auto id = reconcilers::identity_of(*p.pod);
    const auto slot = tries.find({id->role, id->index});
    const bool is_of_it = id->attempt == a.attempt && slot != tries.end() && slot->second == id->tries;
    p.is_beside = !is_of_it && !reconcilers::is_terminal(*p.pod);
    if (!p.is_beside || id->attempt >= a.attempt) continue;
    for (std::size_t i = 0; i < is_taken_up.size(); ++i) {  // the next attempt has its place
      if (is_taken_up[i] || !is_at(g.assignment.pods[i], p.place)) continue;
      is_taken_up[i] = true;
      p.is_beside = false;
      break;
    }
  }
}

// --- programs

// What ran before this step ends with its attempt. Asked now, it saves if all its pods are there and the time
// will do; what has done all its work has saved it.
void World::stop_former_work(Gang& g, bool is_whole) {
  const auto& status = g.job.status;
  if (!g.work.runs() || status.assignment.attempt == g.works_in) return;
  const auto& checkpoint = g.job.spec.checkpoint;
  const auto grace = checkpoint ? checkpoint->grace_period : crds::Duration{kGraceSeconds};
  const bool saves = is_whole && g.owner->behaviour().saves_in <= grace;
  if (saves || crds::is_true(status.conditions, "Complete")) g.work.save(now);
  if (saves && !g.owner->is_service) say_saved(g);
  stop_work(g);
}

// The last words of its pods, as those of a program that saves when it is asked. A second is the least that
// saving takes.
void World::say_saved(Gang& g) {
  reconcilers::GangReport said;
  said.attempt = g.works_in;
  said.saved.step = g.work.done().pod_ms / 1000;
  said.at = to_stamp(now);
  said.reporters = said.saved_when_told = 1;
  said.save_seconds = std::max<std::int64_t>(1, g.owner->behaviour().saves_in.count());
  g.last_words = std::move(said);
}

void World::stop_work(Gang& g) {
  const Done lost = g.work.stop(now);
  g.owner->lost_ms += g.work.ms_at_full_size(lost.pod_ms);
  g.owner->losses[Loss::kWork] += lost.milli_gpu_ms;
  g.stands_until.reset();
  ++g.ends_version;
}

// A program whose pods are not all there does not get on.
void World::follow_work(Gang& g) {
  const auto& status = g.job.status;
  if (status.assignment.attempt == 0) return;
  if (!g.first_admitted) {
    g.first_admitted = now;
    waits_.push_back(std::max<std::int64_t>((now - g.asked).ms, 0));
  }
  if (!status.started_at) return;
  if (!g.first_started) g.first_started = now;
  const bool gets_on = is_whole(g) && !g.stands_until;
  const auto pods = gets_on ? static_cast<std::int32_t>(g.assignment.pods.size()) : 0;
  const auto milli = gets_on ? milli_gpu(g, g.assignment.pods) : 0;
  if (!g.work.runs()) {
    g.work.start(now, pods, milli);
    g.works_in = status.assignment.attempt;
  } else if (g.work.pods() != pods || g.work.milli_gpu() != milli) {
    g.work.resize(now, pods, milli);
  } else {
    return;
  }
  schedule_end(g);
}

void World::schedule_end(Gang& g) {
  ++g.ends_version;
  if (const auto end = g.work.ends()) agenda_add(std::max(*end, now), Due::kWorkDone, &g, 0, g.ends_version);
}

}  // namespace muster::simulate
