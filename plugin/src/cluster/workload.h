// The job or service that a command is about.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <variant>

#include "cluster/reader.h"

namespace muster::plugin {

using Workload = std::variant<crds::TrainingJob, crds::InferenceService>;
const crds::ObjectMeta& meta_of(const Workload& workload);
client::Resource resource_of(const Workload& workload);

struct WorkloadName {
  enum class Kind : std::uint8_t { kAny, kJob, kService };
  Kind kind = Kind::kAny;
  std::string name;                     // of an index: the array's
  std::optional<std::int32_t> index{};  // of an array
};
// "NAME", "trainingjob/NAME" or "inferenceservice/NAME", with the short names of the kinds too, and "NAME[7]"
// for an index of an array. The error says what is allowed.
std::expected<WorkloadName, std::string> parse_workload_name(const std::string& text);

// What the estimate of a start takes for granted.
std::string_view premise_of(const crds::Waiting& waiting);

// Without a kind a job of this name is meant, else a service. Each object is read once.
client::Result<Workload> find_workload(Reader& reader, const std::string& ns, const WorkloadName& wanted);

// What has become of an index that has no job; "": the array has no such index.
std::string say_index_without_job(const crds::TrainingJob& array, std::int32_t index);
// The same of one that was not found, "NAME[7]" or "NAME-7"; "": there is no such array, or it cannot be
// read.
std::string say_index_without_job(Reader& reader, const std::string& ns, const WorkloadName& wanted);

}  // namespace muster::plugin
