#include "request.h"

#include <algorithm>
#include <type_traits>

#include "wide.h"

namespace muster::placement {
namespace {

// Beyond this in any resource a job is a mistake: a tenth of an exa-something, and sums of many still fit.
constexpr Wide kAbsurd = Wide{1} << 57;

void put(std::string& out, const std::string& s) {
  out += std::to_string(s.size()), out += ':', out += s;
}
void put(std::string& out, std::int64_t n) {
  out += std::to_string(n), out += ';';
}

template <class T, class Put>
void put_list(std::string& out, const T& list, Put&& each) {
  put(out, static_cast<std::int64_t>(list.size()));
  for (const auto& item : list) each(item);
}

void put(std::string& out, const Requirement& r) {
  put(out, r.key);
  put(out, static_cast<std::int64_t>(r.op));
  put_list(out, r.values, [&](const std::string& v) { put(out, v); });
}
void put(std::string& out, const Term& t) {
  put_list(out, t.labels, [&](const Requirement& r) { put(out, r); });
  put_list(out, t.fields, [&](const Requirement& r) { put(out, r); });
}

// Everything that placement looks at, as text without ambiguity.
std::string key_of(const JobSpec& spec) {
  std::string out;
  for (const RoleSpec& r : spec.roles) {
    put(out, r.name);
    put(out, r.replicas);
    put(out, r.gpus);
    for (const auto n : {r.per_pod.gpu.value, r.per_pod.cpu.value, r.per_pod.memory.value, r.per_pod.pods})
      put(out, n);
    put_list(out, r.models, [&](const std::string& m) { put(out, m); });
    put_list(out, r.node_selector, [&](const auto& kv) { put(out, kv.first), put(out, kv.second); });
    put_list(out, r.required,
             [&](const AnyOf& any) { put_list(out, any, [&](const Term& t) { put(out, t); }); });
    put_list(out, r.preferred, [&](const auto& p) { put(out, p.first), put(out, p.second); });
    put_list(out, r.tolerations, [&](const Toleration& t) {
      put(out, t.key), put(out, t.value), put(out, t.effect), put(out, std::int64_t{t.exists});
    });
  }
  out += '/';
  put_list(out, spec.avoid_nodes, [&](const std::string& n) { put(out, n); });
  return out;
}

std::string problem_of(const RoleSpec& r) {
  const std::string who = "role " + r.name + ": ";
  if (r.replicas < 0) return who + "replicas must not be negative";
  if (r.gpus < 0 || r.gpus > 1024) return who + "gpus must be 0 to 1024 per pod";
  if (r.per_pod.gpu.value != r.gpus * kMilliPerGpu) return who + "the GPU amount must be whole GPUs";
  if (r.per_pod.cpu.value < 0 || r.per_pod.memory.value < 0) return who + "requests must not be negative";
  return r.per_pod.pods == 1 ? "" : who + "a pod takes one pod slot";
}

// The sum of all pods, or why there is none.
std::string total_of(const JobSpec& spec, Resources& total) {
  Wide pods = 0, gpu = 0, cpu = 0, memory = 0;
  for (const RoleSpec& r : spec.roles) {
    if (auto problem = problem_of(r); !problem.empty()) return problem;
    pods += r.replicas;
    gpu += static_cast<Wide>(r.per_pod.gpu.value) * r.replicas;
    cpu += static_cast<Wide>(r.per_pod.cpu.value) * r.replicas;
    memory += static_cast<Wide>(r.per_pod.memory.value) * r.replicas;
  }
  if (pods == 0) return "the job has no pods";
  if (pods > 1'000'000) return "more than 1000000 pods";
  if (std::max({gpu, cpu, memory}) > kAbsurd) return "its pods together ask for more than can be counted";
  total.pods = static_cast<std::int64_t>(pods);
  total.gpu.value = static_cast<std::int64_t>(gpu);
  total.cpu.value = static_cast<std::int64_t>(cpu);
  total.memory.value = static_cast<std::int64_t>(memory);
  return "";
}

}  // namespace

bool would_do(const NodeSpec& n, const RoleSpec& r, const std::vector<std::string>& avoid) {
  if (r.gpus > n.gpus) return false;
  const Resources& a = n.allocatable;
  if (r.per_pod.cpu > a.cpu || r.per_pod.memory > a.memory || r.per_pod.pods > a.pods) return false;
  if (r.gpus > 0 && !r.models.empty() &&
      std::find(r.models.begin(), r.models.end(), n.gpu_model) == r.models.end()) {
    return false;
  }
  for (const auto& [key, value] : r.node_selector) {
    const auto found = n.labels.find(key);
    if (found == n.labels.end() || found->second != value) return false;
  }
  for (const AnyOf& terms : r.required) {
    if (!matches(terms, n)) return false;
  }
  return untolerated(n, r.tolerations) == nullptr &&
         std::find(avoid.begin(), avoid.end(), n.name) == avoid.end();
}

RequestId Requests::acquire(const JobSpec& spec) {
  std::string key = key_of(spec);
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    ++at(found->second).users;
    return found->second;
  }
  RequestId id;
  if (free_.empty()) {
    id = static_cast<RequestId>(all_.size());
    all_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  Request& r = at(id);
  r.users = 1;
  r.roles = spec.roles;
  r.avoid = spec.avoid_nodes;
  r.invalid = total_of(spec, r.total);
  r.key = key;
  by_key_.emplace(std::move(key), id);
  return id;
}

void Requests::release(RequestId id) {
  if (id == kNoId || --at(id).users > 0) return;
  by_key_.erase(at(id).key);
  at(id) = Request{};
  free_.push_back(id);
}

void Requests::node_changed(NodeId id, const NodeSpec& spec) {
  for (Request& r : all_) {
    for (std::size_t role = 0; role < r.eligible.size(); ++role) {
      std::vector<bool>& list = r.eligible[role];
      if (list.size() <= static_cast<std::size_t>(id)) list.resize(static_cast<std::size_t>(id) + 1);
      list[static_cast<std::size_t>(id)] = would_do(spec, r.roles[role], r.avoid);
    }
  }
}

}  // namespace muster::placement
