// What came out, as the entries of the report (docs/simulate.md): one JSON object each.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "world/occupancy.h"
#include "world/world.h"

namespace muster::simulate {

using Entry = nlohmann::ordered_json;  // its fields in the order of the documentation

// The waiting gang that speaks for the workload; nullptr: none waits.
const pl::PendingReason* verdict_of(const World& world, const Workload& w);

Entry workload_entry(const World& world, const Workload& w);
Entry queue_entry(const World& world, const crds::Queue& queue);
Entry project_entry(const World& world, const crds::Project& project);
Entry node_entry(const World& world, const std::string& name, const NodeUse* use);
Entry event_entry(const Event& event);
Entry metrics_entry(const World& world);

std::string seconds_text(Instant t);  // "3600s"

}  // namespace muster::simulate
