#include "muster/reconcilers/pods/names.h"

#include <algorithm>
#include <charconv>
#include <cstddef>

namespace muster::reconcilers {
namespace {

constexpr std::size_t kMaxLabel = 63;
constexpr std::size_t kMaxName = 253;

bool is_alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

// `text` where it fits, else its beginning and a hash of the whole.
std::string fit(std::string text, std::size_t limit) {
  constexpr std::size_t kDigits = 10;
  if (text.size() <= limit) return text;
  const std::string hash = hash_of(text, kDigits);
  text.resize(limit - kDigits - 1);
  while (!text.empty() && !is_alnum(text.back())) text.pop_back();
  return text + "-" + hash;
}

bool is_dns_1035(std::string_view name) {
  if (name.empty() || name.size() > kMaxLabel || name.front() < 'a' || name.front() > 'z' ||
      name.back() == '-')
    return false;
  return std::ranges::all_of(name, [](char c) { return is_alnum(c) || c == '-'; });
}

}  // namespace

std::string hash_of(std::string_view text, std::size_t digits) {
  std::uint64_t h = 0xcbf29ce484222325ULL;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  std::string hex;
  for (std::size_t i = 0; i < digits; ++i) hex += "0123456789abcdef"[(h >> (60 - 4 * i)) & 0xF];
  return hex;
}

std::string job_label(std::string_view job) {
  return fit(std::string(job), kMaxLabel);
}

crds::StringMap labels_of_pods(const crds::TrainingJob& job, const crds::Role& role) {
  crds::StringMap labels{{std::string(kJobLabel), job_label(job.metadata.name)},
                         {std::string(kRoleLabel), role.name}};
  for (const auto of_owner : {kServiceLabel, kRevisionLabel, kArrayLabel, kArrayIndexLabel}) {
    const auto found = job.metadata.labels.find(std::string(of_owner));
    if (found != job.metadata.labels.end()) labels.insert(*found);
  }
  return labels;
}

std::string pod_name(std::string_view job, std::string_view role, std::int32_t index, std::int32_t attempt,
                     std::int32_t tries) {
  std::string name;
  name.reserve(job.size() + role.size() + 32);
  name.append(job).append("-").append(role);
  if (role.find('-') != std::string_view::npos) {
    const std::string both = std::string(job) + "/" + std::string(role);
    name.append("-").append(hash_of(both, 6));
  }
  name.append("-").append(std::to_string(index)).append("-").append(std::to_string(attempt));
  if (tries > 0) name.append("-r").append(std::to_string(tries));
  return fit(std::move(name), kMaxName);
}

std::string replica_name(std::string_view service, std::string_view revision, std::int32_t ordinal) {
  constexpr std::size_t kMaxJob = 40;  // the schema's
  const std::size_t rest = 1 + revision.size() + 1 + 4;
  std::string name = fit(std::string(service), kMaxJob - rest);
  return name.append("-").append(revision).append("-").append(std::to_string(ordinal));
}

std::string index_job_name(std::string_view array, std::int32_t index) {
  return std::string(array).append("-").append(std::to_string(index));
}

std::optional<std::int32_t> array_index_of(const crds::StringMap& labels) {
  const auto found = labels.find(std::string(kArrayIndexLabel));
  if (found == labels.end()) return std::nullopt;
  const std::string& text = found->second;
  std::int32_t index = -1;
  const auto [next, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  return error == std::errc() && next == text.data() + text.size() && index >= 0 ? std::optional(index)
                                                                                 : std::nullopt;
}

std::string revision_of(std::string_view spec) {
  return hash_of(spec, 5);
}

std::string host_name(std::string_view role, std::int32_t index) {
  return fit(std::string(role) + "-" + std::to_string(index), kMaxLabel);
}

std::string service_name(std::string_view job) {
  if (is_dns_1035(job)) return std::string(job);
  std::string name = "j-";
  for (const char c : job) name += is_alnum(c) ? c : '-';
  name.resize(std::min(name.size(), kMaxLabel - 11));
  while (!is_alnum(name.back())) name.pop_back();
  return name + "-" + hash_of(job, 10);
}

std::string selector_of(std::string_view job) {
  return std::string(kJobLabel) + "=" + job_label(job);
}

std::string hosts_config_map_name(std::string_view job) {
  return fit(std::string(job) + "-hosts", kMaxName);
}

std::string holder_pod_name(std::string_view node, std::int32_t gpu) {
  return fit("gpu-" + std::to_string(gpu) + "-" + std::string(node), kMaxName);
}

std::string gpu_list(const std::vector<std::int32_t>& gpus) {
  std::string list;
  for (const std::int32_t gpu : gpus) {
    if (!list.empty()) list += ',';
    list += std::to_string(gpu);
  }
  return list;
}

std::optional<std::vector<std::int32_t>> parse_numbers(std::string_view text, std::int32_t most) {
  std::vector<std::int32_t> list;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    std::int32_t n = 0;
    const auto [next, error] = std::from_chars(at, end, n);
    if (error != std::errc() || n < 0 || n > most || (next != end && *next != ',')) return std::nullopt;
    list.push_back(n);
    at = next == end ? end : next + 1;
  }
  return list;
}

std::vector<std::int32_t> parse_gpu_list(std::string_view text) {
  return parse_numbers(text, kMaxGpusOfNode - 1).value_or(std::vector<std::int32_t>{});
}

}  // namespace muster::reconcilers
