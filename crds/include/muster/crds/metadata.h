// What every object has: the fields of metav1.ObjectMeta that Muster uses.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/crds/field.h"
#include "muster/crds/time.h"

namespace muster::crds {

inline constexpr std::string_view kGroup = "muster.dev";
inline constexpr std::string_view kVersion = "v1alpha1";
inline constexpr std::string_view kApiVersion = "muster.dev/v1alpha1";

using StringMap = std::map<std::string, std::string>;

struct ObjectMeta {
  std::string name;
  std::string ns;  // JSON "namespace"; empty for cluster-scoped kinds
  std::string uid;
  std::string resource_version;
  std::int64_t generation = 0;
  std::optional<Time> creation_timestamp;
  std::optional<Time> deletion_timestamp;  // set: being deleted
  StringMap labels;
  StringMap annotations;
  std::vector<std::string> finalizers;

  static constexpr auto fields() {
    using T = ObjectMeta;
    return fields_of(field("name", &T::name), field("namespace", &T::ns), field("uid", &T::uid),
                     field("resourceVersion", &T::resource_version),
                     field("generation", &T::generation, Zero::kOmit),
                     field("creationTimestamp", &T::creation_timestamp),
                     field("deletionTimestamp", &T::deletion_timestamp), field("labels", &T::labels),
                     field("annotations", &T::annotations), field("finalizers", &T::finalizers));
  }
  bool operator==(const ObjectMeta&) const = default;
};

}  // namespace muster::crds
