#include "muster/reconcilers/placement/placement_specs.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>

#include "muster/common/quantity.h"
#include "muster/placement/cluster.h"
#include "muster/reconcilers/pods/checkpoint.h"
#include "muster/reconcilers/pods/elastic.h"
#include "muster/reconcilers/pods/gpu_share.h"
#include "muster/reconcilers/pods/names.h"

namespace muster::reconcilers {
namespace {

namespace pl = placement;

// As NVIDIA's feature discovery labels nodes.
constexpr std::string_view kModelLabel = "nvidia.com/gpu.product";
constexpr std::string_view kMemoryLabel = "nvidia.com/gpu.memory";  // MiB of one GPU

constexpr std::string_view kHostnameLabel = "kubernetes.io/hostname";
constexpr std::int64_t kMaxTermWeight = 100;  // in Kubernetes

pl::Bounds to_bounds(const crds::Amounts& a) {
  pl::Bounds b;
  if (a.gpu) b.gpu = pl::MilliGpu{a.gpu->value};
  if (a.cpu) b.cpu = pl::MilliCpu{a.cpu->value};
  if (a.memory) b.memory = pl::Bytes{a.memory->value};
  b.named = a.resources;
  return b;
}
template <class Spec>
pl::Share to_share(const Spec& s) {
  pl::Share share{to_bounds(s.quota), to_bounds(s.reserved), to_bounds(s.limit), s.weight, s.priority};
  for (const auto& [model, amount] : s.quota.models)
    share.quota.named[std::string(common::kModelPrefix) + model] = amount.value;
  return share;
}
template <class Spec>
void fill_shares(const Spec& spec, pl::QueueSpec& q) {
  q.hold = spec.admission != crds::Admission::kOpen;
  q.drain = spec.admission == crds::Admission::kDrain;
  if (spec.drain) q.drain_batch = pl::MilliGpu{spec.drain->max_gpus * pl::kMilliPerGpu};
  q.in_default_pool = to_share(spec);
  for (const auto& p : spec.pools) q.in_pool[p.name] = to_share(p);
  const auto min_runtime = [](const std::optional<crds::Protection>& p) {
    return p && p->min_runtime ? std::optional(to_duration(*p->min_runtime)) : std::nullopt;
  };
  q.reclaim_min_runtime = min_runtime(spec.reclaim);
  q.preempt_min_runtime = min_runtime(spec.preempt);
  if (spec.disruption) {
    q.max_overhead = spec.disruption->max_overhead;
    if (spec.disruption->patience) q.patience = to_duration(*spec.disruption->patience);
  }
  if (spec.lending) {  // stated, and not to these: to none of them, whatever the parent says
    const auto& lent = spec.lending->non_preemptible;
    q.lends_non_preemptible = lent ? to_duration(lent->max_runtime) : pl::Duration{};
  }
}

// What others wrote into a status may be any number.
pl::Duration from_seconds(std::int64_t n) {
  return pl::seconds(std::clamp<std::int64_t>(n, 0, std::numeric_limits<std::int64_t>::max() / 1000));
}
std::optional<pl::Duration> from_seconds(std::optional<std::int64_t> n) {
  return n ? std::optional(from_seconds(*n)) : std::nullopt;
}

pl::NodeOrder to_order(crds::NodeOrder order) {
  return order == crds::NodeOrder::kPack ? pl::NodeOrder::kPack : pl::NodeOrder::kSpread;
}

pl::Sharing to_sharing(const std::optional<crds::Sharing>& s) {
  if (!s) return {};
  constexpr std::array kModes = {pl::SharingMode::kNone, pl::SharingMode::kFraction,
                                 pl::SharingMode::kTimeSlicing, pl::SharingMode::kMps, pl::SharingMode::kMig};
  return {kModes[static_cast<std::size_t>(s->mode)], s->max_clients.value_or(0)};
}

template <class Rule>
pl::TopologyRule to_rule(const Rule& r) {
  return {r.required, r.preferred};
}
std::vector<pl::GroupRule> to_groups(const crds::GangTopology& topology) {
  std::vector<pl::GroupRule> groups;
  for (const auto& g : topology.groups) groups.push_back({g.size, to_rule(g)});
  return groups;
}

pl::RoleSpec to_role(std::string_view name, const PodNeeds& needs, const VolumeTerms* volumes) {
  pl::RoleSpec r;
  r.name = name;
  r.gpus = needs.gpus;
  r.share = needs.share;
  r.numa_aligned = needs.numa_aligned;
  r.per_pod = {pl::MilliGpu{needs.gpus * pl::kMilliPerGpu}, pl::MilliCpu{needs.requests.cpu.value},
               pl::Bytes{needs.requests.memory.value}, 1};
  r.named = needs.requests.named;
  r.models = needs.gpu_models;
  r.labels = needs.labels;
  r.node_selector = needs.node_selector;
  const auto selected = r.node_selector.find(std::string(kModelLabel));
  if (r.gpus > 0 && r.models.empty() && selected != r.node_selector.end()) r.models = {selected->second};
  if (!needs.required.empty()) r.required.push_back(needs.required);
  if (volumes != nullptr) {
    r.required.insert(r.required.end(), volumes->required.begin(), volumes->required.end());
  }
  for (const auto& p : needs.preferred) r.preferred.emplace_back(p.weight, p.term);
  r.tolerations = needs.tolerations;
  r.pod_affinity = needs.pod_affinity;
  r.pod_anti_affinity = needs.pod_anti_affinity;
  r.preferred_pods = needs.preferred_pods;
  r.spread = needs.spread;
  return r;
}

std::int32_t index_of(const std::vector<crds::Role>& roles, std::string_view name) {
  const auto found = std::ranges::find(roles, name, &crds::Role::name);
  return found == roles.end() ? -1 : static_cast<std::int32_t>(found - roles.begin());
}

std::int32_t gpu_count(std::int64_t stated) {
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(stated, 0, kMaxGpusOfNode));
}

// What extended resources are of GPUs, listed by a node or asked for by a pod.
struct Devices {
  std::int32_t gpus = 0;
  std::map<std::string, std::int32_t> slices;  // by MIG profile
};
Devices devices_in(const client::Extended& amounts, const std::set<std::string>& gpu_resources) {
  Devices d;
  for (const auto& [resource, count] : amounts) {
    if (gpu_resources.contains(resource)) d.gpus += gpu_count(count);
    if (resource.starts_with(kMigPrefix) && count > 0)
      d.slices[resource.substr(kMigPrefix.size())] = gpu_count(count);
  }
  return d;
}

// The others: what placement counts by name.
pl::NamedAmounts named_in(const client::Extended& amounts, const std::set<std::string>& gpu_resources) {
  pl::NamedAmounts named;
  for (const auto& [resource, count] : amounts) {
    if (count > 0 && !gpu_resources.contains(resource) && !resource.starts_with(kMigPrefix))
      named.emplace(resource, count);
  }
  return named;
}

// -1: no link.
int rank_of_link(std::string_view word) {
  constexpr std::array<std::string_view, 5> kWords = {"SYS", "NODE", "PHB", "PXB", "PIX"};
  const auto found = std::ranges::find(kWords, word);
  if (found != kWords.end()) return static_cast<int>(found - kWords.begin()) + 1;
  int lanes = 0;
  if (!word.starts_with("NV")) return -1;
  word.remove_prefix(2);
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), lanes);
  const bool read = error == std::errc() && end == word.data() + word.size() && lanes > 0 && lanes < 1000;
  return read ? static_cast<int>(kWords.size()) + lanes : -1;
}

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t begin = text.find_first_not_of(separators);
    if (begin == std::string_view::npos) return words;
    text.remove_prefix(begin);
    const std::size_t end = std::min(text.find_first_of(separators), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

// By the value that the role's own pods have.
pl::Requirement by_own(const pl::RoleSpec& role, std::string_view label, pl::Operator op) {
  const auto found = role.labels.find(std::string(label));
  return {std::string(label), op, {found == role.labels.end() ? std::string() : found->second}};
}

bool has_taint(const client::Node& node, std::string_view key) {
  return std::ranges::any_of(node.taints, [&](const client::Taint& t) { return t.key == key; });
}

}  // namespace

bool is_in_maintenance(const client::Node& node) {
  return has_taint(node, kMaintenanceTaint);
}
bool is_out_of_service(const client::Node& node) {
  return has_taint(node, kOutOfServiceTaint);
}
std::string model_of(const client::Node& node) {
  const auto* model = client::find_value(node.labels, kModelLabel);
  return model == nullptr ? std::string() : *model;
}
std::vector<std::int32_t> unhealthy_gpus(const client::Node& node) {
  const auto* text = client::find_value(node.annotations, kGpuUnhealthyAnnotation);
  return text == nullptr ? std::vector<std::int32_t>{} : parse_gpu_list(*text);
}
pl::Time to_time(const std::optional<crds::Time>& t) {
  return t ? pl::Time{std::chrono::duration_cast<std::chrono::milliseconds>(t->time_since_epoch()).count()}
           : pl::Time{};
}

pl::WorkTime to_work_time(std::int64_t seconds) {
  constexpr std::int64_t kOfOne = pl::kMilliPerGpu * 1000;
  return {std::clamp<std::int64_t>(seconds, 0, std::numeric_limits<std::int64_t>::max() / kOfOne) * kOfOne};
}

std::int64_t to_seconds(pl::WorkTime work) {
  constexpr std::int64_t kOfOne = pl::kMilliPerGpu * 1000;
  return work.value <= 0 ? 0 : (work.value - 1) / kOfOne + 1;
}

pl::Duration to_duration(crds::Duration d) {
  return {std::chrono::duration_cast<std::chrono::milliseconds>(d).count()};
}

crds::AmountsByModel to_amounts(const pl::Cluster& cluster, const pl::Resources& r) {
  crds::AmountsByModel amounts(
      crds::Amounts{crds::MilliGpu{r.gpu.value}, crds::MilliCpu{r.cpu.value}, crds::Bytes{r.memory.value}});
  for (auto& [name, amount] : cluster.accounted(r)) {
    if (name.starts_with(common::kModelPrefix)) {
      amounts.models[name.substr(common::kModelPrefix.size())] = crds::MilliGpu{amount};
    } else {
      amounts.resources[name] = amount;
    }
  }
  return amounts;
}

crds::Waiting to_waiting(const pl::PendingReason& v) {
  crds::Waiting w;
  w.position = v.position;
  w.project_position = v.project_position;
  w.reason = pl::to_string(v.reason);
  w.message = v.message;
  // To the minute: nobody knows better, and it is not written anew for less.
  if (v.estimated_start) {
    const std::chrono::sys_time<std::chrono::milliseconds> start{
        std::chrono::milliseconds{v.estimated_start->ms}};
    w.estimated_start = std::chrono::ceil<std::chrono::minutes>(start);
    w.estimated_start_from =
        v.estimated_from_history ? crds::EstimateSource::kHistory : crds::EstimateSource::kDeclaredRunTimes;
  }
  for (const auto& b : v.blocking) {
    w.blocking.push_back({b.resource, b.pool, common::format_resource(b.resource, b.need),
                          common::format_resource(b.resource, b.have), b.by});
  }
  return w;
}

pl::PoolSpec pool_spec(const crds::NodePool& pool) {
  pl::PoolSpec spec;
  spec.name = pool.metadata.name;
  spec.order = to_order(pool.spec.placement.nodes);
  spec.gpu_order = to_order(pool.spec.placement.gpus);
  spec.sharing = to_sharing(pool.spec.sharing);
  spec.memory_overcommit_milli = pool.spec.overcommit.gpu_memory.value;
  spec.reservation_after = to_duration(pool.spec.reservation.after);
  spec.topology = pool.spec.topology;
  spec.is_default = pool.spec.is_default;
  spec.gpu_resource = pool.spec.gpu_resource;
  for (const auto& [key, value] : pool.spec.node_selector.match_labels) {
    spec.selector.push_back({key, pl::Operator::kIn, {value}});
  }
  for (const auto& e : pool.spec.node_selector.match_expressions) {
    spec.selector.push_back({e.key, static_cast<pl::Operator>(e.op), e.values});
  }
  return spec;
}

pl::QueueSpec queue_spec(const crds::Queue& queue) {
  pl::QueueSpec spec;
  spec.name = queue.metadata.name;
  spec.parent = queue.spec.parent;
  spec.created = to_time(queue.metadata.creation_timestamp);
  if (queue.spec.fairness) spec.half_life = to_duration(queue.spec.fairness->half_life);
  fill_shares(queue.spec, spec);
  return spec;
}

pl::QueueSpec queue_spec(const crds::Project& project) {
  pl::QueueSpec spec;
  spec.name = project.metadata.name;
  spec.parent = project.spec.queue;
  spec.is_project = true;
  spec.created = to_time(project.metadata.creation_timestamp);
  fill_shares(project.spec, spec);
  return spec;
}

std::expected<std::vector<std::vector<int>>, std::string> parse_gpu_links(std::string_view text) {
  const std::string allowed =
      "must be the matrix of `nvidia-smi topo -m`, rows separated by newlines or semicolons, of X, NV#, PIX, "
      "PXB, PHB, NODE and SYS, the same in both directions";
  std::vector<std::vector<int>> links;
  for (const std::string_view row : split(text, "\n;")) {
    const auto words = split(row, " \t,\r");
    if (words.empty()) continue;
    const bool is_named = words[0].starts_with("GPU");
    const bool is_row = words[0] == "X" || rank_of_link(words[0]) >= 0 || is_named;
    // Rows of NICs, the legend, and the header, in which a second GPU follows the first.
    if (!is_row || (is_named && words.size() > 1 && words[1].starts_with("GPU"))) continue;
    auto& ranks = links.emplace_back();
    for (const std::string_view word : words) {
      if (word.starts_with("GPU") && ranks.empty()) continue;  // the name of the row
      const int rank = word == "X" ? 0 : rank_of_link(word);
      // What follows the matrix: CPU and NUMA affinity.
      if (rank < 0 && (std::isdigit(static_cast<unsigned char>(word[0])) != 0 || word == "N/A")) break;
      if (rank < 0) return std::unexpected(allowed);
      ranks.push_back(rank);
    }
  }
  // NICs may stand behind the GPUs: only the square of rows that are there counts.
  for (std::size_t i = 0; i < links.size(); ++i) {
    if (links[i].size() < links.size() || links[i][i] != 0) return std::unexpected(allowed);
    links[i].resize(links.size());
  }
  for (std::size_t i = 0; i < links.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (links[i][j] != links[j][i] || links[i][j] == 0) return std::unexpected(allowed);
    }
  }
  if (links.empty()) return std::unexpected(allowed);
  return links;
}

std::expected<std::vector<std::int32_t>, std::string> parse_gpu_numa(std::string_view text) {
  auto list = parse_numbers(text, kMaxGpusOfNode);
  if (!list || list->empty())
    return std::unexpected("must be the NUMA node of each GPU, from 0, separated by commas: 0,0,1,1");
  return *std::move(list);
}

pl::NodeSpec node_spec(const client::Node& node, const std::set<std::string>& gpu_resources) {
  pl::NodeSpec s;
  s.name = node.meta.name;
  for (const auto& [key, value] : node.labels) s.labels.emplace(key, value);
  for (const auto& t : node.taints) s.taints.push_back({t.key, t.value, t.effect});
  s.usable = node.ready && !node.unschedulable && !node.deleting && !is_in_maintenance(node) &&
             !is_out_of_service(node);
  s.unhealthy = unhealthy_gpus(node);
  Devices devices = devices_in(node.extended, gpu_resources);
  s.gpus = devices.gpus;
  s.mig = std::move(devices.slices);
  s.gpu_model = model_of(node);
  if (const auto* memory = client::find_value(node.labels, kMemoryLabel)) {
    const auto mib = parse_numbers(*memory, std::numeric_limits<std::int32_t>::max());
    if (mib && mib->size() == 1) s.gpu_memory = pl::Bytes{std::int64_t{mib->front()} << 20};
  }
  const auto gpus = static_cast<std::size_t>(s.gpus);
  if (const auto* text = client::find_value(node.annotations, kGpuLinksAnnotation)) {
    if (auto links = parse_gpu_links(*text); links && links->size() == gpus) s.gpu_links = *std::move(links);
  }
  if (const auto* text = client::find_value(node.annotations, kGpuNumaAnnotation)) {
    if (auto numa = parse_gpu_numa(*text); numa && numa->size() == gpus) s.gpu_numa = *std::move(numa);
  }
  s.allocatable = {pl::MilliGpu{s.gpus * pl::kMilliPerGpu}, pl::MilliCpu{node.milli_cpu},
                   pl::Bytes{node.memory_bytes}, node.pods};
  s.named = named_in(node.extended, gpu_resources);
  return s;
}

pl::JobSpec job_spec(const crds::TrainingJob& job, std::string project, std::int32_t priority,
                     const std::vector<PodNeeds>& needs, const std::vector<VolumeTerms>& volumes) {
  pl::JobSpec s;
  s.id = client::make_key(job.metadata.ns, job.metadata.name);
  s.project = std::move(project);
  s.priority = priority;
  s.preemptible = crds::is_preemptible(job.spec);
  s.interactive = job.spec.mode == crds::Mode::kInteractive;
  s.submitted = to_time(job.metadata.creation_timestamp);
  s.pools = job.spec.pools;
  s.topology = to_rule(job.spec.topology);
  s.groups = to_groups(job.spec.topology);
  const auto most = most_by_role(job.spec);
  for (std::size_t r = 0; r < job.spec.roles.size() && r < needs.size(); ++r) {
    const crds::Role& role = job.spec.roles[r];
    pl::RoleSpec spec = to_role(role.name, needs[r], r < volumes.size() ? &volumes[r] : nullptr);
    spec.replicas = crds::least_replicas(role);
    spec.max_replicas = most[r];
    spec.topology = to_rule(role.topology);
    spec.colocate_with = role.colocate_with.empty() ? -1 : index_of(job.spec.roles, role.colocate_with);
    for (auto& [key, value] : labels_of_pods(job, role)) spec.labels.insert_or_assign(key, std::move(value));
    s.roles.push_back(std::move(spec));
  }
  for (const auto& refusal : job.status.node_refusals) s.avoid_nodes.push_back(refusal.node);
  if (job.spec.max_runtime) {
    // The time that earlier attempts ran counts. A job whose time is over is ended by its own reconciler.
    const auto left = *job.spec.max_runtime - std::chrono::seconds{job.status.run_seconds};
    s.max_runtime = to_duration(std::max(left, crds::Duration{0}));
  }
  if (job.spec.checkpoint && job.spec.checkpoint->interval) {
    s.checkpoint_interval = to_duration(*job.spec.checkpoint->interval);
  }
  s.grow_after = s.grow_quiet = to_duration(crds::grow_after_of(job.spec));
  s.grace_period = from_seconds(grace_seconds(job.spec));
  s.resizes_in_place = crds::resizes_in_place(job.spec);
  return s;
}

void keep_apart(pl::JobSpec& job, const crds::ReplicaPlacement& placement) {
  for (pl::RoleSpec& role : job.roles) {
    // Those of another revision may stand beside it: else a rollout would need a free domain for each replica
    // that it makes before another goes.
    pl::PodTerm others;
    others.selector = {by_own(role, kServiceLabel, pl::Operator::kIn),
                       by_own(role, kRevisionLabel, pl::Operator::kIn),
                       by_own(role, kJobLabel, pl::Operator::kNotIn)};
    others.topology_key = placement.topology;
    if (placement.spread == crds::ReplicaSpread::kPreferred) {
      role.preferred_pods.emplace_back(-kMaxTermWeight, std::move(others));
      continue;
    }
    role.pod_anti_affinity.push_back(std::move(others));
    // A node without the label is in no domain, so that nothing would keep a second replica from it.
    if (placement.topology != kHostnameLabel)
      role.required.push_back(
          {pl::Term{.labels = {{placement.topology, pl::Operator::kExists, {}}}, .fields = {}}});
  }
}

void keep_ports_apart(pl::JobSpec& job, const std::vector<PodNeeds>& needs) {
  for (std::size_t r = 0; r < job.roles.size() && r < needs.size(); ++r) {
    if (!needs[r].host_network) continue;
    pl::RoleSpec& role = job.roles[r];
    pl::PodTerm others;
    others.selector = {by_own(role, kServiceLabel, pl::Operator::kIn),
                       by_own(role, kRoleLabel, pl::Operator::kIn),
                       by_own(role, kJobLabel, pl::Operator::kNotIn)};
    others.topology_key = kHostnameLabel;
    role.pod_anti_affinity.push_back(std::move(others));
  }
}

pl::Progress progress_spec(const crds::TrainingJobSpec& spec, const crds::TrainingJobStatus& status) {
  const auto& a = status.assignment;
  const auto& known = status.disruption;
  pl::Progress p;
  p.began = to_time(a.admitted_at);
  if (status.checkpoint.saved_at) p.saved = to_time(status.checkpoint.saved_at);
  if (crds::is_elastic(spec) || a.resized_at) p.resized = std::max(p.began, to_time(a.resized_at));
  p.is_starting = a.attempt != 0 && !status.started_at;
  p.start_took = from_seconds(known.start_seconds);
  if (!p.start_took && status.started_at && a.admitted_at)
    p.start_took = to_duration(*status.started_at - *a.admitted_at);
  const bool has_saved = status.checkpoint.step || status.checkpoint.saved_at;
  p.saves_when_asked = known.saves_when_asked.value_or(spec.checkpoint || has_saved);
  if (status.checkpoint.save_seconds > 0) p.save_took = from_seconds(status.checkpoint.save_seconds);
  p.resize_took = from_seconds(known.resize_seconds);
  p.ran = to_work_time(known.ran);
  p.lost = to_work_time(known.lost_optional);
  p.is_ready = status.started_at && a.replaces.attempt == 0 && status.ready_replicas > 0 &&
               status.ready_replicas >= static_cast<std::int32_t>(a.pods.size());
  return p;
}

pl::Assignment assignment_spec(const std::vector<crds::Role>& roles, const crds::Assignment& assignment,
                               pl::Time since) {
  pl::Assignment out{assignment.pool, since, {}};
  for (const auto& p : assignment.pods)
    out.pods.push_back({index_of(roles, p.role), p.index, p.node, p.gpus});
  return out;
}

pl::OtherPod other_pod(const client::Pod& pod, std::string project,
                       const std::set<std::string>& gpu_resources, bool may_share) {
  pl::OtherPod o;
  o.key = pod.meta.key();
  o.node = pod.node_name;
  for (const auto& [key, value] : pod.labels) o.labels.emplace(key, value);
  o.labels.insert(pod.other_labels.begin(), pod.other_labels.end());
  o.gpus = gpus_of(pod);
  Devices devices = devices_in(pod.extended, gpu_resources);
  o.amounts = {pl::MilliGpu{devices.gpus * pl::kMilliPerGpu}, pl::MilliCpu{pod.milli_cpu},
               pl::Bytes{pod.memory_bytes}, 1};
  o.named = named_in(pod.extended, gpu_resources);
  if (const auto* text = share_of(pod); text != nullptr && may_share) {
    auto [share, count] = read_share(*text);
    o.share = std::move(share);
    o.gpu_count = o.share.kind == pl::GpuShare::Kind::kMig ? count : gpu_count(std::ssize(o.gpus));
  } else {
    o.gpu_count = devices.gpus;
    o.slices = std::move(devices.slices);
  }
  if (o.gpus.size() > static_cast<std::size_t>(o.gpu_count)) o.gpus.clear();
  o.project = std::move(project);
  return o;
}

}  // namespace muster::reconcilers
