#include "pods/template/aligned.h"

#include "muster/crds/quantity.h"
#include "pods/template/node_terms.h"

namespace muster::reconcilers {
namespace {

// nullopt: not stated, or no quantity, which others refuse.
std::optional<std::int64_t> amount_of(const Json* list, const char* resource, std::int64_t scale) {
  const Json* stated = find(list, resource);
  if (stated == nullptr) return std::nullopt;
  const auto amount =
      crds::parse_quantity(stated->is_string() ? stated->get<std::string>() : stated->dump(), scale);
  return amount ? std::optional(*amount) : std::nullopt;
}

std::optional<crds::FieldError> problem_of(const Json& container, const std::string& field, bool pins_cpus) {
  constexpr const char* kWhy = ": with gpus.numaAligned kubelets pin CPUs only to Guaranteed pods";
  const Json* limits = find(&container, "resources", "limits");
  const Json* requests = find(&container, "resources", "requests");
  const std::string at = field + ".resources.";
  for (const char* resource : {"cpu", "memory"}) {
    const auto limit = amount_of(limits, resource, 1000);
    if (!limit || *limit <= 0)
      return wrong(at + "limits." + resource, std::string("is required") + kWhy).error();
    const auto request = amount_of(requests, resource, 1000);
    if (request && *request != *limit)
      return wrong(at + "requests." + resource, std::string("must equal the limit or be left out") + kWhy)
          .error();
  }
  if (pins_cpus && *amount_of(limits, "cpu", 1000) % 1000 != 0) {
    return wrong(at + "limits.cpu", "must be whole CPUs: with gpus.numaAligned kubelets pin no part of one")
        .error();
  }
  return std::nullopt;
}

}  // namespace

std::optional<crds::FieldError> not_alignable(const Json& spec, const placement::GpuShare& share,
                                              const std::string& field) {
  if (share.kind != placement::GpuShare::Kind::kWhole) {
    const std::string beside = field.substr(0, field.rfind("template"));
    return wrong(beside + "gpus.numaAligned",
                 "must be left out with fraction, memory and mig: kubelets align whole GPUs")
        .error();
  }
  const std::string at_spec = field + ".spec";
  if (find(spec, "resources") != nullptr) {
    return wrong(at_spec + ".resources",
                 "must be left out with gpus.numaAligned: kubelets pin CPUs to containers that ask for them")
        .error();
  }
  // What prepares the pod, or stands beside it, may do with a part of a CPU.
  for (const char* list : {"containers", "initContainers"}) {
    std::size_t i = 0;
    for (const Json& container : items(find(spec, list))) {
      const std::string at = at_spec + "." + list + "[" + std::to_string(i++) + "]";
      if (auto problem = problem_of(container, at, std::string_view(list) == "containers")) return problem;
    }
  }
  return std::nullopt;
}

}  // namespace muster::reconcilers
