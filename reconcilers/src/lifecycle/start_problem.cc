#include "muster/reconcilers/lifecycle/start_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <span>

#include "muster/crds/text.h"

namespace muster::reconcilers {
namespace {

// What others wrote is quoted up to here.
constexpr std::size_t kMaxQuote = 256;

// Kubelet's words.
constexpr std::array<std::string_view, 7> kOfImages = {
    "ErrImagePull",      "ImagePullBackOff",    "InvalidImageName",         "ErrImageNeverPull",
    "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed"};
constexpr std::array<std::string_view, 3> kOfContainers = {"CreateContainerConfigError",
                                                           "CreateContainerError", "RunContainerError"};

// In small letters. PyTorch, CUDA, HIP, vLLM (also when what is left of the memory is too little for its
// cache).
constexpr std::array<std::string_view, 7> kOfGpuMemory = {
    "cuda out of memory",        "outofmemoryerror",  "cuda error: out of memory",
    "cudaerrormemoryallocation", "hip out of memory", "no available memory for the cache blocks",
    "free memory on device"};
// huggingface_hub, requests, curl, and the stores with S3's protocol.
constexpr std::array<std::string_view, 16> kOfModel = {
    "401 client error",      "403 client error",   "404 client error",    "401 unauthorized",
    "403 forbidden",         "404 not found",      "gatedrepoerror",      "repositorynotfounderror",
    "revisionnotfounderror", "entrynotfounderror", "returned error: 401", "returned error: 403",
    "returned error: 404",   "nosuchkey",          "nosuchbucket",        "accessdenied"};

std::string in_small_letters(std::string_view text) {
  std::string small(text);
  std::ranges::transform(small, small.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return small;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// The last line in which one of these words is; "": in none.
std::string_view line_with(std::string_view text, std::span<const std::string_view> words) {
  const std::string small = in_small_letters(text);
  std::size_t at = std::string::npos;
  for (const std::string_view word : words) {
    const auto found = small.rfind(word);
    if (found != std::string::npos && (at == std::string::npos || found > at)) at = found;
  }
  if (at == std::string::npos) return {};
  const auto before = text.rfind('\n', at);
  const auto begin = before == std::string_view::npos ? 0 : before + 1;
  return trimmed(text.substr(begin, text.find('\n', at) - begin));
}

// A program says last what it dies of.
std::string_view last_line(std::string_view text) {
  text = trimmed(text);
  const auto before = text.rfind('\n');
  return trimmed(before == std::string_view::npos ? text : text.substr(before + 1));
}

std::string said(std::string_view text) {
  return text.empty() ? std::string() : ": " + crds::cut(text, kMaxQuote);
}

StartProblem problem_of(const client::Pod& pod, const client::ContainerEnd& end) {
  StartProblem problem{kProgramFailsAtStart, {}};
  std::string_view line = last_line(end.message);
  if (end.reason == "OOMKilled") {
    problem.reason = kOutOfMemory;
  } else if (const auto memory = line_with(end.message, kOfGpuMemory); !memory.empty()) {
    problem.reason = kOutOfGpuMemory;
    line = memory;
  } else if (const auto model = line_with(end.message, kOfModel); !model.empty()) {
    problem.reason = kModelNotAvailable;
    line = model;
  }
  problem.message = fmt::format(
      "pod {} on node {}: container {} ended with exit code {}{}{}", pod.meta.name, pod.node_name, end.name,
      end.exit_code,
      end.reason.empty() || end.reason == "Error" ? "" : fmt::format(" ({})", std::string_view(end.reason)),
      said(line));
  return problem;
}

}  // namespace

std::optional<StartProblem> problem_of_waiting(const client::Pod& pod) {
  std::string_view reason;
  if (std::ranges::find(kOfImages, pod.waiting_reason) != kOfImages.end()) reason = kImageNotPulled;
  if (std::ranges::find(kOfContainers, pod.waiting_reason) != kOfContainers.end())
    reason = kContainerNotCreated;
  if (reason.empty()) return std::nullopt;
  return StartProblem{reason, fmt::format("pod {} on node {}: {}{}", pod.meta.name, pod.node_name,
                                          pod.waiting_reason, said(trimmed(pod.waiting_message)))};
}

StartProblem problem_of_end(const client::Pod& pod) {
  for (const auto& end : pod.ended) {
    if (end.exit_code != 0) return problem_of(pod, end);
  }
  // A server that ends well before it has served does not serve either.
  if (!pod.ended.empty()) return problem_of(pod, pod.ended.front());
  return {kProgramFailsAtStart, fmt::format("pod {} on node {} failed{}", pod.meta.name, pod.node_name,
                                            said(pod.reason.empty() ? pod.message : pod.reason))};
}

bool is_start_problem(std::string_view reason) {
  constexpr std::array all = {kImageNotPulled, kContainerNotCreated, kModelNotAvailable,
                              kOutOfGpuMemory, kOutOfMemory,         kProgramFailsAtStart};
  return std::ranges::find(all, reason) != all.end();
}

}  // namespace muster::reconcilers
