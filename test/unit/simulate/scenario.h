// Small inputs as text, and what came out as JSON.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "muster/simulate/report.h"
#include "muster/simulate/simulation.h"

namespace muster::simulate {

using nlohmann::json;

// n1 and n2 with `gpus` each; Queue all and Project team with the quota of both.
inline std::string cluster(int gpus = 4) {
  std::string text;
  for (const char* node : {"n1", "n2"}) {
    text += fmt::format(
        "---\n{{apiVersion: v1, kind: Node, metadata: {{name: {}}}, status: {{capacity: {{cpu: 64, memory: "
        "512Gi, "
        "pods: 110, nvidia.com/gpu: {}}}}}}}\n",
        node, gpus);
  }
  return text + fmt::format(
                    "---\n{{apiVersion: muster.dev/v1alpha1, kind: Queue, metadata: {{name: all}}, spec: "
                    "{{quota: {{gpu: {0}}}}}}}\n"
                    "---\n{{apiVersion: muster.dev/v1alpha1, kind: Project, metadata: {{name: team}}, spec: "
                    "{{queue: all, quota: "
                    "{{gpu: {0}}}}}}}\n",
                    2 * gpus);
}

// `notes`: annotations without their prefix, "at: 5s, runs-for: 10s"; `spec`: more of the spec, each with a
// comma behind it; `role`: of its one role.
inline std::string job(const std::string& name, const std::string& notes, const std::string& role,
                       const std::string& spec = "", const std::string& status = "") {
  std::string annotations;
  std::istringstream list(notes);
  for (std::string note; std::getline(list, note, ',');) {
    note.erase(0, note.find_first_not_of(' '));
    annotations += (annotations.empty() ? "" : ", ") + ("simulate.muster.dev/" + note);
  }
  return fmt::format(
      "---\n{{apiVersion: muster.dev/v1alpha1, kind: TrainingJob, metadata: {{name: {}, namespace: team, "
      "annotations: "
      "{{{}}}}},\n spec: {{{}roles: [{{name: worker, {}, template: {{spec: {{containers: [{{name: main, "
      "image: "
      "img}}]}}}}}}]}}{}}}\n",
      name, annotations, spec, role, status.empty() ? "" : ", status: {" + status + "}");
}

inline std::string printed(const std::string& text, Format format, std::optional<Instant> until = {}) {
  const Input input = read_text(text, "test.yaml");
  for (const auto& e : input.errors) ADD_FAILURE() << crds::to_string(e);
  if (!input.errors.empty()) return {};
  Simulation simulation(input, {until});
  for (const auto& e : simulation.run()) ADD_FAILURE() << crds::to_string(e);
  for (const auto& line : simulation.failures()) ADD_FAILURE() << line;
  std::ostringstream out;
  report(simulation, format, out);
  return out.str();
}

inline json run(const std::string& text, std::optional<Instant> until = {}) {
  return json::parse(printed(text, Format::kJson, until));
}

inline json job_of(const json& report, const std::string& name) {
  for (const char* list : {"jobs", "services"}) {
    for (const json& j : report.at(list)) {
      if (j.at("name") == name) return j;
    }
  }
  ADD_FAILURE() << "no " << name;
  return {};
}

// "12s Evicted team/a Preempted for team/b", without Waiting.
inline std::vector<std::string> events_of(const json& report) {
  std::vector<std::string> lines;
  for (const json& e : report.at("events")) {
    if (e.at("type") == "Waiting") continue;
    std::string line = fmt::format("{} {} {}", e.at("at").get<std::string>(), e.at("type").get<std::string>(),
                                   e.at("object").get<std::string>());
    if (!e.at("reason").get<std::string>().empty()) line += " " + e.at("reason").get<std::string>();
    if (!e.at("for").get<std::string>().empty()) line += " for " + e.at("for").get<std::string>();
    lines.push_back(line);
  }
  return lines;
}

}  // namespace muster::simulate
