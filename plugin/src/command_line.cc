#include "command_line.h"

#include <algorithm>
#include <set>

#include "act/act.h"
#include "act/rollout.h"
#include "act/session.h"
#include "completion.h"
#include "pods/pods.h"
#include "show/show.h"
#include "whatif/whatif.h"

namespace muster::plugin {
namespace {

constexpr int kMaxNumber = 1'000'000;

CLI::Range from(int least) {
  return {least, kMaxNumber};
}

Format format_of(const std::string& word) {
  if (word == "wide") return Format::kWide;
  if (word == "json") return Format::kJson;
  if (word == "yaml") return Format::kYaml;
  return word == "csv" ? Format::kCsv : Format::kTable;
}

void add_output(CLI::App& command, CommandLine& line, const std::set<std::string>& formats) {
  command
      .add_option_function<std::string>(
          "-o,--output", [&line](const std::string& word) { line.options.format = format_of(word); },
          "How it is printed")
      ->check(CLI::IsMember(formats));
}

void add_all_namespaces(CLI::App& command, CommandLine& line) {
  command.add_flag("-A,--all-namespaces", line.options.all_namespaces, "Of all namespaces");
}

// The name that a command is about. It lives as long as `command` may run.
std::shared_ptr<std::string> add_job(CLI::App& command, bool required = true) {
  auto name = std::make_shared<std::string>();
  command.add_option(kJobArgument, *name, "NAME, trainingjob/NAME, inferenceservice/NAME or 'ARRAY[INDEX]'")
      ->required(required);
  return name;
}

// The pool whose GPUs are shown.
std::shared_ptr<std::string> add_pool(CLI::App& command) {
  auto pool = std::make_shared<std::string>();
  command.add_option("--pool", *pool, "Of this NodePool; default: the default pool");
  return pool;
}

void add_why(CLI::App& app, CommandLine& line) {
  auto* why = app.add_subcommand(
      "why", "Why a job or service waits, what would help, and when it may start; or what it does now");
  why->footer(
      "  kubectl muster why llama-ft\n  kubectl muster why -n nlp inferenceservice/chat\n"
      "  kubectl muster why 'sweep[7]'");
  why->add_flag("-A,--all-namespaces", line.options.all_namespaces,
                "Name also jobs of other namespaces that are ahead of it");
  add_output(*why, line, {"table", "json", "yaml"});
  why->callback(
      [&line, name = add_job(*why)] { line.run = [&line, name] { return run_why(line.options, *name); }; });
}

void add_lists(CLI::App& app, CommandLine& line) {
  auto* queue = app.add_subcommand("queue", "What waits, in the order in which it is served");
  add_all_namespaces(*queue, line);
  add_output(*queue, line, {"table", "wide", "json", "yaml", "csv"});
  queue->callback([&line] { line.run = [&line] { return run_queue(line.options); }; });

  auto* tree = app.add_subcommand(
      "tree", "The tree of Queues and Projects: quota, fair share, what each holds, borrows and waits for");
  tree->footer(
      "It needs the right to list Queues and Projects (ClusterRole muster-viewer). Without it, it tells "
      "what\n"
      "the namespace has and waits for.");
  add_output(*tree, line, {"table", "wide", "json", "yaml", "csv"});
  tree->callback([&line, pool = add_pool(*tree)] {
    line.run = [&line, pool] { return run_tree(line.options, *pool); };
  });

  auto* nodes = app.add_subcommand("nodes", "The nodes with their GPUs, and who has each of them");
  nodes->footer(
      "It needs the right to list Nodes, NodePools, and TrainingJobs of all namespaces. Without it, it "
      "shows\n"
      "the GPUs that jobs of the namespace have.");
  add_output(*nodes, line, {"table", "wide", "json", "yaml"});
  nodes->callback([&line] { line.run = [&line] { return run_nodes(line.options); }; });

  auto* top =
      app.add_subcommand("top", "The pools and the tree, drawn again every 2 seconds until q or Ctrl-C");
  top->footer(
      "Where standard output is no terminal it prints them once.\n"
      "It needs the right to list NodePools, Queues and Projects (ClusterRole muster-viewer). Without it, "
      "it\n"
      "tells what the namespace has and waits for.");
  top->callback(
      [&line, pool = add_pool(*top)] { line.run = [&line, pool] { return run_top(line.options, *pool); }; });
}

void add_ui(CLI::App& app, CommandLine& line) {
  const auto port = std::make_shared<int>(0);
  auto* ui = app.add_subcommand("ui", "A page for your browser about all of this, until you end it");
  ui->footer(
      "It shows all namespaces, or, where you may not read them all, those that -n names: -n nlp,vision.\n"
      "Only who has the URL that it prints can read the page, and only on this machine.");
  ui->add_option("--port", *port, "The port on 127.0.0.1; default: a free one")->check(CLI::Range(0, 65535));
  ui->callback([&line, port] { line.run = [&line, port] { return run_ui(line.options, *port); }; });
}

void add_usage(CLI::App& app, CommandLine& line) {
  struct Asked {
    std::string by = "project", since;
  };
  const auto asked = std::make_shared<Asked>();
  auto* usage = app.add_subcommand("usage", "What was used, by whom, and how much of it was of use");
  usage->footer(
      "Days are of UTC: 1d is today, 7d is today and the six days before it. A job is counted over its "
      "whole\n"
      "life. It needs the right to list Projects or Queues (ClusterRole muster-viewer). Without it, and "
      "with\n"
      "--by job, it is about the jobs of the namespace.");
  usage->add_option("--by", asked->by, "What the lines are")
      ->check(CLI::IsMember(std::set<std::string>{"project", "queue", "user", "pool", "model", "job"}))
      ->capture_default_str();
  usage->add_option("--since", asked->since, "How far it goes back; default: 30d")
      ->check(CLI::IsMember(std::set<std::string>{"1d", "7d", "30d", "all"}));
  add_all_namespaces(*usage, line);
  add_output(*usage, line, {"table", "wide", "json", "yaml", "csv"});
  usage->callback([&line, asked] {
    line.run = [&line, asked] { return run_usage(line.options, asked->by, asked->since); };
  });

  auto* disruptions = app.add_subcommand(
      "disruptions", "What jobs had to give, for whom, and what it cost them; newest first");
  disruptions->footer(
      "  kubectl muster disruptions llama-ft\n  kubectl muster disruptions --project vision --since 2d\n"
      "Of each Project the latest 1,000 are kept, also those of jobs that are gone.");
  add_all_namespaces(*disruptions, line);
  add_output(*disruptions, line, {"table", "wide", "json", "yaml", "csv"});
  const auto of = std::make_shared<DisruptionsAsked>();
  const auto since = std::make_shared<std::string>();
  disruptions->add_option("--project", of->project, "Of the jobs of this Project");
  disruptions->add_option("--queue", of->queue, "Of the jobs of all Projects below this Queue");
  disruptions->add_option("--since", *since,
                          "How far it goes back, such as 90m, 12h or 7d; default: all that is kept");
  disruptions->callback([&line, of, since, name = add_job(*disruptions, false)] {
    line.run = [&line, of, since, name] {
      if (!since->empty()) {
        const auto duration = crds::parse_duration(*since);
        if (!duration) return wrong_use("--since " + *since + ": " + duration.error());
        of->since = *duration;
      }
      of->name = *name;
      return run_disruptions(line.options, *of);
    };
  });
}

void add_changes(CLI::App& app, CommandLine& line) {
  auto* suspend = app.add_subcommand("suspend", "Stop a job: it saves, and gives its GPUs back");
  suspend->callback([&line, name = add_job(*suspend)] {
    line.run = [&line, name] { return run_suspend(line.options, *name, true); };
  });
  auto* resume = app.add_subcommand("resume", "Let a suspended job go on, at its old place in the order");
  resume->callback([&line, name = add_job(*resume)] {
    line.run = [&line, name] { return run_suspend(line.options, *name, false); };
  });
  auto* retry = app.add_subcommand("retry", "Run the indexes of an array again that have failed");
  retry->footer("  kubectl muster retry sweep");
  retry->callback([&line, name = add_job(*retry)] {
    line.run = [&line, name] { return run_retry(line.options, *name); };
  });
  auto* scale = app.add_subcommand("scale", "Set the size that an elastic job or a service is to have");
  scale->footer("  kubectl muster scale video 6\n  kubectl muster scale isvc/chat 3");
  const auto name = add_job(*scale);
  const auto replicas = std::make_shared<std::int32_t>(0);
  scale->add_option("N", *replicas, "Pods of the whole gang, or replicas of the service")
      ->required()
      ->check(from(0));
  scale->callback([&line, name, replicas] {
    line.run = [&line, name, replicas] { return run_scale(line.options, *name, *replicas); };
  });
}

void add_rollouts(CLI::App& app, CommandLine& line) {
  auto* rollout = app.add_subcommand("rollout", "The revisions of a service, and its canary");
  rollout->require_subcommand(1);
  auto* status = rollout->add_subcommand("status", "How its rollout stands");
  status->callback([&line, name = add_job(*status)] {
    line.run = [&line, name] { return run_rollout_status(line.options, *name); };
  });
  auto* history = rollout->add_subcommand("history", "The revisions that it can go back to, newest first");
  add_output(*history, line, {"table", "json", "yaml", "csv"});
  history->callback([&line, name = add_job(*history)] {
    line.run = [&line, name] { return run_rollout_history(line.options, *name); };
  });
  const auto to = std::make_shared<std::string>();
  auto* undo = rollout->add_subcommand("undo", "Go back to an earlier revision");
  undo->footer("  kubectl muster rollout undo chat\n  kubectl muster rollout undo chat --to-revision 3");
  undo->add_option("--to-revision", *to, "Its number or name; default: the one before that in force");
  undo->callback([&line, to, name = add_job(*undo)] {
    line.run = [&line, name, to] { return run_rollout_undo(line.options, *name, *to); };
  });
  auto* promote = rollout->add_subcommand("promote", "Give the canary all replicas");
  promote->callback([&line, name = add_job(*promote)] {
    line.run = [&line, name] { return run_rollout_promote(line.options, *name); };
  });
  auto* abort = rollout->add_subcommand("abort", "Take the canary back");
  abort->callback([&line, name = add_job(*abort)] {
    line.run = [&line, name] { return run_rollout_abort(line.options, *name); };
  });
}

void add_submit(CLI::App& app, CommandLine& line) {
  const auto s = std::make_shared<Submission>();
  const auto only_print = std::make_shared<bool>(false);
  auto* submit =
      app.add_subcommand("submit", "Make a TrainingJob of an image and a command, which stand behind --");
  submit->footer(
      "  kubectl muster submit --gpus 8 --replicas 2 --name llama -- my-image:1 torchrun train.py\n"
      "  kubectl muster submit --dry-run -o yaml -- my-image:1 > job.yaml");
  submit->add_option("--gpus", s->gpus, "GPUs of each pod")->check(from(0))->capture_default_str();
  submit->add_option("--replicas", s->replicas, "Pods")->check(from(1))->capture_default_str();
  submit->add_option("--name", s->name, "Its name; default: the image's, with some letters behind it");
  submit->add_flag("--interactive", s->interactive, "Somebody works in it: it is never made to yield");
  submit->add_option("--max-runtime", s->max_runtime, "It is ended after so long, such as 90m or 2d");
  submit->add_option("--priority", s->priority, "Its PriorityClass");
  submit->add_option("--pool", s->pool, "Its NodePool");
  submit->add_option("--framework", s->framework, "Which variables its pods get")
      ->check(CLI::IsMember(std::set<std::string>{"Generic", "PyTorch", "JAX", "TensorFlow", "MPI"}));
  submit->add_option("--cpu", s->cpu, "CPUs of each pod, such as 8 or 500m");
  submit->add_option("--memory", s->memory, "Memory of each pod, such as 64Gi");
  submit->add_flag("--dry-run", *only_print, "Print the TrainingJob, and make nothing");
  add_output(*submit, line, {"yaml", "json"});
  submit->callback([&line, s, only_print] {
    line.takes_rest = true;
    line.run = [&line, s, only_print] {
      if (line.rest.empty())
        return wrong_use("an image is missing: kubectl muster submit [OPTIONS] -- IMAGE [COMMAND...]");
      s->image = line.rest.front();
      s->command.assign(line.rest.begin() + 1, line.rest.end());
      return run_submit(line.options, *s, *only_print);
    };
  });
}

void add_session_start(CLI::App& sessions, CommandLine& line) {
  const auto s = std::make_shared<Session>();
  const auto port = std::make_shared<std::optional<std::int32_t>>();
  const auto minutes = std::make_shared<int>(30);
  auto* start = sessions.add_subcommand(
      "start", "Make a session of an image, or go on with it where it is, and wait until it runs");
  start->footer(
      "  kubectl muster session start quay.io/jupyter/pytorch-notebook:2025-03-01 --gpus 1 --path /lab\n"
      "  kubectl muster session start my-image:1 --shell --claim home:/home/me\n"
      "A command stands behind --; without one the image's own runs. The same command again means the same\n"
      "session: it resumes one that is stopped, and says of one that runs that it does.");
  start->add_option("IMAGE", s->job.image, "What it runs")->required();
  start->add_option("--name", s->job.name, "Its name; default: the image's, with yours behind it");
  start->add_option("--gpus", s->job.gpus, "Its GPUs")->check(from(0))->capture_default_str();
  start->add_option("--port", *port, "The port that is reached, 0 for none; default: 8888, with --shell none")
      ->check(CLI::Range(0, 65535));
  start->add_option("--path", s->path, "Where its page begins, such as /lab");
  start->add_option(
      "--activity-path", s->activity_path,
      "Where its program tells when it was last used, such as /api/status: it is not idle then");
  start->add_option("--claim", s->claims, "CLAIM:PATH mounts a PersistentVolumeClaim there; may be repeated")
      ->allow_extra_args(false);
  start->add_flag("--shell", s->shell, "When it runs, open a shell in it");
  start->add_option("--max-runtime", s->job.max_runtime, "It is ended after so long, such as 90m or 2d");
  start->add_option("--priority", s->job.priority, "Its PriorityClass");
  start->add_option("--pool", s->job.pool, "Its NodePool");
  start->add_option("--cpu", s->job.cpu, "Its CPUs, such as 8 or 500m");
  start->add_option("--memory", s->job.memory, "Its memory, such as 64Gi");
  start->add_option("--timeout", *minutes, "Minutes to wait until it runs")
      ->check(from(1))
      ->capture_default_str();
  start->callback([&line, s, port, minutes] {
    line.takes_rest = true;
    line.run = [&line, s, port, minutes] {
      s->port = port->value_or(s->shell ? 0 : 8888);
      s->job.command = line.rest;
      s->timeout = std::chrono::minutes{*minutes};
      return run_session_start(line.options, *s);
    };
  });
}

void add_sessions(CLI::App& app, CommandLine& line) {
  auto* session = app.add_subcommand("session", "Notebooks and shells: interactive jobs with an address");
  session->require_subcommand(1);
  add_session_start(*session, line);
  auto* list = session->add_subcommand("list", "The sessions of the namespace, and how to reach them");
  add_all_namespaces(*list, line);
  add_output(*list, line, {"table", "json", "yaml", "csv"});
  list->callback([&line] { line.run = [&line] { return run_session_list(line.options); }; });
  auto* stop =
      session->add_subcommand("stop", "Suspend a session: it keeps its name, its claims and its address");
  stop->callback([&line, name = add_job(*stop)] {
    line.run = [&line, name] { return run_suspend(line.options, *name, true); };
  });
}

void add_pods(CLI::App& app, CommandLine& line) {
  const auto log = std::make_shared<LogOptions>();
  auto* logs = app.add_subcommand("logs", "What all ranks of a job write, each line with its rank in front");
  logs->add_flag("-f,--follow", log->follow, "Go on until the job has ended");
  logs->add_option("--tail", log->tail, "Only so many lines of each rank")->check(from(0));
  logs->add_option("--rank", log->rank, "Only of this rank")->check(from(0));
  logs->add_option("-c,--container", log->container, "The container; default: the first");
  logs->callback([&line, log, name = add_job(*logs)] {
    line.run = [&line, log, name] { return run_logs(line.options, *name, *log); };
  });

  const auto run = std::make_shared<ExecOptions>();
  auto* exec =
      app.add_subcommand("exec", "Run a command, which stands behind --, in a pod of a job, by kubectl");
  exec->footer(
      "  kubectl muster exec llama-ft --rank 3 -- nvidia-smi\n  kubectl muster exec -it notebook -- bash");
  exec->add_option("--rank", run->rank, "The pod's rank")->check(from(0))->capture_default_str();
  exec->add_option("-c,--container", run->container, "The container; default: the first");
  exec->add_flag("-i,--stdin", run->stdin_too, "Pass standard input on");
  exec->add_flag("-t,--tty", run->tty, "Standard input is a terminal");
  exec->callback([&line, run, name = add_job(*exec)] {
    line.takes_rest = true;
    line.run = [&line, run, name] { return run_exec(line.options, *name, *run, line.rest); };
  });

  const auto rank = std::make_shared<std::int32_t>(0);
  const auto ports = std::make_shared<std::vector<std::string>>();
  auto* forward = app.add_subcommand("port-forward", "Reach ports of a pod of a job, by kubectl");
  forward->footer(
      "  kubectl muster port-forward notebook 8888\n  kubectl muster port-forward llama-ft 6006:6006");
  const auto name = add_job(*forward);
  forward->add_option("--rank", *rank, "The pod's rank")->check(from(0))->capture_default_str();
  forward->add_option("PORTS", *ports, "PORT, or LOCAL:REMOTE; several may be named")->required();
  forward->callback([&line, name, rank, ports] {
    line.run = [&line, name, rank, ports] { return run_port_forward(line.options, *name, *rank, *ports); };
  });
}

void add_whatif(CLI::App& app, CommandLine& line) {
  const auto file = std::make_shared<std::string>();
  auto* whatif =
      app.add_subcommand("whatif", "Whether a job would start now and where, or what it would wait for");
  whatif->footer(
      "It copies what you may see of the cluster and plays one plan on the copy, as `muster simulate` does.\n"
      "Nothing is made. It needs the right to list Nodes, NodePools, Queues and Projects; what it could not "
      "see\n"
      "besides, it says.");
  whatif
      ->add_option("-f,--filename", *file,
                   "The file of one TrainingJob or InferenceService; -: standard input")
      ->required();
  add_output(*whatif, line, {"table", "json", "yaml"});
  whatif->callback([&line, file] { line.run = [&line, file] { return run_whatif(line.options, *file); }; });
}

void add_completion(CLI::App& app, CommandLine& line) {
  const auto shell = std::make_shared<std::string>();
  auto* completion = app.add_subcommand("completion", "The script that teaches a shell to complete commands");
  completion->footer(
      "  source <(kubectl muster completion bash)\n"
      "  kubectl muster completion fish > ~/.config/fish/completions/kubectl-muster.fish\n"
      "It is for `kubectl-muster` itself. For `kubectl muster` put kubectl_complete-muster into your PATH.");
  completion->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember(std::set<std::string>{"bash", "zsh", "fish"}));
  completion->callback([&line, shell] { line.run = [shell] { return run_completion(*shell); }; });
}

}  // namespace

std::unique_ptr<CLI::App> make_app(CommandLine& line) {
  auto app = std::make_unique<CLI::App>(
      "Ask what Muster does with a cluster, and tell it what to do. It has the rights of your own "
      "kubeconfig.",
      "kubectl muster");
  app->footer("`kubectl muster COMMAND --help` tells more.");
  app->require_subcommand(1);
  app->fallthrough();
  app->add_option("--kubeconfig", line.options.kubeconfig,
                  "The file with server and credentials; default: as kubectl")
      ->check(CLI::ExistingFile);
  app->add_option("--context", line.options.context,
                  "The context of the kubeconfig; default: its current one");
  app->add_option("-n,--namespace", line.options.ns, "The namespace; default: the context's");
  add_why(*app, line);
  add_lists(*app, line);
  add_ui(*app, line);
  add_usage(*app, line);
  add_whatif(*app, line);
  add_submit(*app, line);
  add_sessions(*app, line);
  add_changes(*app, line);
  add_rollouts(*app, line);
  add_pods(*app, line);
  add_completion(*app, line);
  return app;
}

int run_command_line(std::vector<std::string> arguments) {
  CommandLine line;
  const auto app = make_app(line);
  if (!arguments.empty() && arguments.front() == kCompleteCommand)
    return run_complete(*app, {arguments.begin() + 1, arguments.end()});
  const auto dashes = std::ranges::find(arguments, "--");
  const bool has_rest = dashes != arguments.end();
  if (has_rest) {
    line.rest.assign(dashes + 1, arguments.end());
    arguments.erase(dashes, arguments.end());
  }
  std::ranges::reverse(arguments);  // as CLI11 takes them
  try {
    app->parse(std::move(arguments));
  } catch (const CLI::ParseError& e) {
    if (const auto extras = app->remaining(); app->get_subcommands().empty() && !extras.empty())
      return wrong_use("there is no command \"" + extras.front() + "\"; `kubectl muster --help` lists them");
    return app->exit(e) == 0 ? 0 : kWrongUse;  // --help is no error
  }
  if (has_rest && !line.takes_rest) return wrong_use("this command takes nothing behind --");
  return line.run();
}

}  // namespace muster::plugin
