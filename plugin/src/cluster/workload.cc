#include "cluster/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "muster/reconcilers/arrays/index_set.h"
#include "muster/reconcilers/pods/names.h"
#include "output/text.h"

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

// As indexes are written; nullopt: it is none.
std::optional<std::int32_t> index_of(std::string_view text) {
  std::int32_t index = -1;
  const char* const end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, index);
  return error == std::errc() && next == end && index >= 0 ? std::optional(index) : std::nullopt;
}

// "sweep-7" as index 7 of sweep.
std::optional<WorkloadName> as_index(const WorkloadName& wanted) {
  const auto dash = wanted.name.rfind('-');
  if (wanted.index || dash == std::string::npos) return wanted.index ? std::optional(wanted) : std::nullopt;
  const auto index = index_of(std::string_view(wanted.name).substr(dash + 1));
  if (!index) return std::nullopt;
  return WorkloadName{WorkloadName::Kind::kJob, wanted.name.substr(0, dash), index};
}

client::Result<Workload> with_message(client::Result<Workload> missing, std::string message) {
  if (message.empty()) return missing;
  auto error = missing.error();
  error.message = std::move(message);
  return std::unexpected(std::move(error));
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
  if (text.ends_with(']')) {
    const std::size_t open = std::min(text.find('['), text.size() - 1);
    const std::size_t digits = text.size() - open - 1;
    const auto index = index_of(std::string_view(text).substr(open + 1, digits == 0 ? 0 : digits - 1));
    const auto array = parse_workload_name(text.substr(0, open));
    if (!index || !array || array->index || array->kind == WorkloadName::Kind::kService)
      return std::unexpected(fmt::format("\"{}\" is no NAME[INDEX], such as sweep[7]", text));
    return WorkloadName{WorkloadName::Kind::kJob, array->name, index};
  }
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
  const std::string name =
      wanted.index ? reconcilers::index_job_name(wanted.name, *wanted.index) : wanted.name;
  auto job = find_one<crds::TrainingJob>(reader, ns, name);
  if (!is_missing(job)) return job;
  if (auto said = say_index_without_job(reader, ns, wanted); !said.empty())
    return with_message(std::move(job), std::move(said));
  if (wanted.kind == WorkloadName::Kind::kJob) return job;
  auto service = find_one<crds::InferenceService>(reader, ns, wanted.name);
  if (!is_missing(service)) return service;
  auto error = service.error();
  error.message = fmt::format("there is neither a TrainingJob nor an InferenceService \"{}\" in namespace {}",
                              wanted.name, ns);
  return std::unexpected(std::move(error));
}

std::string say_index_without_job(const crds::TrainingJob& array, std::int32_t index) {
  if (!array.spec.array || index >= array.spec.array->count) return {};
  const auto status = array.status.array.value_or(crds::ArrayStatus{});
  const auto has = [&](const std::string& ranges) {
    return reconcilers::IndexSet::parse(ranges, array.spec.array->count).contains(index);
  };
  const std::string who = fmt::format("Index {} of {}", index, name_of(array.metadata));
  if (has(status.succeeded_indexes)) return who + " has succeeded. Its job is deleted.";
  if (has(status.failed_indexes)) return who + " has failed. Its job is deleted.";
  if (array.status.finished_at) return who + " was not run to its end, because the array has ended.";
  if (array.spec.suspend) return who + " has not begun: the array is suspended.";
  return fmt::format("{} has not begun: {} indexes run or wait, and spec.array.parallelism is {}.", who,
                     status.running + status.waiting, crds::parallelism_of(*array.spec.array));
}

std::string say_index_without_job(Reader& reader, const std::string& ns, const WorkloadName& wanted) {
  const auto index = as_index(wanted);
  if (!index) return {};
  const auto array = reader.get<crds::TrainingJob>(ns, index->name);
  return array ? say_index_without_job(*array, *index->index) : std::string();
}

}  // namespace muster::plugin
