#include "act/submission.h"

#include <algorithm>
#include <cctype>

namespace muster::plugin {
namespace {

constexpr std::size_t kMaxNameOfImage = 20;

Data role_of(const Submission& s) {
  Data container = {{"name", "main"}, {"image", s.image}};
  if (!s.command.empty()) container["command"] = s.command;
  if (!s.cpu.empty()) container["resources"]["requests"]["cpu"] = s.cpu;
  if (!s.memory.empty()) container["resources"]["requests"]["memory"] = s.memory;
  Data role = {{"name", "worker"}, {"replicas", s.replicas}};
  if (s.gpus > 0) role["gpus"]["count"] = s.gpus;
  role["template"]["spec"]["containers"] = Data::array({container});
  return role;
}

}  // namespace

std::string name_of_image(const std::string& image) {
  std::string last = image.substr(0, image.find('@'));
  last = last.substr(last.rfind('/') + 1);
  last = last.substr(0, last.find(':'));
  std::string name;
  for (const unsigned char c : last) {
    if (name.empty() && std::isalpha(c) == 0) continue;
    name += std::isalnum(c) != 0 ? static_cast<char>(std::tolower(c)) : '-';
  }
  name = name.substr(0, kMaxNameOfImage);
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name.empty() ? "job" : name;
}

Data job_of(const Submission& s, const std::string& ns) {
  Data metadata;
  if (s.name.empty()) {
    metadata["generateName"] = name_of_image(s.image) + "-";
  } else {
    metadata["name"] = s.name;
  }
  metadata["namespace"] = ns;
  Data spec;
  if (s.interactive) spec["mode"] = "Interactive";
  if (!s.priority.empty()) spec["priorityClassName"] = s.priority;
  if (!s.framework.empty()) spec["framework"] = s.framework;
  if (!s.pool.empty()) spec["pools"] = {s.pool};
  if (!s.max_runtime.empty()) spec["maxRuntime"] = s.max_runtime;
  spec["roles"] = Data::array({role_of(s)});
  return {{"apiVersion", crds::kApiVersion},
          {"kind", crds::TrainingJob::kKind},
          {"metadata", metadata},
          {"spec", spec}};
}

}  // namespace muster::plugin
