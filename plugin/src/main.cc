// kubectl-muster: `kubectl muster …` finds it in PATH.
#include <CLI/CLI.hpp>
#include <string>

#include "commands.h"

int main(int argc, char** argv) {
  CLI::App app(
      "Ask what Muster does with a cluster. It reads with your own kubeconfig and rights, and changes "
      "nothing.",
      "kubectl muster");
  app.footer("`kubectl muster COMMAND --help` tells more.");
  app.require_subcommand(1);
  app.fallthrough();
  muster::plugin::Options options;
  app.add_option("--kubeconfig", options.kubeconfig,
                 "The file with server and credentials; default: as kubectl")
      ->check(CLI::ExistingFile);
  app.add_option("--context", options.context, "The context of the kubeconfig; default: its current one");
  app.add_option("-n,--namespace", options.ns, "The namespace; default: the context's");

  std::string name;
  auto* why = app.add_subcommand(
      "why", "Why a job or service waits, what would help, and when it may start; or what it does now.");
  why->footer("  kubectl muster why llama-ft\n  kubectl muster why -n nlp inferenceservice/chat");
  why->add_option("object", name, "NAME, trainingjob/NAME or inferenceservice/NAME")->required();

  auto* tree = app.add_subcommand(
      "tree", "The tree of Queues and Projects: quota, fair share, what each holds, borrows and waits for.");
  tree->footer("It needs the right to list Queues and Projects (ClusterRole muster-viewer).");

  auto* queue = app.add_subcommand("queue", "What waits, in the order in which it is served.");
  queue->add_flag("-A,--all-namespaces", options.all_namespaces, "Of all namespaces");

  auto* nodes = app.add_subcommand("nodes", "The nodes with their GPUs, and who has each of them.");
  nodes->footer("It needs the right to list Nodes, NodePools, and TrainingJobs of all namespaces.");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;  // --help is no error
  }
  if (why->parsed()) return muster::plugin::run_why(options, name);
  if (tree->parsed()) return muster::plugin::run_tree(options);
  if (nodes->parsed()) return muster::plugin::run_nodes(options);
  return muster::plugin::run_queue(options);
}
