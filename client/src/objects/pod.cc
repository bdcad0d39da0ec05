#include "muster/client/pod.h"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "muster/common/quantity.h"
#include "muster/common/saturating.h"
#include "objects/object_reader.h"

namespace muster::client {

using namespace reader;

namespace {

using common::saturating_add;

struct Amounts {
  std::int64_t milli_cpu = 0, memory_bytes = 0;
  std::map<std::string, std::int64_t, std::less<>> extended;

  // Each amount of ours becomes fn(it, that of `other`).
  template <class Fn>
  void combine(const Amounts& other, Fn fn) {
    milli_cpu = fn(milli_cpu, other.milli_cpu);
    memory_bytes = fn(memory_bytes, other.memory_bytes);
    for (const auto& [resource, amount] : other.extended) {
      std::int64_t& ours = extended[resource];
      ours = fn(ours, amount);
    }
  }
  void add(const Amounts& other) { combine(other, saturating_add); }
  void raise_to(const Amounts& other) {
    combine(other, [](std::int64_t a, std::int64_t b) { return std::max(a, b); });
  }
};

// What a pod asks for as the scheduler counts it (k8s.io/component-helpers/resource, PodRequests): containers
// and sidecars together, or the init container with the sidecars started before it, whichever is more of each
// resource; a pod-level request instead, where there is one; and the overhead. While a container is resized
// in place it counts with the larger of what its spec asks for now and what its status says it has.
struct Requests {
  struct Container {
    std::string_view name;  // valid as long as the parsed document, as the names below
    bool is_init = false, restarts = false;
    Amounts asked;
  };
  struct Given {
    std::string_view name;
    std::int64_t milli_cpu = 0, memory_bytes = 0;  // nothing else can be resized
  };
  std::vector<Container> stated;  // in order
  std::vector<Given> given;
  bool is_infeasible = false;  // what the spec asks for now will never be given
  Amounts overhead;
  std::optional<std::int64_t> pod_cpu, pod_memory;
  Amounts pod_level;  // huge pages: nothing else can be asked for at the level of the pod

  static void read(Value& list, Amounts& out, std::string_view field) {
    each_field(list, [&](std::string_view resource, Value& value) {
      if (resource == "cpu") {
        out.milli_cpu = quantity(value, 1000, field);
      } else if (resource == "memory") {
        out.memory_bytes = quantity(value, 1, field);
      } else if (is_other_resource(resource)) {
        out.extended[std::string(resource)] = quantity(value, 1, field);
      }
    });
  }
  void read_pod_level(Value& list) {
    each_field(list, [&](std::string_view resource, Value& value) {
      constexpr std::string_view kField = "spec.resources.requests";
      if (resource == "cpu") pod_cpu = quantity(value, 1000, kField);
      if (resource == "memory") pod_memory = quantity(value, 1, kField);
      if (resource.starts_with("hugepages-"))
        pod_level.extended[std::string(resource)] = quantity(value, 1, kField);
    });
  }

  void read_container(Value& container, bool is_init) {
    Container& c = stated.emplace_back();
    c.is_init = is_init;
    each_field(container, [&](std::string_view key, Value& value) {
      if (key == "name") {
        c.name = text(value);
      } else if (key == "resources") {
        each_field(value, [&](std::string_view part, Value& list) {
          if (part == "requests") {
            read(list, c.asked,
                 is_init ? "spec.initContainers[].resources.requests"
                         : "spec.containers[].resources.requests");
          }
        });
      } else if (is_init && key == "restartPolicy") {
        c.restarts = text(value) == "Always";
      }
    });
  }

  // Of status.containerStatuses and its like.
  void read_given(Value& list, Given& out) {
    each_field(list, [&](std::string_view resource, Value& value) {
      constexpr std::string_view kField = "status.containerStatuses[].resources";
      if (resource == "cpu") out.milli_cpu = std::max(out.milli_cpu, quantity(value, 1000, kField));
      if (resource == "memory") out.memory_bytes = std::max(out.memory_bytes, quantity(value, 1, kField));
    });
  }

  Amounts asked_by(const Container& c) const {
    Amounts asked = c.asked;
    const auto has =
        std::find_if(given.begin(), given.end(), [&](const Given& g) { return g.name == c.name; });
    if (has == given.end() || (c.is_init && !c.restarts)) return asked;
    const auto larger = [&](std::int64_t& ours, std::int64_t theirs) {
      if (theirs > 0) ours = is_infeasible ? theirs : std::max(ours, theirs);
    };
    larger(asked.milli_cpu, has->milli_cpu);
    larger(asked.memory_bytes, has->memory_bytes);
    return asked;
  }

  Amounts total() const {
    Amounts sum, sidecars, init;
    for (const Container& c : stated) {
      Amounts asked = asked_by(c);
      if (!c.is_init) {
        sum.add(asked);
      } else if (c.restarts) {
        sidecars.add(asked);
        init.raise_to(sidecars);
      } else {
        asked.add(sidecars);
        init.raise_to(asked);
      }
    }
    sum.add(sidecars);
    sum.raise_to(init);
    sum.milli_cpu = pod_cpu.value_or(sum.milli_cpu);
    sum.memory_bytes = pod_memory.value_or(sum.memory_bytes);
    for (const auto& [resource, amount] : pod_level.extended) sum.extended[resource] = amount;
    sum.add(overhead);
    return sum;
  }
};

auto among(const std::vector<std::string>& names) {
  return [&names](std::string_view key) { return std::find(names.begin(), names.end(), key) != names.end(); };
}

void read_labels(Value& labels, const PodFields& fields, Pod& pod) {
  const auto is_asked_for = among(fields.labels);
  each_field(labels, [&](std::string_view key, Value& value) {
    if (is_asked_for(key)) {
      pod.labels.emplace_back(key, text(value));
    } else if (fields.other_labels) {
      pod.other_labels.emplace_back(key, text(value));
    }
  });
  std::sort(pod.labels.begin(), pod.labels.end());
  std::sort(pod.other_labels.begin(), pod.other_labels.end());
  pod.labels.shrink_to_fit();
  pod.other_labels.shrink_to_fit();
}

void read_metadata(Value& metadata, const PodFields& fields, Pod& pod) {
  each_field(metadata, [&](std::string_view key, Value& value) {
    if (read_meta_field(key, value, pod.meta)) return;
    if (key == "labels") {
      read_labels(value, fields, pod);
    } else if (key == "annotations") {
      if (!fields.annotations.empty()) pod.annotations = read_pairs(value, among(fields.annotations));
    } else if (key == "creationTimestamp") {
      pod.created_at = unix_seconds(value, "metadata.creationTimestamp");
    } else if (key == "deletionTimestamp") {
      pod.deleted_at = unix_seconds(value, "metadata.deletionTimestamp");
      pod.deleting = true;
    } else if (key == "deletionGracePeriodSeconds") {
      pod.grace_seconds = value.get_int64();
    } else if (key == "ownerReferences") {
      each_element(value, [&](Value& reference) {
        std::string_view uid;
        bool controls = false;
        each_field(reference, [&](std::string_view k, Value& v) {
          if (k == "uid") uid = text(v);
          if (k == "controller") controls = v.get_bool();
        });
        if (controls) pod.owner_uid = std::string{uid};
      });
    }
  });
}

void read_spec(Value& spec, Requests& requests, Pod& pod) {
  each_field(spec, [&](std::string_view key, Value& value) {
    if (key == "nodeName") {
      pod.node_name = std::string{text(value)};
    } else if (key == "containers") {
      each_element(value, [&](Value& container) { requests.read_container(container, false); });
    } else if (key == "initContainers") {
      each_element(value, [&](Value& container) { requests.read_container(container, true); });
    } else if (key == "overhead") {
      Requests::read(value, requests.overhead, "spec.overhead");
    } else if (key == "resources") {
      each_field(value, [&](std::string_view part, Value& list) {
        if (part == "requests") requests.read_pod_level(list);
      });
    }
  });
}

PodPhase phase_of(std::string_view text) {
  if (text == "Pending") return PodPhase::kPending;
  if (text == "Running") return PodPhase::kRunning;
  if (text == "Succeeded") return PodPhase::kSucceeded;
  if (text == "Failed") return PodPhase::kFailed;
  return PodPhase::kUnknown;
}

void apply(const Condition& condition, Pod& pod) {
  if (condition.type == "Ready") {
    pod.ready = condition.status == "True";
    pod.ready_at = pod.ready ? condition.since : 0;
  } else if (condition.type == "PodScheduled") {
    pod.scheduled_false = condition.status == "False";
  } else if (condition.type == "DisruptionTarget") {
    pod.disrupted = condition.status == "True";
  }
}

ContainerEnd read_end(Value& terminated) {
  ContainerEnd end;
  each_field(terminated, [&](std::string_view key, Value& value) {
    if (key == "exitCode") end.exit_code = static_cast<std::int32_t>(value.get_int64().value());
    if (key == "reason") end.reason = text(value);
    if (key == "message") end.message = text(value);
    if (key == "finishedAt") end.finished_at = unix_seconds(value, "state.terminated.finishedAt");
  });
  return end;
}

// Kubelet's words for a container that is merely not there yet.
bool is_starting(std::string_view reason) {
  return reason.empty() || reason == "ContainerCreating" || reason == "PodInitializing";
}

// What the statuses of one kind of containers tell.
struct Statuses {
  std::vector<ContainerEnd> ended;
  std::string waiting_reason, waiting_message;
  std::int64_t restarts = 0;
};

void read_state(Value& state, Statuses& out, std::optional<ContainerEnd>& end) {
  each_field(state, [&](std::string_view key, Value& value) {
    if (key == "terminated") {
      end = read_end(value);
    } else if (key == "waiting" && out.waiting_reason.empty()) {
      std::string_view reason, message;
      each_field(value, [&](std::string_view k, Value& v) {
        if (k == "reason") reason = text(v);
        if (k == "message") message = text(v);
      });
      if (is_starting(reason)) return;
      out.waiting_reason = reason;
      out.waiting_message = message;
    }
  });
}

Statuses read_statuses(Value& list, Requests& requests) {
  Statuses out;
  each_element(list, [&](Value& status) {
    std::string_view name;
    std::optional<ContainerEnd> end;
    Requests::Given given;
    each_field(status, [&](std::string_view key, Value& value) {
      if (key == "allocatedResources") requests.read_given(value, given);
      if (key == "resources") {
        each_field(value, [&](std::string_view part, Value& amounts) {
          if (part == "requests") requests.read_given(amounts, given);
        });
      }
      if (key == "name") name = text(value);
      if (key == "restartCount") out.restarts = saturating_add(out.restarts, value.get_int64());
      if (key == "state") read_state(value, out, end);
    });
    given.name = name;
    if (given.milli_cpu > 0 || given.memory_bytes > 0) requests.given.push_back(given);
    if (!end) return;
    end->name = name;
    out.ended.push_back(std::move(*end));
  });
  return out;
}

void read_status(Value& status, Requests& requests, Pod& pod) {
  Statuses init, containers;
  each_field(status, [&](std::string_view key, Value& value) {
    if (key == "phase") pod.phase = phase_of(text(value));
    if (key == "reason") pod.reason = text(value);
    if (key == "message") pod.message = text(value);
    if (key == "podIP") pod.ip = text(value);
    if (key == "conditions")
      each_element(value, [&](Value& one) {
        const Condition condition = read_condition(one);
        apply(condition, pod);
        if (condition.type == "PodResizePending")
          requests.is_infeasible = condition.status == "True" && condition.reason == "Infeasible";
      });
    if (key == "initContainerStatuses") init = read_statuses(value, requests);
    if (key == "containerStatuses") containers = read_statuses(value, requests);
  });
  pod.ended = std::move(containers.ended);
  for (ContainerEnd& end : init.ended) {
    if (end.exit_code != 0) {
      pod.ended.push_back(std::move(end));
    } else if (pod.init_message.empty()) {
      pod.init_message = std::move(end.message);
    }
  }
  pod.ended.shrink_to_fit();
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  pod.container_restarts = static_cast<std::int32_t>(std::clamp<std::int64_t>(containers.restarts, 0, kMost));
  Statuses& waits = init.waiting_reason.empty() ? containers : init;
  pod.waiting_reason = std::move(waits.waiting_reason);
  pod.waiting_message = std::move(waits.waiting_message);
}

// What malloc gives out for it: beyond its own room for short text, and in steps of 16 with a word of its
// own.
std::size_t heap_of(std::size_t bytes) {
  return bytes == 0 ? 0 : (bytes + 8 + 15) / 16 * 16;
}
std::size_t heap_of(const std::string& s) {
  constexpr std::size_t kInPlace = 15;
  return s.capacity() > kInPlace ? heap_of(s.capacity() + 1) : 0;
}
std::size_t heap_of(const KeyValues& pairs) {
  std::size_t bytes = heap_of(pairs.capacity() * sizeof(KeyValues::value_type));
  for (const auto& [key, value] : pairs) bytes += heap_of(value);
  return bytes;
}
std::size_t heap_of(const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::size_t bytes = heap_of(pairs.capacity() * sizeof pairs[0]);
  for (const auto& [key, value] : pairs) bytes += heap_of(key) + heap_of(value);
  return bytes;
}

}  // namespace

const std::string* SharedWord::intern(std::string_view text) {
  static std::mutex mutex;
  static auto& words = *new std::set<std::string, std::less<>>;  // outlives every object
  const std::lock_guard lock(mutex);
  const auto it = words.find(text);
  return &*(it != words.end() ? it : words.emplace(text).first);
}

const std::string* find_value(const KeyValues& values, std::string_view key) {
  const auto it = std::lower_bound(values.begin(), values.end(), key,
                                   [](const auto& pair, std::string_view k) { return pair.first.str() < k; });
  return it != values.end() && it->first.str() == key ? &it->second : nullptr;
}

std::int64_t amount_of(const Extended& amounts, std::string_view resource) {
  const auto it = std::lower_bound(amounts.begin(), amounts.end(), resource,
                                   [](const auto& pair, std::string_view r) { return pair.first < r; });
  return it != amounts.end() && it->first == resource ? it->second : 0;
}

Result<Pod> decode_pod(std::string_view json, const PodFields& fields) {
  Pod pod;
  Requests requests;
  const auto read = read_object("pod", json, pod.meta, [&](simdjson::ondemand::object root) {
    each_field(root, [&](std::string_view key, Value& value) {
      if (key == "metadata") read_metadata(value, fields, pod);
      if (key == "spec") read_spec(value, requests, pod);
      if (key == "status") read_status(value, requests, pod);
    });
  });
  if (!read) return std::unexpected(read.error());
  if (fields.init_message_label.empty() || find_value(pod.labels, fields.init_message_label) == nullptr)
    pod.init_message = std::string();
  const Amounts total = requests.total();
  pod.milli_cpu = total.milli_cpu;
  pod.memory_bytes = total.memory_bytes;
  for (const auto& [resource, amount] : total.extended) {
    if (amount > 0) pod.extended.emplace_back(resource, amount);
  }
  pod.extended.shrink_to_fit();
  return pod;
}

std::size_t memory_of(const Pod& pod) {
  std::size_t bytes = sizeof(Pod);
  for (const std::string* s : {&pod.meta.ns, &pod.meta.name, &pod.meta.uid, &pod.meta.resource_version,
                               &pod.node_name, &pod.ip, &pod.owner_uid, &pod.reason, &pod.message,
                               &pod.waiting_reason, &pod.waiting_message, &pod.init_message}) {
    bytes += heap_of(*s);
  }
  bytes += heap_of(pod.labels) + heap_of(pod.other_labels) + heap_of(pod.annotations);
  bytes += heap_of(pod.extended.capacity() * sizeof(Extended::value_type));
  for (const auto& [resource, amount] : pod.extended) bytes += heap_of(resource);
  bytes += heap_of(pod.ended.capacity() * sizeof(ContainerEnd));
  for (const ContainerEnd& end : pod.ended)
    bytes += heap_of(end.name) + heap_of(end.reason) + heap_of(end.message);
  return bytes;
}

}  // namespace muster::client
