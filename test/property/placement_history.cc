#include "placement_history.h"

#include <algorithm>

namespace muster::placement::testing {

const std::vector<std::string> kProjects = {"p0", "p1", "p2", "p3"};
const std::vector<std::string> kQueues = {"q0", "q1", "q2"};
const std::vector<std::string> kPools = {"default", "other"};

namespace {

const std::string kHost = "kubernetes.io/hostname";
constexpr std::int64_t kMinute = 60'000;

RoleSpec some_role(Dice& dice, const std::string& name, SharingMode likely) {
  RoleSpec r = role(name, static_cast<std::int32_t>(1 + dice.upto(5)),
                    static_cast<std::int32_t>(dice.of<std::int64_t>({0, 1, 1, 2, 4, 8})), 1 + dice.upto(3),
                    1 + dice.upto(3));
  if (r.gpus > 0 && dice.one_in(likely == SharingMode::kAny ? 4 : 2)) {
    r.gpus = static_cast<std::int32_t>(1 + dice.upto(1));
    switch (likely == SharingMode::kMig ? 2 : dice.upto(2)) {
      case 0:
        r.share.kind = GpuShare::Kind::kFraction;
        r.share.milli = MilliGpu{dice.of<std::int64_t>({100, 250, 333, 500, 700})};
        break;
      case 1:
        r.share.kind = GpuShare::Kind::kMemory;
        r.share.memory = Bytes{dice.of<std::int64_t>({3, 10, 25, 50}) * kGi};
        r.share.overcommit = dice.one_in(2);
        break;
      default:
        r.share.kind = GpuShare::Kind::kMig;
        r.share.profile = dice.of<std::string>({"1g.10gb", "2g.20gb", "3g.40gb"});
    }
  }
  if (dice.one_in(4)) r.max_replicas = r.replicas + static_cast<std::int32_t>(dice.upto(4));
  if (dice.one_in(6)) r.models = {"H100"};
  if (dice.one_in(4)) r.tolerations = {{"", true, "", ""}};
  if (dice.one_in(10)) r.node_selector = {{"rack", "r1"}};
  if (dice.one_in(6)) r.preferred = {{5, {{{"rack", Operator::kIn, {"r0"}}}, {}}}};
  if (dice.one_in(16)) r.topology.required = dice.of<std::string>({"rack", kHost});
  if (dice.one_in(12)) r.numa_aligned = true;
  return r;
}

TopologyRule some_rule(Dice& dice) {
  return {dice.one_in(2) ? dice.of<std::string>({"block", "rack", kHost}) : "",
          dice.one_in(3) ? dice.of<std::string>({"block", "rack"}) : ""};
}

std::string places_of(const std::vector<PodPlace>& pods) {
  std::string text;
  for (const PodPlace& p : pods) {
    text += " " + std::to_string(p.role) + "." + std::to_string(p.index) + "@" + p.node;
    for (const auto g : p.gpus) text += ":" + std::to_string(g);
  }
  return text;
}

// --- resources known by name

NamedAmounts some_devices(Dice& dice, std::int64_t most, std::int64_t one_in) {
  NamedAmounts named;
  for (const char* name : {"rdma/hca", "hugepages-2Mi"}) {
    if (dice.one_in(one_in)) named[name] = dice.upto(most);
  }
  return named;
}

void add_devices(Dice& dice, QueueSpec& q) {
  for (Share* s : {&q.in_default_pool, &q.in_pool["other"]}) {
    s->quota.named = some_devices(dice, 16, 2);
    s->limit.named = some_devices(dice, 24, 4);
    s->reserved.named = some_devices(dice, 4, 8);
  }
}

std::string text_of(const NamedAmounts& named) {
  std::string text;
  for (const auto& [name, amount] : named) text += " " + std::to_string(amount) + " " + name;
  return text;
}

// An assignment as a broken history could have left it: any node, any GPUs.
Assignment some_assignment(Dice& dice, const JobSpec& j, Time now) {
  Assignment a{dice.of(kPools), now - Duration{dice.upto(50)}, {}};
  for (std::size_t r = 0; r < j.roles.size(); ++r) {
    for (std::int32_t i = 0; i < j.roles[r].replicas; ++i) {
      PodPlace p{static_cast<std::int32_t>(r), i, "n" + std::to_string(dice.upto(8)), {}};
      for (std::int32_t g = 0; g < j.roles[r].gpus; ++g)
        p.gpus.push_back(static_cast<std::int32_t>(dice.upto(8)));
      a.pods.push_back(p);
    }
  }
  return a;
}

}  // namespace

NodeSpec some_node(Dice& dice) {
  NodeSpec n = node("n" + std::to_string(dice.upto(7)), static_cast<std::int32_t>(dice.upto(2) * 4),
                    dice.one_in(2) ? "A100" : "H100", 4 + dice.upto(12));
  n.allocatable.memory = Bytes{(4 + dice.upto(28)) * kGi};
  n.allocatable.pods = 2 + dice.upto(20);
  n.usable = !dice.one_in(8);
  n.labels["pool"] = dice.one_in(3) ? "other" : "default";
  n.labels["block"] = "b" + std::to_string(dice.upto(1));
  if (!dice.one_in(8)) n.labels["rack"] = "r" + std::to_string(dice.upto(2));
  if (dice.one_in(6)) n.taints = {{"team", "x", dice.one_in(2) ? "NoSchedule" : "PreferNoSchedule"}};
  if (n.gpus == 0) return n;
  if (!dice.one_in(4)) n.gpu_memory = Bytes{(n.gpu_model == "H100" ? 80 : 40) * kGi};
  if (dice.one_in(6)) n.mig = {{"1g.10gb", static_cast<std::int32_t>(dice.upto(6))}};
  if (dice.one_in(6)) n.unhealthy = {static_cast<std::int32_t>(dice.upto(n.gpus - 1))};
  if (dice.one_in(3)) {
    for (std::int32_t g = 0; g < n.gpus; ++g) n.gpu_numa.push_back(g * 2 / n.gpus);
    const NumaZone half{MilliCpu{n.allocatable.cpu.value / 2}, Bytes{n.allocatable.memory.value / 2}};
    if (dice.one_in(2)) n.zones = {half, half};
    if (dice.one_in(3)) n.numa_policy = dice.one_in(2) ? NumaPolicy::kSingle : NumaPolicy::kRestricted;
    if (dice.one_in(4)) n.unaligned = "nobody says";
  }
  return n;
}

PoolSpec some_pool(Dice& dice, const std::string& name) {
  PoolSpec p = pool(name, {{"pool", Operator::kIn, {name}}});
  if (dice.one_in(16)) p.selector.clear();  // then nodes of the other one are in two pools
  p.order = dice.one_in(2) ? NodeOrder::kSpread : NodeOrder::kPack;
  p.gpu_order = dice.one_in(2) ? NodeOrder::kSpread : NodeOrder::kPack;
  p.sharing.mode =
      dice.of<SharingMode>({SharingMode::kAny, SharingMode::kAny, SharingMode::kAny, SharingMode::kNone,
                            SharingMode::kFraction, SharingMode::kMps, SharingMode::kMig});
  if (dice.one_in(4)) p.sharing.max_clients = static_cast<std::int32_t>(1 + dice.upto(3));
  if (dice.one_in(3)) p.memory_overcommit_milli = 2000;
  p.reservation_after = Duration{(1 + dice.upto(20)) * kMinute};
  p.is_default = name == "default" && !dice.one_in(10);
  p.topology = {"block", "rack", kHost};
  return p;
}

QueueSpec some_queue(Dice& dice, bool reserves) {
  QueueSpec q;
  q.is_project = dice.one_in(2);
  q.name = q.is_project ? dice.of(kProjects) : dice.of(kQueues);
  q.parent = q.is_project || dice.one_in(2) ? dice.of(kQueues) : "";
  q.drain = dice.one_in(24);
  q.hold = q.drain || dice.one_in(12);
  q.created = Time{dice.upto(3)};
  if (dice.one_in(6)) q.reclaim_min_runtime = Duration{dice.upto(10) * kMinute};
  if (dice.one_in(6)) q.preempt_min_runtime = Duration{dice.upto(10) * kMinute};
  if (dice.one_in(2)) q.max_overhead = dice.of<std::int32_t>({0, 5, 20, 100});
  if (dice.one_in(4)) q.patience = Duration{dice.upto(30) * kMinute};
  if (dice.one_in(12)) q.half_life = Duration{(1 + dice.upto(60)) * kMinute};
  for (Share* s : {&q.in_default_pool, &q.in_pool["other"]}) {
    if (dice.one_in(2)) s->quota.gpu = MilliGpu{dice.upto(20) * 1000};
    if (dice.one_in(4)) s->quota.cpu = MilliCpu{dice.upto(30) * 1000};
    if (dice.one_in(3)) s->limit.gpu = MilliGpu{dice.upto(24) * 1000};
    if (dice.one_in(6)) s->limit.memory = Bytes{dice.upto(64) * kGi};
    if (reserves && dice.one_in(6)) s->reserved.gpu = MilliGpu{dice.upto(4) * 1000};
    s->weight = dice.upto(3);
    s->priority = dice.upto(2);
  }
  if (q.drain && dice.one_in(2)) q.drain_batch = MilliGpu{(1 + dice.upto(2)) * 1000};
  return q;
}

JobSpec some_job(Dice& dice, Time now) {
  const std::string& project = dice.of(kProjects);
  JobSpec j =
      job(project + "/j" + std::to_string(dice.upto(5)), 1, 0, now.ms + dice.upto(20), dice.upto(2) * 25);
  j.preemptible = !dice.one_in(3);
  j.interactive = dice.one_in(6);
  if (dice.one_in(12)) j.project.clear();
  for (std::int64_t n = dice.upto(2); n > 0; --n) j.pools.push_back(dice.of(kPools));
  j.roles.clear();
  const SharingMode likely =
      dice.of<SharingMode>({SharingMode::kAny, SharingMode::kAny, SharingMode::kFraction, SharingMode::kMig});
  for (std::int64_t n = dice.one_in(4) ? 2 : 1; n > 0; --n)
    j.roles.push_back(some_role(dice, "r" + std::to_string(n), likely));
  if (j.roles.size() == 2 && dice.one_in(3)) {
    j.roles[1].replicas = j.roles[0].replicas;
    j.roles[1].max_replicas = j.roles[0].max_replicas;
    j.roles[1].colocate_with = 0;
  }
  if (dice.one_in(5)) j.topology = some_rule(dice);
  if (j.roles.size() == 1 && dice.one_in(8)) {
    const auto size = static_cast<std::int32_t>(2 + dice.upto(1));
    j.roles[0].replicas = size * static_cast<std::int32_t>(1 + dice.upto(1));
    j.roles[0].max_replicas = dice.one_in(2) ? j.roles[0].replicas + size : 0;
    j.groups = {{size, some_rule(dice)}};
  }
  if (dice.one_in(16)) {
    j.roles[0].labels = {{"app", project}};
    j.roles[0].pod_anti_affinity = {{{{"app", Operator::kIn, {project}}}, {}, kHost}};
  }
  if (dice.one_in(10)) j.avoid_nodes = {"n1"};
  if (dice.one_in(3)) j.max_runtime = Duration{(1 + dice.upto(40)) * kMinute};
  if (dice.one_in(3)) j.checkpoint_interval = Duration{dice.upto(10) * kMinute};
  if (dice.one_in(3)) j.grow_after = Duration{dice.upto(10) * kMinute};
  return j;
}

History::History(std::uint64_t seed, bool devices)
    : dice(seed), seed_(seed), reserves_(dice.one_in(3)), devices_(devices) {
  for (const auto& p : kPools) {
    PoolSpec spec = some_pool(dice, p);
    spec.selector = {{"pool", Operator::kIn, {p}}};
    spec.is_default = p == "default";
    upsert(spec);
  }
  for (const auto& q : kQueues) upsert(queue(q, "", {8 + dice.upto(8)}));
  for (const auto& p : kProjects) upsert(project(p, dice.of(kQueues), {dice.upto(8)}));
  for (int i = 0; i < 6; ++i) upsert(some_node(dice));
}

void History::note(const std::string& line) {
  log += std::to_string(step_) + " at " + std::to_string(now.ms) + ": " + line + "\n";
}

void History::upsert(QueueSpec q) {
  if (devices_) {
    auto more = more_dice();
    add_devices(more, q);
  }
  const auto show = [](const Share& s) {
    return " quota " + (s.quota.gpu ? std::to_string(s.quota.gpu->value) : "-") + " limit " +
           (s.limit.gpu ? std::to_string(s.limit.gpu->value) : "-") + " reserved " +
           (s.reserved.gpu ? std::to_string(s.reserved.gpu->value) : "-") + " weight " +
           std::to_string(s.weight) + " priority " + std::to_string(s.priority) + text_of(s.quota.named) +
           " limit" + text_of(s.limit.named) + " reserved" + text_of(s.reserved.named);
  };
  note((q.is_project ? "project " : "queue ") + q.name + " below " + q.parent + (q.hold ? " held" : "") +
       (q.drain ? " drained" : "") +
       (q.drain_batch ? " in batches of " + std::to_string(q.drain_batch->value) : "") +
       show(q.in_default_pool) +
       (q.in_pool.contains("other") ? "; other" + show(q.in_pool.at("other")) : ""));
  queues[{q.is_project, q.name}] = q;
  cluster.upsert_queue(q);
}

void History::upsert(NodeSpec n) {
  if (devices_) {
    auto more = more_dice();
    n.named = some_devices(more, 8, 1);
  }
  note("node " + n.name + " " + std::to_string(n.gpus) + " " + n.gpu_model + " " +
       std::to_string(n.allocatable.cpu.value) + " CPUs " + std::to_string(n.allocatable.memory.value / kGi) +
       " Gi " + std::to_string(n.allocatable.pods) + " pods, in " + n.labels.at("pool") +
       (n.usable ? "" : " unusable") + (n.taints.empty() ? "" : " tainted") +
       (n.zones.empty() ? "" : " zones") + (n.mig.empty() ? "" : " cut") + text_of(n.named));
  cluster.upsert_node(n);
}

void History::upsert(const PoolSpec& p) {
  note("pool " + p.name + (p.is_default ? " default" : "") + " mode " +
       std::to_string(static_cast<int>(p.sharing.mode)) + (p.selector.empty() ? " of all nodes" : ""));
  cluster.upsert_pool(p);
}

void History::upsert(JobSpec j) {
  if (devices_) {
    auto more = more_dice();
    for (RoleSpec& r : j.roles) r.named = some_devices(more, 3, 2);
  }
  std::string text = "job " + j.id + " of " + j.project + " priority " + std::to_string(j.priority) +
                     (j.preemptible ? "" : " fixed") + (j.interactive ? " interactive" : "") + " in";
  for (const auto& p : j.pools) text += " " + p;
  if (!j.topology.required.empty()) text += " within one " + j.topology.required;
  for (const GroupRule& g : j.groups)
    text += ", groups of " + std::to_string(g.size) + " within one " + g.rule.required;
  for (const RoleSpec& r : j.roles) {
    text += "; " + std::to_string(r.replicas) + ".." + std::to_string(r.most()) + " x " +
            std::to_string(r.gpus) + " GPUs (kind " + std::to_string(static_cast<int>(r.share.kind)) + " " +
            std::to_string(r.share.milli.value) + "m " + std::to_string(r.share.memory.value / kGi) + "Gi " +
            r.share.profile + ") " + std::to_string(r.per_pod.cpu.value) + " CPUs" +
            (r.numa_aligned ? " aligned" : "") +
            (r.colocate_with >= 0 ? " beside " + std::to_string(r.colocate_with) : "") +
            (r.topology.required.empty() ? "" : " within one " + r.topology.required) +
            (r.pod_anti_affinity.empty() ? "" : " averse") + text_of(r.named);
  }
  note(text);
  jobs[j.id] = j;
  cluster.upsert_job(j);
}

void History::wait() {
  now = now + Duration{dice.of<std::int64_t>({1, 1, 1000, 20'000, kMinute, 4 * kMinute, 30 * kMinute})};
}

void History::step() {
  dice = Dice(seed_ * 1'000'003 + ++step_);
  wait();
  switch (dice.upto(13)) {
    case 0:
      return upsert(some_node(dice));
    case 1: {
      const std::string name = "n" + std::to_string(dice.upto(7));
      note("no node " + name);
      return cluster.remove_node(name);
    }
    case 2:
      if (dice.one_in(3)) {
        const std::string& name = dice.of(kPools);
        if (!dice.one_in(4)) return upsert(some_pool(dice, name));
        note("no pool " + name);
        return cluster.remove_pool(name);
      }
      return remove_some_job();
    case 3:
      return upsert(some_queue(dice, reserves_));
    case 4:
      if (dice.one_in(4)) {
        const std::string& name = dice.of(kProjects);
        note("no project " + name);
        queues.erase({true, name});
        return cluster.remove_queue(name, true);
      }
      return confirm_or_withdraw();
    case 5:
      return remove_some_job();
    case 6:
      return other_pod();
    case 7: {
      const std::string key = "x/" + std::to_string(dice.upto(5));
      note("no pod " + key);
      return cluster.remove_other_pod(key);
    }
    case 8:
      return confirm_or_withdraw();
    case 9:
      if (!jobs.empty() && dice.one_in(3)) {
        const JobSpec& j = some_known();
        const Assignment a = some_assignment(dice, j, now);
        note("assignment of " + j.id + " in " + a.pool + places_of(a.pods));
        cluster.set_assignment(j.id, a);
      }
      return;
    case 10:
      return report();
    case 11:
      let_go();
      return;
    default:
      return upsert(some_job(dice, now));
  }
}

bool History::let_go() {
  bool any = false;
  for (const auto& [id, spec] : jobs) {
    if (cluster.leaving(id).empty()) continue;
    note(id + " has left");
    cluster.set_leaving(id, {});
    any = true;
  }
  return any;
}

const JobSpec& History::some_known() {
  return std::next(jobs.begin(), dice.upto(static_cast<std::int64_t>(jobs.size()) - 1))->second;
}

void History::remove_some_job() {
  if (jobs.empty()) return;
  const std::string id = some_known().id;
  note("no job " + id);
  cluster.remove_job(id);
  jobs.erase(id);
}

void History::confirm_or_withdraw() {
  if (jobs.empty()) return;
  const std::string id = some_known().id;
  if (dice.one_in(2)) {
    auto pods = cluster.leaving(id);
    if (!pods.empty())
      pods.resize(static_cast<std::size_t>(dice.upto(static_cast<std::int64_t>(pods.size()) - 1)));
    note("of " + id + " are leaving:" + places_of(pods));
    return cluster.set_leaving(id, pods);
  }
  const Assignment* held = cluster.assignment(id);
  if (held == nullptr || cluster.nominated(id)) return;
  if (dice.one_in(3)) {
    note("assignment of " + id + " is withdrawn");
    return cluster.clear_assignment(id);
  }
  std::vector<std::size_t> displaced;
  if (dice.one_in(3))
    displaced.push_back(
        static_cast<std::size_t>(dice.upto(static_cast<std::int64_t>(held->pods.size()) - 1)));
  note("assignment of " + id +
       " confirmed, displaced: " + (displaced.empty() ? "none" : std::to_string(displaced[0])));
  cluster.set_assignment(id, Assignment(*held), displaced);
}

// How far somebody who runs has come.
void History::report() {
  if (jobs.empty()) return;
  const std::string id = some_known().id;
  if (cluster.assignment(id) == nullptr || cluster.nominated(id)) return;
  Progress p;
  p.began = now - Duration{dice.upto(20) * kMinute};
  if (dice.one_in(2)) p.saved = now - Duration{dice.upto(5) * kMinute};
  if (dice.one_in(2)) p.start_took = Duration{dice.upto(5) * kMinute};
  if (dice.one_in(3)) p.resized = now - Duration{dice.upto(5) * kMinute};
  note("progress of " + id);
  cluster.set_progress(id, p);
}

void History::other_pod() {
  OtherPod p;
  p.key = "x/" + std::to_string(dice.upto(5));
  p.node = "n" + std::to_string(dice.upto(8));
  p.gpu_count = static_cast<std::int32_t>(dice.upto(2));
  p.amounts = role("", 1, p.gpu_count, dice.upto(3)).per_pod;
  if (p.gpu_count > 0 && dice.one_in(2)) p.gpus = {static_cast<std::int32_t>(dice.upto(3))};
  if (dice.one_in(4)) p.slices["1g.10gb"] = static_cast<std::int32_t>(1 + dice.upto(2));
  if (dice.one_in(8)) p.slices["3g.40gb"] = 1;
  if (dice.one_in(2)) p.project = dice.of(kProjects);
  p.preemptible = dice.one_in(2);
  if (devices_) {
    auto more = more_dice();
    p.named = some_devices(more, 3, 3);
  }
  note("pod " + p.key + " on " + p.node + " with " + std::to_string(p.gpu_count) + " GPUs, " +
       std::to_string(p.slices.size()) + " kinds of slices, of " + p.project);
  cluster.upsert_other_pod(p);
}

std::string text_of(const Cluster& cluster, const Plan& plan) {
  std::string out;
  for (const Decision& d : plan.decisions) {
    out += std::to_string(static_cast<int>(d.kind)) + " " + d.job + " " + d.assignment.pool + " " +
           d.message + places_of(d.assignment.pods) + "\n";
  }
  for (const auto& id : plan.pending_reasons) {
    const PendingReason& v = *cluster.pending_reason(id);
    out += id + " " + std::string(to_string(v.reason)) + " " + std::to_string(v.position) + " " + v.message +
           (v.estimated_start ? ", starts at " + std::to_string(v.estimated_start->ms) : "") + "\n";
  }
  return out;
}

std::string all(const std::vector<std::string>& sentences) {
  std::string out;
  for (const auto& s : sentences) out += s + "\n";
  return out;
}

}  // namespace muster::placement::testing
