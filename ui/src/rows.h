// From objects to the rows of the page's tables (model.h). Only what the page shows leaves this function: no
// pod template, no environment, no annotation. GPUs are in thousandths, times in Unix seconds. What is not
// known or 0 is left out.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "model.h"
#include "muster/client/error.h"
#include "muster/client/object.h"
#include "muster/client/pod.h"
#include "muster/crds/crds.h"
#include "muster/ui/wanted_gpus.h"
#include "one/service_past.h"

namespace muster::ui {

struct Row {
  client::Meta meta;
  Text row;
  Text extra;  // of Queues and Projects the row of Table::kUsage, of jobs that of Table::kPlaces
  std::optional<ServiceSample> sample{};  // of services; without the time
};

client::Result<Row> queue_row(std::string_view json);
client::Result<Row> project_row(std::string_view json);
client::Result<Row> job_row(std::string_view json);
client::Result<Row> service_row(std::string_view json);

// Nodes and pools are read together: the pool says which resource of a node counts as its GPUs. A node of no
// pool, or without GPUs, has no row.
struct PoolRow {
  client::Meta meta;
  Text row;
  crds::NodePoolSpec spec;
};
client::Result<PoolRow> pool_row(std::string_view json);
// `pools`: of those that select it the first one counts.
Text node_row(const client::Node& node, const std::vector<const PoolRow*>& pools);

// Unix seconds.
std::int64_t seconds_of(crds::Time time);

}  // namespace muster::ui
