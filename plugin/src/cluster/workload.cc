#include "cluster/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace muster::plugin {
namespace {

template <class Kind>
client::Result<Workload> find_one(Reader& reader, const std::string& ns, const std::string& name) {
  auto found = reader.get<Kind>(ns, name);
  if (!found) return std::unexpected(found.error());
  return Workload(std::move(*found));
}

bool is_missing(const client::Result<Workload>& found) {
  return !found && found.error().code == client::ErrorCode::kNotFound;
}

}  // namespace

const crds::ObjectMeta& meta_of(const Workload& workload) {
  return std::visit([](const auto& w) -> const crds::ObjectMeta& { return w.metadata; }, workload);
}

client::Resource resource_of(const Workload& workload) {
  return std::visit([]<class Kind>(const Kind&) { return resource_of<Kind>(); }, workload);
}

std::expected<WorkloadName, std::string> parse_workload_name(const std::string& text) {
  constexpr std::array<std::string_view, 3> kJobs = {"trainingjob", "trainingjobs", "tj"};
  constexpr std::array<std::string_view, 3> kServices = {"inferenceservice", "inferenceservices", "isvc"};
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos && !text.empty()) return WorkloadName{WorkloadName::Kind::kAny, text};
  const std::string kind = text.substr(0, slash);
  const std::string name = slash == std::string::npos ? "" : text.substr(slash + 1);
  const bool is_job = std::ranges::find(kJobs, kind) != kJobs.end();
  const bool is_service = std::ranges::find(kServices, kind) != kServices.end();
  if (name.empty() || (!is_job && !is_service)) {
    return std::unexpected(
        fmt::format("\"{}\" is none of NAME, trainingjob/NAME and inferenceservice/NAME", text));
  }
  return WorkloadName{is_job ? WorkloadName::Kind::kJob : WorkloadName::Kind::kService, name};
}

std::string_view premise_of(const crds::Waiting& waiting) {
  return waiting.estimated_start_from == crds::EstimateSource::kHistory
             ? "if what runs takes as long as such jobs took before"
             : "if what runs ends when it says";
}

client::Result<Workload> find_workload(Reader& reader, const std::string& ns, const WorkloadName& wanted) {
  if (wanted.kind == WorkloadName::Kind::kService)
    return find_one<crds::InferenceService>(reader, ns, wanted.name);
  auto job = find_one<crds::TrainingJob>(reader, ns, wanted.name);
  if (wanted.kind == WorkloadName::Kind::kJob || !is_missing(job)) return job;
  auto service = find_one<crds::InferenceService>(reader, ns, wanted.name);
  if (!is_missing(service)) return service;
  auto error = service.error();
  error.message = fmt::format("there is neither a TrainingJob nor an InferenceService \"{}\" in namespace {}",
                              wanted.name, ns);
  return std::unexpected(std::move(error));
}

}  // namespace muster::plugin
