#include "rows/rows.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <ranges>
#include <string>
#include <utility>

#include "muster/crds/gpu_labels.h"

namespace muster::ui {
namespace {

using crds::Json;

Text text_of(const Json& row) {
  return std::make_shared<const std::string>(row.dump(-1, ' ', false, Json::error_handler_t::replace));
}

// Writes only what says something: a row is sent again whenever it changes.
class Fields {
 public:
  void put(const char* name, const std::string& text) {
    if (!text.empty()) json_[name] = text;
  }
  void put(const char* name, std::int64_t number) {
    if (number != 0) json_[name] = number;
  }
  void put(const char* name, const std::optional<crds::Time>& time) {
    if (time) json_[name] = seconds_of(*time);
  }
  // Its GPUs.
  void put(const char* name, const crds::Amounts& amounts) {
    if (amounts.gpu) put(name, amounts.gpu->value);
  }
  void put(const char* name, Json list) {
    if (!list.empty()) json_[name] = std::move(list);
  }
  Json take() { return std::move(json_); }

 private:
  Json json_ = Json::object();
};

template <class Kind>
client::Result<Kind> read(std::string_view json) {
  auto object = crds::from_text<Kind>(json);
  if (object) return std::move(*object);
  return std::unexpected(
      client::Error{.code = client::ErrorCode::kDecode, .message = crds::to_string(object.error())});
}

client::Meta meta_of(const crds::ObjectMeta& m) {
  return {m.ns, m.name, m.uid, m.resource_version};
}

// What was useful is left for the page to compute: it is the rest.
Json usage_json(const crds::UsageDay& day) {
  const crds::Usage& u = day.sum;
  Fields f;
  f.put("held", u.gpu_seconds);
  f.put("starting", u.starting);
  f.put("saving", u.saving);
  f.put("idle", u.idle);
  f.put("lost", u.lost);
  if (u.cost) f.put("cost", u.cost->value);  // thousandths
  f.put("starts", day.waits.starts);
  f.put("waited", day.waits.seconds);
  f.put("longest", day.waits.longest);
  return f.take();
}

Text usage_row(const crds::UsageStatus& usage) {
  if (!usage.until && usage.days.empty()) return nullptr;
  Fields f;
  f.put("until", usage.until);
  Json days = Json::object();
  for (const auto& day : usage.days) days[day.date] = usage_json(day);
  f.put("days", std::move(days));
  return text_of(f.take());
}

// Of Queues and Projects, which have the same.
template <class Kind>
void put_shares(Fields& f, const Kind& kind) {
  f.put("quota", kind.spec.quota);
  f.put("limit", kind.spec.limit);
  f.put("fair", kind.status.fair_share);
  f.put("used", kind.status.allocated);
  f.put("borrowed", kind.status.borrowed);
  f.put("pending", kind.status.pending);
  f.put("running", kind.status.running);
  f.put("waiting", kind.status.waiting);
  Json pools = Json::object();
  for (const auto& stated : kind.spec.pools) {
    Fields of_pool;
    of_pool.put("quota", stated.quota);
    pools[stated.name] = of_pool.take();
  }
  for (const auto& pool : kind.status.pools) {
    Fields of_pool;
    of_pool.put("fair", pool.fair_share);
    of_pool.put("used", pool.allocated);
    of_pool.put("borrowed", pool.borrowed);
    of_pool.put("pending", pool.pending);
    pools[pool.name].update(of_pool.take());
  }
  f.put("pools", std::move(pools));
}

void put_waiting(Fields& f, const crds::Waiting& w) {
  f.put("reason", w.reason);
  f.put("message", w.message);
  f.put("position", w.position);
  f.put("projectPosition", w.project_position);
  f.put("eta", w.estimated_start);
}

std::string first_pool(const crds::TrainingJob& job) {
  if (!job.status.assignment.pool.empty()) return job.status.assignment.pool;
  if (!job.spec.pools.empty()) return job.spec.pools.front();
  return job.status.effective.pools.empty() ? "" : job.status.effective.pools.front();
}

// [["node",[0,1]],…]: an array is half as long as an object would be.
Text places_row(const crds::TrainingJob& job) {
  Json places = Json::array();
  for (const auto& pod : job.status.assignment.pods) {
    if (!pod.gpus.empty()) places.push_back(Json::array({pod.node, pod.gpus}));
  }
  return places.empty() ? nullptr : text_of(places);
}

crds::MilliGpu gpus_of_pod(const crds::Role& role, const crds::TrainingJobStatus& status) {
  if (role.gpus) {
    if (role.gpus->memory) return {};
    const std::int64_t each = role.gpus->fraction ? role.gpus->fraction->value : 1000;
    return {each * crds::devices_of(*role.gpus)};
  }
  const auto given = std::ranges::find(status.effective.roles, role.name, &crds::EffectiveRole::name);
  if (given == status.effective.roles.end() || !given->gpus) return {};
  return {given->gpus->count * std::int64_t{1000}};
}

// As its annotation has them: "3,5". What is no number is passed over.
std::vector<std::int32_t> unhealthy_gpus(const client::Node& node) {
  const std::string* text = client::find_value(node.annotations, "muster.dev/gpu-unhealthy");
  std::vector<std::int32_t> gpus;
  for (const auto part : std::views::split(std::string_view(text == nullptr ? "" : *text), ',')) {
    std::int32_t gpu = 0;
    const std::string_view word(part.begin(), part.end());
    const auto read = std::from_chars(word.data(), word.data() + word.size(), gpu);
    if (read.ec == std::errc() && read.ptr == word.data() + word.size()) gpus.push_back(gpu);
  }
  return gpus;
}

bool is_selected(const PoolRow& pool, const client::Node& node) {
  crds::StringMap labels;
  for (const auto& [key, value] : node.labels) labels.emplace(key.str(), value);
  return crds::matches(pool.spec.node_selector, labels);
}

}  // namespace

std::int64_t seconds_of(crds::Time time) {
  return time.time_since_epoch().count();
}

crds::MilliGpu wanted_gpus(const crds::TrainingJob& job) {
  crds::MilliGpu sum;
  for (const auto& role : job.spec.roles) sum += gpus_of_pod(role, job.status) * crds::least_replicas(role);
  return sum;
}

client::Result<Row> queue_row(std::string_view json) {
  const auto queue = read<crds::Queue>(json);
  if (!queue) return std::unexpected(queue.error());
  Fields f;
  f.put("parent", queue->spec.parent);
  put_shares(f, *queue);
  if (queue->spec.admission != crds::Admission::kOpen)
    f.put("admission", std::string(crds::to_string(queue->spec.admission)));
  return Row{meta_of(queue->metadata), text_of(f.take()), usage_row(queue->status.usage)};
}

client::Result<Row> project_row(std::string_view json) {
  const auto project = read<crds::Project>(json);
  if (!project) return std::unexpected(project.error());
  Fields f;
  f.put("queue", project->spec.queue);
  f.put("namespace", crds::namespace_of(*project));
  put_shares(f, *project);
  return Row{meta_of(project->metadata), text_of(f.take()), usage_row(project->status.usage)};
}

client::Result<Row> job_row(std::string_view json) {
  const auto job = read<crds::TrainingJob>(json);
  if (!job) return std::unexpected(job.error());
  const auto& s = job->status;
  Fields f;
  // The page asks for the details of a job again when this has changed.
  f.put("version", job->metadata.resource_version);
  f.put("created", job->metadata.creation_timestamp);
  if (s.phase) f.put("phase", std::string(crds::to_string(*s.phase)));
  f.put("pool", first_pool(*job));
  if (!job->spec.array) {  // what its indexes hold and ask for is in their rows
    f.put("gpus", s.allocated);
    f.put("wants", wanted_gpus(*job).value);
  }
  f.put("pods", s.pods);
  f.put("started", s.started_at);
  f.put("finished", s.finished_at);
  if (crds::is_true(s.conditions, "Idle")) f.put("idle", 1);
  const auto service = job->metadata.labels.find("muster.dev/service");
  if (service != job->metadata.labels.end()) f.put("service", service->second);
  if (s.phase == crds::Phase::kQueued) put_waiting(f, s.queue);
  return Row{meta_of(job->metadata), text_of(f.take()), places_row(*job)};
}

client::Result<Row> service_row(std::string_view json) {
  const auto service = read<crds::InferenceService>(json);
  if (!service) return std::unexpected(service.error());
  const auto& s = service->status;
  Fields f;
  f.put("created", service->metadata.creation_timestamp);
  f.put("wanted", crds::size_of(*service));
  f.put("replicas", s.replicas);
  f.put("ready", s.ready_replicas);
  f.put("updated", s.updated_replicas);
  f.put("gpus", s.allocated);
  f.put("url", s.url);
  put_waiting(f, s.queue);
  if (const auto& scaling = service->spec.autoscaling) {
    const crds::ScalingMetric first = crds::metrics_of(*scaling).front();
    f.put("metric", first.metric ? std::string(crds::to_string(*first.metric)) : first.name);
    f.put("target", crds::to_string(first.target));
    f.put("least", scaling->min_replicas);
    f.put("most", scaling->max_replicas);
  }
  Json conditions = Json::object();
  for (const auto& c : s.conditions) {
    Fields of_one;
    of_one.put("true", c.status == crds::ConditionStatus::kTrue ? 1 : 0);
    of_one.put("reason", c.reason);
    of_one.put("message", c.message);
    conditions[c.type] = of_one.take();
  }
  f.put("conditions", std::move(conditions));
  return Row{meta_of(service->metadata), text_of(f.take()), nullptr, sample_of(*service)};
}

client::Result<PoolRow> pool_row(std::string_view json) {
  auto pool = read<crds::NodePool>(json);
  if (!pool) return std::unexpected(pool.error());
  const auto& s = pool->status;
  Fields f;
  f.put("default", pool->spec.is_default ? 1 : 0);
  f.put("nodes", s.nodes);
  f.put("capacity", s.capacity);
  f.put("free", s.free);
  if (s.largest_gang) f.put("largestGang", s.largest_gang->value);
  Json failing = Json::object();
  for (const auto& f_node : s.failing_gpus) failing[f_node.node] = f_node.gpus;
  f.put("failing", std::move(failing));
  Json days = Json::object();  // what it had, and of that what nobody held
  for (const auto& day : s.usage.days)
    days[day.date] = {{"had", day.gpu_seconds}, {"unallocated", day.unallocated}};
  f.put("days", std::move(days));
  return PoolRow{meta_of(pool->metadata), text_of(f.take()), std::move(pool->spec)};
}

Text node_row(const client::Node& node, const std::vector<const PoolRow*>& pools) {
  constexpr std::int64_t kMostGpus = 1024;  // of a node; more is a mistake, and would fill the page
  for (const PoolRow* pool : pools) {
    const std::int64_t gpus = client::amount_of(node.extended, pool->spec.gpu_resource);
    if (gpus <= 0 || !is_selected(*pool, node)) continue;
    Fields f;
    f.put("pool", pool->meta.name);
    f.put("gpus", std::min(gpus, kMostGpus));
    const auto value = [&](const std::string& label) { return client::find_value(node.labels, label); };
    f.put("model", crds::gpus_of_node(crds::gpu_labels_of(pool->spec), value).model);
    f.put("unhealthy", Json(unhealthy_gpus(node)));
    if (!node.ready)
      f.put("state", std::string("NotReady"));
    else if (node.unschedulable)
      f.put("state", std::string("Cordoned"));
    return text_of(f.take());
  }
  return nullptr;
}

}  // namespace muster::ui
