#include "capacity/tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "muster/common/quantity.h"
#include "muster/reconcilers/lifecycle/job_status.h"
#include "muster/reconcilers/schedules/effective_spec.h"
#include "muster/ui/wanted_gpus.h"
#include "output/text.h"
#include "show/queue.h"

namespace muster::plugin {
namespace {

constexpr std::int64_t kBarWidth = 24;

// "rdma/hca 24/64, hugepages-2Mi 1Gi": what is held of each resource known by name, and the quota of it where
// there is one.
std::string resources(const crds::NamedAmounts& held, const crds::NamedAmounts& quota) {
  std::map<std::string, std::string> texts;
  for (const auto& [name, amount] : held) texts[name] = common::format_resource(name, amount);
  for (const auto& [name, amount] : quota)
    texts.try_emplace(name, "0").first->second += "/" + common::format_resource(name, amount);
  std::string text;
  for (const auto& [name, amounts] : texts) text += (text.empty() ? "" : ", ") + name + " " + amounts;
  return text;
}

// What it has in a further pool stands where what it has in the default pool stood.
template <class Kind>
void turn_to(Kind& object, const std::string& pool) {
  const auto share = std::ranges::find(object.spec.pools, pool, &crds::PoolShare::name);
  const crds::PoolShare none;
  const crds::PoolShare& stated = share == object.spec.pools.end() ? none : *share;
  object.spec.quota = stated.quota;
  object.spec.limit = stated.limit;
  object.spec.weight = stated.weight;
  auto& s = object.status;
  const auto use = std::ranges::find(s.pools, pool, &crds::PoolUsage::name);
  const crds::PoolUsage used = use == s.pools.end() ? crds::PoolUsage{} : *use;
  s.allocated = used.allocated;
  s.borrowed = used.borrowed;
  s.pending = used.pending;
  s.fair_share = used.fair_share;
}

// Of all Projects together.
struct PoolSum {
  std::int64_t held = 0, pending = 0;
};

std::map<std::string, PoolSum> further_pools(const std::vector<crds::Queue>& queues,
                                             const std::vector<crds::Project>& projects) {
  std::map<std::string, PoolSum> pools;
  const auto name_all = [&](const auto& object) {
    for (const auto& stated : object.spec.pools) pools[stated.name];
    for (const auto& used : object.status.pools) pools[used.name];
  };
  for (const auto& queue : queues) name_all(queue);
  for (const auto& project : projects) {
    name_all(project);
    for (const auto& used : project.status.pools) {
      pools[used.name].held += milli_gpus(used.allocated);
      pools[used.name].pending += milli_gpus(used.pending);
    }
  }
  return pools;
}

std::string no_such_pool(const std::string& pool, const std::map<std::string, PoolSum>& known) {
  std::string names;
  for (const auto& [name, sum] : known) names += (names.empty() ? "" : ", ") + name;
  return fmt::format(
      "no Queue and no Project states or uses anything in a pool {} beside the default pool{}; without "
      "--pool "
      "the default pool is shown",
      pool, names.empty() ? "" : " (they do in " + names + ")");
}

class Tree {
 public:
  Tree(const std::vector<crds::Queue>& queues, const std::vector<crds::Project>& projects, bool is_default)
      : is_default_(is_default) {
    for (const auto& q : queues) {
      queues_.emplace(q.metadata.name, &q);
      below_[q.spec.parent].insert(q.metadata.name);
      whole_ = std::max({whole_, milli_gpus(q.spec.quota), milli_gpus(q.status.allocated)});
    }
    for (const auto& p : projects) {
      projects_[p.spec.queue].emplace(p.metadata.name, &p);
      whole_ = std::max({whole_, milli_gpus(p.spec.quota), milli_gpus(p.status.allocated)});
    }
  }

  std::vector<Row> rows() {
    for (const auto& top : below_[""]) add(top, 0);
    for (const auto& [parent, queues] : below_) {
      if (queues_.contains(parent) || parent.empty()) continue;
      rows_.push_back(missing(parent));
      for (const auto& queue : queues) add(queue, 1);
    }
    for (const auto& [queue, projects] : projects_) {
      if (queues_.contains(queue)) continue;
      if (!below_.contains(queue)) rows_.push_back(missing(queue));
      for (const auto& [name, project] : projects) row(*project, name, 1);
    }
    // Parents that form a circle are below nobody.
    for (const auto& [name, queue] : queues_) {
      if (!seen_.contains(name)) add(name, 0);
    }
    return std::move(rows_);
  }

 private:
  static Row missing(const std::string& queue) {
    Row row{std::vector<Cell>(14), Colour::kRed};
    row.cells[0].text = queue + " (missing)";
    return row;
  }

  void add(const std::string& name, int depth) {
    if (!seen_.insert(name).second) return;
    row(*queues_.at(name), name, depth);
    if (const auto below = below_.find(name); below != below_.end()) {
      for (const auto& queue : below->second) add(queue, depth + 1);
    }
    if (const auto projects = projects_.find(name); projects != projects_.end()) {
      for (const auto& [project, value] : projects->second) row(*value, project, depth + 1);
    }
  }

  static const std::string& parent_of(const crds::Queue& queue) { return queue.spec.parent; }
  static const std::string& parent_of(const crds::Project& project) { return project.spec.queue; }

  template <class Kind>
  void row(const Kind& object, const std::string& name, int depth) {
    const auto& s = object.status;
    const std::string indent(static_cast<std::size_t>(2 * depth), ' ');
    Row row;
    row.cells = {{indent + name, name},
                 cell(std::string(Kind::kKind)),
                 cell(parent_of(object)),
                 cell(gpus(object.spec.quota)),
                 cell(gpus(s.fair_share)),
                 cell(gpus(s.allocated)),
                 cell(gpus(s.borrowed)),
                 cell(gpus(s.pending)),
                 is_default_ ? cell(std::int64_t{s.running}) : Cell{},
                 is_default_ ? cell(std::int64_t{s.waiting}) : Cell{},
                 cell(std::int64_t{object.spec.weight}),
                 cell(object.spec.limit.gpu ? gpus(object.spec.limit) : ""),
                 cell(resources(s.allocated.resources, object.spec.quota.resources)),
                 cell(bar({milli_gpus(object.spec.quota), milli_gpus(s.allocated), milli_gpus(s.pending),
                           milli_gpus(s.fair_share)},
                          whole_))};
    if (milli_gpus(s.borrowed) > 0) row.colour = Colour::kYellow;
    rows_.push_back(std::move(row));
  }

  bool is_default_;  // how many run and wait is known over all pools only
  std::map<std::string, const crds::Queue*> queues_;
  std::map<std::string, std::set<std::string>> below_;                           // Queues, by parent
  std::map<std::string, std::map<std::string, const crds::Project*>> projects_;  // by Queue
  std::set<std::string> seen_;
  std::int64_t whole_ = 0;
  std::vector<Row> rows_;
};

}  // namespace

std::string bar(const BarAmounts& of, std::int64_t whole) {
  if (whole <= 0) return {};
  std::string text;
  for (std::int64_t i = 0; i < kBarWidth; ++i) {
    // The middle of this cell.
    const std::int64_t at = (2 * i + 1) * whole / (2 * kBarWidth);
    if (at < of.used)
      text += at < of.quota ? '#' : '+';
    else
      text += at < of.used + of.pending ? '~' : at < of.quota ? '-' : '.';
  }
  if (of.fair_share > 0) {
    const std::int64_t last = std::min((of.fair_share * kBarWidth + whole - 1) / whole, kBarWidth) - 1;
    text[static_cast<std::size_t>(last)] = '|';
  }
  return "[" + text + "]";
}

void hold(std::vector<crds::Queue>& queues, std::vector<crds::Project>& projects, crds::Time now) {
  const auto one = [now](auto& object) {
    if (!object.spec.schedules.empty()) object.spec = reconcilers::effective_spec(object.spec, now).spec;
  };
  std::ranges::for_each(queues, one);
  std::ranges::for_each(projects, one);
}

std::expected<Listing, std::string> tree(std::vector<crds::Queue> queues, std::vector<crds::Project> projects,
                                         const std::string& pool) {
  auto others = further_pools(queues, projects);
  if (!pool.empty()) {
    if (!others.contains(pool)) return std::unexpected(no_such_pool(pool, others));
    others.erase(pool);
    for (auto& queue : queues) turn_to(queue, pool);
    for (auto& project : projects) turn_to(project, pool);
  }
  Listing listing;
  listing.columns = {{"NAME", "name"},
                     {"KIND", "kind", Shown::kWideAndData},
                     {"PARENT", "parent", Shown::kData},
                     {"QUOTA", "quota"},
                     {"FAIR SHARE", "fairShare"},
                     {"ALLOCATED", "allocated"},
                     {"BORROWED", "borrowed"},
                     {"PENDING", "pending"},
                     {"RUNNING", "running", pool.empty() ? Shown::kEverywhere : Shown::kData},
                     {"WAITING", "waiting", pool.empty() ? Shown::kEverywhere : Shown::kData},
                     {"WEIGHT", "weight", Shown::kWideAndData},
                     {"LIMIT", "limit", Shown::kWideAndData},
                     {"RESOURCES", "resources", Shown::kWideAndData},
                     {"", "", Shown::kTables}};
  listing.rows = Tree(queues, projects, pool.empty()).rows();
  listing.footer =
      fmt::format("GPUs of {}. # used, + borrowed, ~ waited for, - quota that is idle, | fair share.\n",
                  pool.empty() ? "the default pool" : "pool " + pool);
  if (!pool.empty()) listing.about["pool"] = pool;
  for (const auto& [name, sum] : others) {
    const auto held = crds::to_string(crds::MilliGpu{sum.held});
    const auto pending = crds::to_string(crds::MilliGpu{sum.pending});
    listing.footer +=
        fmt::format("Pool {}: {} allocated, {} pending; --pool {} shows it.\n", name, held, pending, name);
    listing.about["otherPools"].push_back({{"pool", name}, {"allocated", held}, {"pending", pending}});
  }
  listing.if_empty = "There are no Queues and no Projects.\n";
  return listing;
}

Listing tree_of_namespace(const std::string& ns, const std::vector<crds::TrainingJob>& jobs,
                          const std::string& pool) {
  std::int64_t held = 0, pending = 0, running = 0, waiting = 0;
  for (const auto& job : jobs) {
    // The indexes of an array are jobs, and counted as such.
    if (job.spec.array || !job.status.phase) continue;
    const bool waits = *job.status.phase == crds::Phase::kQueued;
    const bool runs = job.status.assignment.attempt != 0 && !reconcilers::is_finished(job.status);
    const std::string of = runs ? job.status.assignment.pool : pool_of(job);
    if (!pool.empty() && of != pool) continue;
    held += milli_gpus(job.status.allocated);
    pending += waits ? ui::wanted_gpus(job).value : 0;
    running += runs ? 1 : 0;
    waiting += waits ? 1 : 0;
  }
  Listing listing;
  listing.columns = {{"NAMESPACE", "namespace"},
                     {"ALLOCATED", "allocated"},
                     {"PENDING", "pending"},
                     {"RUNNING", "running"},
                     {"WAITING", "waiting"}};
  listing.rows.push_back({{cell(ns), cell(crds::to_string(crds::MilliGpu{held})),
                           cell(crds::to_string(crds::MilliGpu{pending})), cell(running), cell(waiting)}});
  return listing;
}

}  // namespace muster::plugin
