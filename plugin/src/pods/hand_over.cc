// `exec` and `port-forward`: kubectl does both well. It only has to be told the pod.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>

#include "pods/pods.h"
#include "pods/ranks.h"

namespace muster::plugin {
namespace {

constexpr int kNotFoundInPath = 127;  // as a shell says it

int become(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (auto& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::cout.flush();
  execvp(argv.front(), argv.data());
  std::cerr << fmt::format("error: {} cannot be started: {}\n", arguments.front(), std::strerror(errno));
  return kNotFoundInPath;
}

// `verb_for` makes what kubectl is to do with the pod of this rank.
int hand_over(const Options& options, const std::string& name, std::int32_t rank,
              const std::function<std::vector<std::string>(const RankedPod&)>& verb_for) {
  return with_workload(options, name, [&](Reader& reader, const Workload& workload) {
    const auto pods = pods_of(reader, workload);
    if (!pods) return fail(said(pods.error()));
    const std::string who = name_of(meta_of(workload));
    if (pods->empty()) return fail(who + " has no pods; `kubectl muster why` says what it does");
    const auto pod = std::ranges::find(*pods, rank, &RankedPod::rank);
    if (pod == pods->end()) return fail(say_no_rank(who, *pods, rank));
    return become(kubectl_arguments(options, meta_of(workload).ns, verb_for(*pod)));
  });
}

}  // namespace

std::vector<std::string> kubectl_arguments(const Options& options, const std::string& ns,
                                           const std::vector<std::string>& verb) {
  std::vector<std::string> all = {"kubectl"};
  if (!options.kubeconfig.empty()) all.push_back("--kubeconfig=" + options.kubeconfig);
  if (!options.context.empty()) all.push_back("--context=" + options.context);
  all.push_back("--namespace=" + ns);
  all.insert(all.end(), verb.begin(), verb.end());
  return all;
}

int run_exec(const Options& options, const std::string& name, const ExecOptions& exec,
             const std::vector<std::string>& command) {
  if (command.empty()) return wrong_use("a command is missing: kubectl muster exec JOB -- COMMAND");
  return hand_over(options, name, exec.rank, [&](const RankedPod& pod) {
    std::vector<std::string> verb = {
        "exec", pod.name, "--container=" + (exec.container.empty() ? pod.container : exec.container)};
    if (exec.stdin_too) verb.emplace_back("--stdin");
    if (exec.tty) verb.emplace_back("--tty");
    verb.emplace_back("--");
    verb.insert(verb.end(), command.begin(), command.end());
    return verb;
  });
}

int run_port_forward(const Options& options, const std::string& name, std::int32_t rank,
                     const std::vector<std::string>& ports) {
  return hand_over(options, name, rank, [&](const RankedPod& pod) {
    std::vector<std::string> verb = {"port-forward", "pod/" + pod.name};
    verb.insert(verb.end(), ports.begin(), ports.end());
    return verb;
  });
}

}  // namespace muster::plugin
