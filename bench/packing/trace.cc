#include "packing/trace.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string_view>

namespace muster::bench {
namespace {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

class Table {
 public:
  explicit Table(const std::filesystem::path& file) : path_(file.string()), in_(file) {
    if (!in_ || !next()) throw std::runtime_error("cannot read " + path_);
    header_ = std::move(fields_);
  }

  // False at the end of the file.
  bool next() {
    std::string line;
    if (!std::getline(in_, line)) return false;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    fields_ = split(line, ',');
    ++line_;
    if (!header_.empty() && fields_.size() != header_.size())
      fail(std::to_string(fields_.size()) + " fields instead of " + std::to_string(header_.size()));
    return true;
  }

  std::size_t column(const std::string& name) const {
    const auto found = optional_column(name);
    if (!found) throw std::runtime_error(path_ + ": no column " + name);
    return *found;
  }
  std::optional<std::size_t> optional_column(const std::string& name) const {
    const auto found = std::ranges::find(header_, name);
    if (found == header_.end()) return std::nullopt;
    return static_cast<std::size_t>(found - header_.begin());
  }

  const std::string& text(std::size_t at) const { return fields_[at]; }
  // An empty field is 0, as the traces have it for pods without GPUs.
  std::int64_t number(std::size_t at) const {
    const std::string& field = fields_[at];
    std::int64_t value = 0;
    const char* const end = field.data() + field.size();
    const auto [stop, error] = std::from_chars(field.data(), end, value);
    if (!field.empty() && (error != std::errc() || stop != end || value < 0))
      fail("\"" + field + "\" is not a number from 0");
    return value;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(path_ + ", line " + std::to_string(line_) + ": " + what);
  }

  std::string path_;
  std::ifstream in_;
  std::vector<std::string> header_, fields_;
  int line_ = 0;
};

}  // namespace

std::vector<TraceNode> read_nodes(const std::filesystem::path& file) {
  Table table(file);
  const auto name = table.column("sn"), cpu = table.column("cpu_milli"), memory = table.column("memory_mib"),
             gpu = table.column("gpu"), model = table.column("model");
  std::vector<TraceNode> nodes;
  while (table.next()) {
    nodes.push_back({table.text(name), table.text(model), table.number(cpu), table.number(memory),
                     static_cast<std::int32_t>(table.number(gpu))});
  }
  return nodes;
}

std::vector<TracePod> read_pods(const std::filesystem::path& file) {
  Table table(file);
  const auto name = table.column("name"), cpu = table.column("cpu_milli"),
             memory = table.column("memory_mib"), gpus = table.column("num_gpu"),
             milli = table.column("gpu_milli");
  const auto spec = table.optional_column("gpu_spec"), qos = table.optional_column("qos"),
             created = table.optional_column("creation_time"),
             scheduled = table.optional_column("scheduled_time"),
             deleted = table.optional_column("deletion_time");
  const auto instant = [&](std::optional<std::size_t> column) {
    return column && !table.text(*column).empty() ? std::optional(table.number(*column)) : std::nullopt;
  };
  std::vector<TracePod> pods;
  while (table.next()) {
    TracePod& pod =
        pods.emplace_back(TracePod{table.text(name), table.number(cpu), table.number(memory),
                                   static_cast<std::int32_t>(table.number(gpus)), table.number(milli)});
    if (spec && !table.text(*spec).empty()) pod.models = split(table.text(*spec), '|');
    if (qos) pod.qos = table.text(*qos);
    pod.created = instant(created);
    pod.scheduled = instant(scheduled);
    pod.deleted = instant(deleted);
  }
  return pods;
}

}  // namespace muster::bench
