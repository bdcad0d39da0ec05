#include "muster/simulate/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "muster/common/table.h"
#include "report/entries.h"

namespace muster::simulate {
namespace {

// Sections of entries, written as they come: a report may be larger than what one wants in memory twice.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void field(const char* name, const Entry& value) = 0;
  virtual void begin(const char* section) = 0;
  virtual void item(const Entry& entry) = 0;
  virtual void end() = 0;
};

class JsonSink : public Sink {
 public:
  explicit JsonSink(std::ostream& out) : out_(out) { out_ << '{'; }
  ~JsonSink() override { out_ << "\n}\n"; }
  void field(const char* name, const Entry& value) override { key(name) << value.dump(); }
  void begin(const char* section) override {
    key(section) << '[';
    first_item_ = true;
  }
  void item(const Entry& entry) override {
    out_ << (first_item_ ? "\n  " : ",\n  ") << entry.dump();
    first_item_ = false;
  }
  void end() override { out_ << (first_item_ ? "]" : "\n ]"); }

 private:
  std::ostream& key(const char* name) {
    out_ << (first_ ? "\n \"" : ",\n \"") << name << "\": ";
    first_ = false;
    return out_;
  }
  std::ostream& out_;
  bool first_ = true, first_item_ = true;
};

// Strings are quoted as in JSON, which is YAML, so that none is taken for something else.
class YamlSink : public Sink {
 public:
  explicit YamlSink(std::ostream& out) : out_(out) {}
  void field(const char* name, const Entry& value) override {
    out_ << name << ':';
    put(value, 2);
  }
  void begin(const char* section) override {
    out_ << section << ':';
    empty_ = true;
  }
  void item(const Entry& entry) override {
    if (empty_) out_ << '\n';
    empty_ = false;
    out_ << '-';
    put(entry, 2, true);
  }
  void end() override {
    if (empty_) out_ << " []\n";
  }

 private:
  // `inside`: behind the dash of a list, where the first key stands on the same line.
  void put(const Entry& value, int indent, bool inside = false) {
    if (!value.is_structured() || value.empty()) {
      out_ << ' ' << value.dump() << '\n';
      return;
    }
    bool on_line = inside;
    if (!inside) out_ << '\n';
    for (const auto& [name, item] : value.items()) {
      out_ << (on_line ? " " : std::string(static_cast<std::size_t>(indent), ' '));
      on_line = false;
      if (value.is_array()) {
        out_ << '-';
        put(item, indent + 2, true);
      } else {
        out_ << name << ':';
        put(item, indent + 2);
      }
    }
  }
  std::ostream& out_;
  bool empty_ = true;
};

void write(const World& world, Sink& sink) {
  sink.field("version", kReportVersion);
  sink.field("now", seconds_text(to_instant(world.now)));
  const auto workloads = world.in_order();
  for (const bool services : {false, true}) {
    sink.begin(services ? "services" : "jobs");
    for (const Workload* w : workloads) {
      if (w->is_service == services) sink.item(workload_entry(world, *w));
    }
    sink.end();
  }
  sink.begin("queues");
  for (const auto& [name, queue] : world.queues) sink.item(queue_entry(world, *queue));
  sink.end();
  sink.begin("projects");
  for (const auto& [name, project] : world.projects) sink.item(project_entry(world, *project));
  sink.end();
  const auto uses = occupancy(world);
  sink.begin("nodes");
  for (const auto& [name, state] : world.nodes) {
    const auto use = uses.find(name);
    sink.item(node_entry(world, name, use == uses.end() ? nullptr : &use->second));
  }
  sink.end();
  sink.begin("events");
  for (const Event& e : world.events) sink.item(event_entry(e));
  sink.end();
  sink.field("metrics", metrics_entry(world));
}

// "n1:0,1 n2:3"
std::string places(const Pods& pods) {
  std::map<std::string, std::vector<std::int32_t>> by_node;
  for (const PodAt& p : pods) {
    auto& gpus = by_node[p.node];
    gpus.insert(gpus.end(), p.gpus.begin(), p.gpus.end());
  }
  std::string text;
  std::size_t shown = 0;
  for (auto& [node, gpus] : by_node) {
    if (++shown > 4) return text + fmt::format(" +{} nodes", by_node.size() - 4);
    std::ranges::sort(gpus);
    gpus.erase(std::ranges::unique(gpus).begin(), gpus.end());
    text += (text.empty() ? "" : " ") + node;
    if (!gpus.empty()) text += fmt::format(":{}", fmt::join(gpus, ","));
  }
  return text;
}

void write_events(const World& world, std::ostream& out) {
  for (const Event& e : world.events) {
    std::string line = fmt::format("{:>9}  {:<9}  {}", seconds_text(e.at),
                                   kEventNames[static_cast<std::size_t>(e.type)], e.object);
    if (!e.reason.empty()) line += "  " + e.reason;
    if (!e.beneficiary.empty()) line += "  for " + e.beneficiary;
    if (!e.pods->empty()) line += "  on " + places(*e.pods);
    out << line << '\n';
  }
}

std::string shown(const Entry& value) {
  return value.is_null() ? "" : value.is_string() ? value.get<std::string>() : value.dump();
}
// "LimitReached: needs 1 …"
std::string why(const Entry& e) {
  const std::string message = shown(e["message"]);
  return shown(e["reason"]) + (message.empty() ? "" : ": " + message);
}
std::string gpu_of(const Entry& entry, const char* what) {
  const auto found = entry.at(what).find("gpu");
  return found == entry.at(what).end() ? "" : shown(*found);
}

void write_tables(const World& world, std::ostream& out) {
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "PHASE", "GPUS", "POSITION", "WAITED", "PREEMPTIONS", "WHERE", "REASON"}};
  for (const Workload* w : world.in_order()) {
    const Entry e = workload_entry(world, *w);
    std::int64_t milli = 0;
    for (const auto& g : w->gangs) {
      for (const auto& p : g->assignment.pods)
        milli += world.milli_gpu(g->spec->roles[static_cast<std::size_t>(p.role)], p.node);
    }
    const std::string position = shown(e["position"]);
    rows.push_back({w->key, shown(e["phase"]), crds::to_string(crds::MilliGpu{milli}),
                    position == "0" ? "" : position,
                    crds::to_string(crds::Duration{e["waitedSeconds"].get<std::int64_t>()}),
                    shown(e["preemptions"]), places(*world.pods_of(*w)), why(e)});
  }
  if (rows.size() > 1) out << table(rows);
  rows = {{"QUEUE", "QUOTA", "FAIR SHARE", "ALLOCATED", "BORROWED", "PENDING"}};
  const auto add = [&](const std::string& name, const Entry& e) {
    rows.push_back({name, gpu_of(e, "quota"), gpu_of(e, "fairShare"), gpu_of(e, "allocated"),
                    gpu_of(e, "borrowed"), gpu_of(e, "pending")});
  };
  for (const auto& [name, queue] : world.queues) add("Queue " + name, queue_entry(world, *queue));
  for (const auto& [name, project] : world.projects) add("Project " + name, project_entry(world, *project));
  if (rows.size() > 1) {
    out << '\n';
    out << table(rows);
  }
  const Entry m = metrics_entry(world);
  const auto capacity = m["gpuSecondsCapacity"].get<std::int64_t>();
  const auto percent = [&](const char* what) {
    return capacity == 0 ? 0 : m[what].get<std::int64_t>() * 100 / capacity;
  };
  out << fmt::format(
      "\nat {}: {}% of the GPU time allocated, {}% useful; waited {} (median), {} (99%); {} preemptions\n",
      seconds_text(to_instant(world.now)), percent("gpuSecondsAllocated"), percent("gpuSecondsUseful"),
      crds::to_string(crds::Duration{m["waitP50Seconds"].get<std::int64_t>()}),
      crds::to_string(crds::Duration{m["waitP99Seconds"].get<std::int64_t>()}), shown(m["preemptions"]));
}

}  // namespace

void report(const Simulation& simulation, Format format, std::ostream& out) {
  const World& world = simulation.world();
  switch (format) {
    case Format::kTable:
      return write_tables(world, out);
    case Format::kEvents:
      return write_events(world, out);
    case Format::kJson: {
      JsonSink sink(out);
      return write(world, sink);
    }
    case Format::kYaml: {
      YamlSink sink(out);
      return write(world, sink);
    }
  }
}

}  // namespace muster::simulate
