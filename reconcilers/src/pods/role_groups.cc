#include "muster/reconcilers/pods/role_groups.h"

#include <charconv>

namespace muster::reconcilers {
namespace {

std::string size_annotation(std::string_view role) {
  return std::string(kGroupSizeAnnotation).append(role);
}

}  // namespace

void note_groups(crds::TrainingJob& job, const crds::InferenceServiceSpec& spec) {
  for (const crds::ServiceRole& role : spec.roles)
    job.metadata.annotations[size_annotation(role.name)] = std::to_string(role.group_size);
  if (const auto* role = crds::traffic_role_of(spec))
    job.metadata.annotations[std::string(kTrafficRoleAnnotation)] = role->name;
}

std::int32_t group_size_of(const crds::TrainingJob& job, std::string_view role) {
  const auto found = job.metadata.annotations.find(size_annotation(role));
  if (found == job.metadata.annotations.end()) return 0;
  const std::string& text = found->second;
  std::int32_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  return error == std::errc() && end == text.data() + text.size() && size > 0 ? size : 0;
}

bool takes_traffic(const crds::TrainingJob& job, std::string_view role) {
  const auto found = job.metadata.annotations.find(std::string(kTrafficRoleAnnotation));
  return found != job.metadata.annotations.end() && found->second == role;
}

}  // namespace muster::reconcilers
