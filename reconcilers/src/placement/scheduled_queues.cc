#include "muster/reconcilers/placement/scheduled_queues.h"

#include "muster/reconcilers/placement/placement_specs.h"
#include "muster/reconcilers/schedules/effective_spec.h"

namespace muster::reconcilers {

template <class Kind>
placement::QueueSpec ScheduledQueues::take_in(const Kind& object, bool is_project, crds::Time now) {
  const std::pair key{is_project, object.metadata.name};
  if (object.spec.schedules.empty()) {
    entries_.erase(key);
    return queue_spec(object);
  }
  auto effective = effective_spec(object.spec, now);
  Kind stated;
  stated.metadata = object.metadata;
  stated.spec = object.spec;
  Kind holds = stated;
  holds.spec = std::move(effective.spec);
  if (effective.next_change) {
    entries_.insert_or_assign(key, Entry{std::move(stated), effective.next_change->at});
  } else {
    entries_.erase(key);
  }
  placement::QueueSpec spec = queue_spec(holds);
  if (const auto& drain = effective.coming_drain) {
    spec.coming_drain = {to_time(drain->begin), to_time(drain->end), {}};
    if (drain->open_after) spec.coming_drain->open_after = to_duration(*drain->open_after);
  }
  if (effective.opens) spec.opens = to_time(*effective.opens);
  if (auto& coming = effective.coming_bounds) {
    holds.spec = std::move(coming->second);
    spec.coming_share = {to_time(coming->first), queue_spec(holds).in_default_pool};
  }
  return spec;
}

placement::QueueSpec ScheduledQueues::take(const crds::Queue& queue, crds::Time now) {
  return take_in(queue, false, now);
}
placement::QueueSpec ScheduledQueues::take(const crds::Project& project, crds::Time now) {
  return take_in(project, true, now);
}

void ScheduledQueues::forget(const std::string& name, bool is_project) {
  entries_.erase({is_project, name});
}

std::vector<placement::QueueSpec> ScheduledQueues::due(crds::Time now) {
  std::vector<std::variant<crds::Queue, crds::Project>> changed;
  for (const auto& [key, entry] : entries_) {
    if (entry.due <= now) changed.push_back(entry.object);
  }
  std::vector<placement::QueueSpec> specs;
  for (const auto& object : changed)
    specs.push_back(std::visit([&](const auto& one) { return take(one, now); }, object));
  return specs;
}

std::optional<crds::Time> ScheduledQueues::next() const {
  std::optional<crds::Time> first;
  for (const auto& [key, entry] : entries_) {
    if (!first || entry.due < *first) first = entry.due;
  }
  return first;
}

}  // namespace muster::reconcilers
