// muster: one binary, a subcommand for each use.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>

#include "commands/commands.h"

namespace {

using muster::controller::LogFormat;
using muster::controller::Options;

void add_kubeconfig(CLI::App& command, std::string& kubeconfig) {
  command.add_option("--kubeconfig", kubeconfig, "The file with server and credentials")
      ->check(CLI::ExistingFile);
}

void add_context(CLI::App& command, std::string& context) {
  command.add_option("--context", context, "The context of the kubeconfig; default: its current one");
}

void add_logging(CLI::App& command, LogFormat& format, std::string& level) {
  command.add_option("--log-format", format, "text or json")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, LogFormat>{{"text", LogFormat::kText}, {"json", LogFormat::kJson}}));
  command.add_option("--log-level", level, "The lowest level that is logged")
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "error"}))
      ->capture_default_str();
}

void add_controller(CLI::App& app, Options& o) {
  auto* c = app.add_subcommand("controller",
                               "Run the operator. It watches Queues, Projects, NodePools and workloads, "
                               "starts what may run, and tells the rest why it waits.");
  c->footer(
      "Without --kubeconfig it uses the Pod's service account in a cluster, else $KUBECONFIG, else "
      "~/.kube/config.\n"
      "To run several replicas, give all of them --leader-elect: one acts, the others wait with full "
      "caches.\n"
      "On SIGTERM and SIGINT it finishes the writes under way, gives the lease back and ends within 30 s.\n\n"
      "  muster controller --kubeconfig ~/.kube/config\n"
      "  muster controller --leader-elect --log-format json");
  add_kubeconfig(*c, o.kubeconfig);
  add_context(*c, o.context);
  c->add_flag("--leader-elect", o.leader_elect, "Act only while holding the lease");
  c->add_option("--lease-namespace", o.lease_namespace,
                "The namespace of the lease, in which Muster itself runs")
      ->capture_default_str();
  c->add_option("--lease-name", o.lease_name, "The name of the lease")->capture_default_str();
  c->add_option("--identity", o.identity,
                "The name of this process in the lease; default: host name and a random part");
  c->add_option("--metrics-address", o.metrics_address, "Where /metrics is served; \"\": nowhere")
      ->capture_default_str();
  auto* certificate =
      c->add_option("--metrics-tls-cert-file", o.metrics_certificate,
                    "The certificate for /metrics with its chain, in PEM; without one it is plain HTTP. The "
                    "file is read again when it changes");
  auto* key = c->add_option("--metrics-tls-private-key-file", o.metrics_key, "Its private key, in PEM");
  certificate->needs(key);
  key->needs(certificate);
  c->add_flag("--metrics-authorize", o.metrics_authorize,
              "Answer /metrics only to whoever has a bearer token whose user may get the path /metrics")
      ->needs(certificate);
  c->add_option("--health-address", o.health_address, "Where /healthz and /readyz are served; \"\": nowhere")
      ->capture_default_str();
  add_logging(*c, o.log_format, o.log_level);
  c->add_flag("!--no-ledger", o.ledger, "Count no usage, to measure what counting costs")->group("");
  c->add_option("--workers", o.workers, "How many TrainingJobs are reconciled at once")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  c->add_option(
       "--max-in-flight", o.max_in_flight,
       "The most requests at once; answers 429 of the API server lower the number in use by themselves")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  c->add_option("--status-interval", o.status_interval,
                "Seconds between two writes of mere counters to one object")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  c->add_option("--node-grace", o.node_grace,
                "Seconds that a node may be not Ready before the pods there are placed anew")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
  c->add_option("--activator-admin-port", o.activator_admin_port,
                "The port at which the pods of `muster activator` answer questions")
      ->check(CLI::Range(1, 65535))
      ->capture_default_str();
  c->add_option("--activator-first-port", o.activator_first_port,
                "The first port at which activators listen for services, one for each with minReplicas 0")
      ->check(CLI::Range(1024, 65535))
      ->capture_default_str();
  c->add_option("--activator-last-port", o.activator_last_port, "The last of these ports")
      ->check(CLI::Range(1024, 65535))
      ->capture_default_str();
  c->add_option("--reservation-namespace", o.reservation_namespace,
                "The namespace of the pods that hold GPUs for those who share them")
      ->capture_default_str();
  c->add_option(
      "--reservation-image", o.reservation_image,
      "The image of these pods, with this program; default: that of the pod $POD_NAME in their namespace, "
      "else muster:" MUSTER_VERSION);
}

void add_hold_gpu(CLI::App& app, muster::controller::HoldGpuOptions& o) {
  auto* h =
      app.add_subcommand("hold-gpu",
                         "Wait for SIGTERM. This is what pods run that hold GPUs for those who share them; "
                         "Muster makes these pods itself.");
  h->add_flag("--report", o.report, "Write to the file which device the kubelet gave it, and end");
  h->add_option("--to", o.file, "The file")->capture_default_str();
}

void add_leader(CLI::App& app, muster::controller::LeaderOptions& o) {
  auto* l = app.add_subcommand(
      "leader", "Print which process leads. Exits with 1 if the lease is not renewed in time.");
  add_kubeconfig(*l, o.kubeconfig);
  l->add_option("--lease-namespace", o.ns, "The namespace of the lease")->capture_default_str();
  l->add_option("--lease-name", o.lease, "The name of the lease")->capture_default_str();
  l->add_option("--timeout", o.timeout, "How many seconds to wait")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
}

CLI::App* add_simulate(CLI::App& app, muster::controller::SimulateOptions& o) {
  auto* s = app.add_subcommand("simulate",
                               "See what would happen: play objects in virtual time through the code that "
                               "places them on a cluster. It needs no cluster.");
  s->footer(
      "It reads Nodes, foreign Pods, PriorityClasses, Queues, Projects, NodePools, TrainingJobs and "
      "InferenceServices.\n"
      "The annotations simulate.muster.dev/at, runs-for, age, ... say when they come and how long they "
      "work.\n"
      "docs/simulate.md has them all, the output, and the expectations that --check looks at.\n"
      "Exit status: 0; 1 if an expectation does not hold; 2 if the input is wrong (it says file, line, "
      "field\n"
      "and what is allowed).\n\n"
      "  muster simulate --until 48h cluster.yaml jobs/\n"
      "  kubectl get nodes,queues,projects,nodepools,trainingjobs -A -o yaml | muster simulate -o json -");
  s->add_option("--until", o.until, "End at this instant (48h); default: when nothing happens any more");
  s->add_option("-o,--output", o.format, "table, json, yaml or events; default: table; with --check nothing")
      ->check(CLI::IsMember({"table", "json", "yaml", "events"}));
  s->add_flag("--check", o.check, "Compare with the Expectations in the input");
  s->add_option("files", o.files, "YAML or JSON files, directories, or - for standard input")
      ->required()
      ->type_name("FILE|DIR|-");
  return s;
}

CLI::App* add_ui(CLI::App& app, muster::controller::UiOptions& o) {
  auto* u = app.add_subcommand("ui",
                               "Serve the page about the cluster to its users. Each shows a bearer token and "
                               "sees what they may list.");
  u->footer(
      "It watches with its own rights (manifests/ui) and asks the API server who each user is and what they "
      "may "
      "list.\n"
      "For a page of your own, with your own rights, there is `kubectl muster ui`. docs/page.md tells "
      "more.\n\n"
      "  muster ui --address :8443 --tls-cert-file tls.crt --tls-private-key-file tls.key");
  add_kubeconfig(*u, o.kubeconfig);
  add_context(*u, o.context);
  u->add_option("--address", o.address, "Where it listens; without a certificate only on the loopback")
      ->capture_default_str();
  auto* certificate = u->add_option("--tls-cert-file", o.certificate,
                                    "Its certificate with the chain, in PEM. The file is read again when it "
                                    "changes");
  auto* key = u->add_option("--tls-private-key-file", o.key, "The certificate's private key, in PEM");
  certificate->needs(key);
  key->needs(certificate);
  add_logging(*u, o.log_format, o.log_level);
  return u;
}

void add_activator(CLI::App& app, muster::controller::ActivatorOptions& o) {
  auto* a = app.add_subcommand(
      "activator",
      "Hold requests for InferenceServices that have no replica, and pass them on when one "
      "is ready.");
  a->footer(
      "It watches InferenceServices and EndpointSlices with its own rights (manifests/activator), and "
      "listens for each\n"
      "service with minReplicas 0 at the port that status.activatorPort names. On SIGTERM it is not ready "
      "any more,\n"
      "passes on for 5 s what still comes, and waits for what it has passed on.\n\n"
      "  muster activator --log-format json");
  add_kubeconfig(*a, o.kubeconfig);
  add_context(*a, o.context);
  a->add_option("--address", o.address, "The address at which it listens for services")
      ->capture_default_str();
  a->add_option("--admin-address", o.admin_address,
                "Where it answers probes, scrapers and the operator: /healthz, /readyz, /metrics, /demand")
      ->capture_default_str();
  a->add_option("--max-requests", o.max_requests,
                "The most requests that are held for one service; beyond: 429")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  a->add_option("--max-mebibytes", o.max_mebibytes,
                "The most memory for requests that are held, in all; beyond: 429")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  a->add_option("--max-per-replica", o.max_per_replica,
                "The most requests that one replica gets from this process at once; the others are held")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  a->add_option("--hold", o.hold_seconds, "Seconds after which a request that is held is answered with 504")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
  a->add_option("--drain", o.drain_seconds, "Seconds that it waits, when it ends, for what it has passed on")
      ->check(CLI::Range(0, 86400))
      ->capture_default_str();
  add_logging(*a, o.log_format, o.log_level);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Muster runs a shared GPU cluster. Teams get guaranteed shares and may borrow what idles. A job starts "
      "whole\n"
      "or not at all, and a job that waits says why. Use it with kubectl: apply Queue, Project, NodePool "
      "and\n"
      "TrainingJob objects, then look at them with `kubectl get queues,projects,nodepools,trainingjobs -A`.",
      "muster");
  app.footer("`muster SUBCOMMAND --help` tells more.");
  app.require_subcommand(1);

  Options options;
  add_controller(app, options);

  std::vector<std::string> files;
  auto* validate =
      app.add_subcommand("validate", "Check objects against the schemas and rules of the CRDs, offline.");
  validate->footer(
      "Objects of other groups are passed over. Exit status: 0 if all are valid; 1 if some are not (a line "
      "each, with\n"
      "file, line, field and what is allowed); 2 if a file cannot be read.\n\n  muster validate -f job.yaml\n"
      "  kustomize build . | muster validate -f -");
  validate
      ->add_option("-f,--filename", files,
                   "YAML or JSON file, directory, or - for standard input; may be repeated")
      ->required();

  muster::controller::SimulateOptions simulated;
  auto* simulate = add_simulate(app, simulated);

  muster::controller::HoldGpuOptions held;
  add_hold_gpu(app, held);

  muster::controller::LeaderOptions leader;
  add_leader(app, leader);
  muster::controller::UiOptions page;
  auto* ui = add_ui(app, page);

  muster::controller::ActivatorOptions activated;
  add_activator(app, activated);

  auto* version = app.add_subcommand("version", "Print the version.");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;  // --help is no error
  }
  if (version->parsed()) {
    std::printf("muster %s\n", MUSTER_VERSION);
    return 0;
  }
  if (validate->parsed()) return muster::controller::run_validate(files);
  if (app.got_subcommand("hold-gpu")) return muster::controller::run_hold_gpu(held);
  if (app.got_subcommand("activator")) return muster::controller::run_activator(activated);
  if (app.got_subcommand("leader")) return muster::controller::run_leader(leader);
  if (ui->parsed()) return muster::controller::run_ui(page);
  if (simulate->parsed()) return muster::controller::run_simulate(simulated);
  return muster::controller::run_controller(options);
}
