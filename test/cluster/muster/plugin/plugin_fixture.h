// Asks the real kubectl-muster.
#pragma once

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "fixture.h"
#include "muster/testcluster/process.h"

namespace muster::test {

using testcluster::CommandResult;

// With a kubeconfig, and what stands on its standard input. Variables of `environment` replace ours.
inline CommandResult ask_plugin(std::vector<std::string> arguments, const std::filesystem::path& kubeconfig,
                                const std::string& input = {},
                                std::vector<std::pair<std::string, std::string>> environment = {}) {
  arguments.insert(arguments.begin(), {MUSTER_PLUGIN, "--kubeconfig", kubeconfig.string()});
  return testcluster::run_command(
             {.arguments = std::move(arguments), .environment = std::move(environment), .log = {}}, input)
      .value_or(CommandResult{-1, "", "it could not be run"});
}

// The words of the line that begins so, with one space between them; "": there is none.
inline std::string line_of(const std::string& text, const std::string& begins) {
  std::istringstream in(text);
  for (std::string l; std::getline(in, l);) {
    std::istringstream words(l);
    std::string all;
    for (std::string word; words >> word;) all += (all.empty() ? "" : " ") + word;
    if (all.starts_with(begins)) return all;
  }
  return {};
}

// A user who may see what is in namespace `team`, and nothing else.
inline testcluster::Result<std::filesystem::path> viewer_of_team(Cluster& cluster, const std::string& name) {
  cluster.apply(R"(
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: )" +
                name + R"(, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: User, name: )" +
                name + R"(, apiGroup: rbac.authorization.k8s.io}]
)");
  const auto kubeconfig = cluster.real().certificate_kubeconfig(name + ".kubeconfig", name, {});
  // Kubernetes puts the roles that are added to `view` together a moment later.
  if (kubeconfig)
    cluster.wait(20s, [&] { return ask_plugin({"queue", "-n", "team"}, *kubeconfig).exit_code == 0; });
  return kubeconfig;
}

}  // namespace muster::test
