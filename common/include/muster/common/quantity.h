// Kubernetes' quantities: "2", "500m", "0.5", "64Gi", "1e3".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

namespace muster::common {

// Reads a quantity as an integer of 1/scale: with scale 1000 "1.5" is 1500, with scale 1 "64Ki" is 65536.
// `scale` is from 1 to 1000.
//
// The grammar is that of Kubernetes (k8s.io/apimachinery/pkg/api/resource, ParseQuantity):
//   [+-] digits with at most one point, then one of
//   nothing | n u m k M G T P E | Ki Mi Gi Ti Pi Ei | e or E, an optional sign and digits
// A digit may be missing before or after the point, but not on both sides. "1E" is 10^18, "1E3" is 1000.
//
// The amount is exact. What is finer than 1/scale is rounded away from zero, as Kubernetes does: no request
// is ever made smaller. The error is a sentence fragment that says what is allowed and quotes the text: "must
// be a quantity such as …, is \"x\"". An amount that int64 cannot hold is such an error too. (Kubernetes
// would cut it off at the largest int64, and would then calculate with an amount that nobody has stated.)
std::expected<std::int64_t, std::string> parse_quantity(std::string_view text, std::int64_t scale);

// The same for what is never negative, such as a request or a quota: "-1" is an error, "-0" is 0.
std::expected<std::int64_t, std::string> parse_amount(std::string_view text, std::int64_t scale);

// Thousandths as people write them: 3000 is "3", 2500 is "2500m". These three are written here and not in a
// .cc, so that placement, which links no other library, can use them.
inline std::string format_milli(std::int64_t milli) {
  return milli % 1000 == 0 ? std::to_string(milli / 1000) : std::to_string(milli) + 'm';
}

// Bytes in the largest binary unit in which they are whole: 65536 is "64Ki", 1000 is "1000".
inline std::string format_bytes(std::int64_t bytes) {
  constexpr std::array<const char*, 7> kUnits = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
  std::size_t unit = 0;
  for (; bytes != 0 && bytes % 1024 == 0 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  return std::to_string(bytes) + kUnits[unit];
}

// What GPUs of one model are counted as: "gpu/NVIDIA-H100-80GB-HBM3".
inline constexpr std::string_view kModelPrefix = "gpu/";

// An amount of any resource, as Muster counts it: "gpu", GPUs of a model and "cpu" in thousandths, memory,
// huge pages and local disk in bytes, all others in whole units.
inline std::string format_resource(std::string_view resource, std::int64_t amount) {
  if (resource == "gpu" || resource == "cpu" || resource.starts_with(kModelPrefix))
    return format_milli(amount);
  const bool bytes =
      resource == "memory" || resource == "ephemeral-storage" || resource.starts_with("hugepages-");
  return bytes ? format_bytes(amount) : std::to_string(amount);
}

}  // namespace muster::common
