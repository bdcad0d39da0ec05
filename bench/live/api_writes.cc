#include "live/api_writes.h"

#include <cstdlib>
#include <set>

namespace muster::bench {
namespace {

constexpr std::string_view kMetric = "apiserver_request_total{";

// The value of label `name` in `labels` (the text between the braces); empty if it is not there. None of the
// values in question holds an escaped quote.
std::string label(std::string_view labels, std::string_view name) {
  std::size_t at = 0;
  while ((at = labels.find(name, at)) != std::string_view::npos) {
    const bool whole = (at == 0 || labels[at - 1] == ',') && labels.substr(at + name.size(), 2) == "=\"";
    if (!whole) {
      at += name.size();
      continue;
    }
    const auto begin = at + name.size() + 2;
    return std::string(labels.substr(begin, labels.find('"', begin) - begin));
  }
  return {};
}

bool is_write(const std::string& verb) {
  static const std::set<std::string> kVerbs = {"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"};
  return kVerbs.contains(verb);
}

bool is_review(const WriteKind& kind) {
  return kind.group == "authentication.k8s.io" || kind.group == "authorization.k8s.io";
}

}  // namespace

std::string WriteKind::text() const {
  return (group.empty() ? "" : group + " ") + resource + (subresource.empty() ? "" : "/" + subresource) +
         " " + verb;
}

WriteCounts parse_writes(std::string_view metrics) {
  WriteCounts counts;
  while (!metrics.empty()) {
    const auto end = metrics.find('\n');
    const auto line = metrics.substr(0, end);
    metrics.remove_prefix(end == std::string_view::npos ? metrics.size() : end + 1);
    if (!line.starts_with(kMetric)) continue;
    const auto close = line.rfind('}');
    if (close == std::string_view::npos) continue;
    const auto labels = line.substr(kMetric.size(), close - kMetric.size());
    WriteKind kind{label(labels, "group"), label(labels, "resource"), label(labels, "subresource"),
                   label(labels, "verb")};
    if (!is_write(kind.verb) || is_review(kind) || !label(labels, "dry_run").empty()) continue;
    // Counters are printed as floating point: 4000, or 1.2e+06.
    counts[kind] +=
        static_cast<std::int64_t>(std::strtod(std::string(line.substr(close + 1)).c_str(), nullptr));
  }
  return counts;
}

WriteCounts difference(const WriteCounts& later, const WriteCounts& earlier) {
  WriteCounts counts;
  for (const auto& [kind, n] : later) {
    const auto before = earlier.find(kind);
    const auto more = n - (before == earlier.end() ? 0 : before->second);
    if (more != 0) counts[kind] = more;
  }
  return counts;
}

Writer writer_of(const WriteKind& kind) {
  if (kind.resource == "leases") return Writer::kLeases;
  const bool is_status = kind.subresource == "status";
  if (kind.group.empty() && is_status && (kind.resource == "pods" || kind.resource == "nodes")) {
    return Writer::kSimulatedNodes;
  }
  // The controller manager and KWOK record events of the core group; Muster records those of events.k8s.io.
  if (kind.group.empty() && kind.resource == "events") return Writer::kControlPlaneEvents;
  return Writer::kCounted;
}

std::int64_t total(const WriteCounts& counts, Writer writer) {
  std::int64_t sum = 0;
  for (const auto& [kind, n] : counts) sum += writer_of(kind) == writer ? n : 0;
  return sum;
}

}  // namespace muster::bench
