// testcluster: a test cluster from the command line, for the demo and for looking around.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <iostream>

#include "muster/testcluster/testcluster.h"

namespace {

using namespace muster::testcluster;

int fail(const std::string& message) {
  std::cerr << "testcluster: " << message << "\n";
  return 1;
}

int up(const Options& options) {
  // Blocked before the cluster's processes start, taken out below.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  if (!options.detach) sigprocmask(SIG_BLOCK, &signals, nullptr);
  if (options.detach && TestCluster::attach(options.directory)) {
    std::cerr << "a cluster runs in " << options.directory.string() << " already\n";
    return 0;
  }
  auto cluster = TestCluster::start(options);
  if (!cluster) return fail(cluster.error());
  std::cout << "export KUBECONFIG=" << cluster->kubeconfig().string() << std::endl;
  if (options.detach) return 0;
  int signal = 0;
  sigwait(&signals, &signal);
  cluster->stop();
  return 0;
}

// Splits "key=value" and, for taints, "key=value:Effect".
bool parse_pairs(const std::vector<std::string>& texts, std::map<std::string, std::string>& into) {
  for (const std::string& text : texts) {
    const auto equals = text.find('=');
    if (equals == std::string::npos) return false;
    into[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return true;
}

bool parse_taints(const std::vector<std::string>& texts, std::vector<Taint>& into) {
  for (const std::string& text : texts) {
    const auto colon = text.rfind(':');
    if (colon == std::string::npos) return false;
    const auto equals = text.find('=');
    const bool has_value = equals != std::string::npos && equals < colon;
    into.push_back({text.substr(0, has_value ? equals : colon),
                    has_value ? text.substr(equals + 1, colon - equals - 1) : "", text.substr(colon + 1)});
  }
  return true;
}

int add_nodes(const std::string& directory, NodeTemplate nodes, const std::vector<std::string>& labels,
              const std::vector<std::string>& taints) {
  if (!parse_pairs(labels, nodes.labels)) return fail("--label wants KEY=VALUE");
  if (!parse_taints(taints, nodes.taints)) return fail("--taint wants KEY[=VALUE]:EFFECT");
  auto cluster = TestCluster::attach(directory);
  if (!cluster) return fail(cluster.error());
  const auto names = cluster->add_nodes(nodes);
  if (!names) return fail(names.error());
  return 0;
}

int kubectl(const std::string& directory, const std::vector<std::string>& arguments) {
  auto cluster = TestCluster::attach(directory);
  if (!cluster) return fail(cluster.error());
  std::vector<std::string> command = {cluster->controlplane(), "kubectl",
                                      "--kubeconfig=" + cluster->kubeconfig().string(),
                                      "--cache-dir=" + (cluster->directory() / "kubectl-cache").string()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& argument : command) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  execv(pointers[0], pointers.data());
  return fail("cannot run " + command[0]);
}

int token(const std::string& directory, const std::string& name_space, const std::string& name) {
  auto cluster = TestCluster::attach(directory);
  if (!cluster) return fail(cluster.error());
  const auto file = cluster->service_account_kubeconfig(name_space, name);
  if (!file) return fail(file.error());
  std::cout << file->string() << "\n";
  return 0;
}

int down(const std::string& directory, bool remove) {
  if (auto done = TestCluster::stop_detached(directory); !done) return fail(done.error());
  std::error_code ignored;
  if (remove && std::filesystem::exists(directory + "/cluster"))
    std::filesystem::remove_all(directory, ignored);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("A Kubernetes control plane of its own, with simulated nodes, in a directory.");
  app.require_subcommand(1);
  std::string directory;
  const auto subcommand = [&](const char* name, const char* description) {
    CLI::App* result = app.add_subcommand(name, description);
    result->add_option("DIR", directory, "the cluster's directory")->required();
    return result;
  };

  Options options;
  CLI::App* up_command = subcommand("up", "Starts a cluster. Without --detach it runs until ^C.");
  bool no_controller_manager = false, no_kwok = false;
  up_command->add_flag("--detach", options.detach, "return when it is ready; `testcluster down DIR` ends it");
  up_command->add_flag("--audit", options.audit, "write every request to DIR/audit.log");
  up_command->add_flag("--no-controller-manager", no_controller_manager);
  up_command->add_flag("--no-kwok", no_kwok);
  up_command->add_option("--apiserver-flag", options.apiserver_flags, "further flag of kube-apiserver");

  NodeTemplate nodes;
  std::vector<std::string> labels, taints;
  CLI::App* nodes_command = subcommand("add-nodes", "Adds simulated nodes and waits until they are Ready.");
  nodes_command->add_option("--prefix", nodes.prefix, "names are PREFIX-INDEX")->capture_default_str();
  nodes_command->add_option("--first", nodes.first, "the first index")->capture_default_str();
  nodes_command->add_option("--count", nodes.count, "how many")->capture_default_str();
  nodes_command->add_option("--gpus", nodes.gpus, "GPUs of each")->capture_default_str();
  nodes_command->add_option("--model", nodes.model, "label nvidia.com/gpu.product")->capture_default_str();
  nodes_command->add_option("--gpu-memory", nodes.gpu_memory_mib, "label nvidia.com/gpu.memory, MiB")
      ->capture_default_str();
  nodes_command->add_option("--cpu", nodes.cpu, "CPUs of each")->capture_default_str();
  nodes_command->add_option("--memory", nodes.memory, "memory of each")->capture_default_str();
  nodes_command->add_option("--pods", nodes.pods, "pod slots of each")->capture_default_str();
  nodes_command->add_option("--zone", nodes.zone, "label topology.kubernetes.io/zone")->capture_default_str();
  nodes_command->add_option("--nodes-per-rack", nodes.nodes_per_rack, "label muster.dev/rack");
  nodes_command->add_option("--racks-per-block", nodes.racks_per_block, "label muster.dev/block");
  nodes_command->add_option("--label", labels, "KEY=VALUE");
  nodes_command->add_option("--taint", taints, "KEY[=VALUE]:EFFECT");

  CLI::App* kubectl_command =
      subcommand("kubectl", "Runs kubectl as admin: testcluster kubectl DIR get nodes");
  kubectl_command->prefix_command();

  std::string name_space, name;
  CLI::App* token_command =
      subcommand("token", "Writes a kubeconfig for a ServiceAccount and prints its path.");
  token_command->add_option("NAMESPACE", name_space)->required();
  token_command->add_option("NAME", name)->required();

  bool remove = false;
  CLI::App* down_command = subcommand("down", "Ends the cluster's processes, and keeps data and logs.");
  down_command->add_flag("--remove", remove, "remove the directory as well");

  CLI11_PARSE(app, argc, argv);
  options.directory = directory;
  options.with_controller_manager = !no_controller_manager;
  options.with_kwok = !no_kwok;
  if (up_command->parsed()) return up(options);
  if (nodes_command->parsed()) return add_nodes(directory, nodes, labels, taints);
  if (kubectl_command->parsed()) return kubectl(directory, kubectl_command->remaining());
  if (token_command->parsed()) return token(directory, name_space, name);
  return down(directory, remove);
}
