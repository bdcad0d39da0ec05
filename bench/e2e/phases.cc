#include "e2e/phases.h"

#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <functional>
#include <nlohmann/json.hpp>

#include "e2e/boards.h"
#include "muster/client/config.h"
#include "muster/client/curl_transport.h"
#include "muster/crds/crds.h"
#include "muster/reconcilers/pods/pod_builder.h"
#include "report.h"

namespace muster::bench {
namespace {

using client::Task;
using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

const client::Resource kTrainingJobs{"muster.dev", "v1alpha1", "trainingjobs"};
constexpr client::Duration kStep{5};

// What a container of either phase asks for.
json container() {
  const json resources = {{"requests", {{"cpu", "1"}, {"memory", "1Gi"}}}};
  return {{"name", "main"}, {"image", "registry.example/train:1"}, {"resources", resources}};
}

// Objects to be created, and how it went. Shared with the coroutines, which may outlive a phase that failed.
struct Creation {
  client::Resource resource;
  std::string ns;
  std::vector<std::string> bodies{};  // made beforehand: to write them takes the bare client no time

  std::size_t next = 0, answered = 0;
  std::vector<SteadyTime> sent{};  // by index
  SteadyTime last_answer{};
  std::string error{};  // the first

  bool failed() const { return !error.empty(); }
};

Task<void> create_some(client::ApiClient& api, std::shared_ptr<Creation> work) {
  while (work->next < work->bodies.size() && !work->failed()) {
    const std::size_t index = work->next++;
    work->sent[index] = steady_clock::now();
    std::string body = std::move(work->bodies[index]);
    const auto made = co_await api.create(work->resource, work->ns, std::move(body), "bench");
    work->last_answer = steady_clock::now();
    ++work->answered;
    if (!made && !work->failed()) work->error = client::to_string(made.error());
  }
}

// A connection of its own for each phase, and the watches on it.
class Session {
 public:
  static Outcome<std::unique_ptr<Session>> open(const BenchCluster& cluster, const std::string& ns) {
    client::KubeconfigOptions where;
    where.path = cluster.real().kubeconfig();
    auto config = client::load_kubeconfig(where);
    if (!config) return std::unexpected(client::to_string(config.error()));
    return std::make_unique<Session>(std::move(*config), ns);
  }

  Session(client::ClientConfig config, const std::string& ns)
      : env_{loop_.get_executor(), clock_, random_},
        transport_(env_, std::move(config)),
        api_(env_, transport_, api_options()),
        ns_(ns),
        pods_(api_, ns),
        jobs_(api_, ns) {
    client::spawn(env_.executor, pods_.run(), &stop_pods_);
    client::spawn(env_.executor, jobs_.run(), &stop_jobs_);
  }
  ~Session() {
    stop_pods_.emit(boost::asio::cancellation_type::terminal);
    stop_jobs_.emit(boost::asio::cancellation_type::terminal);
    loop_.restart();
    loop_.run_for(std::chrono::seconds(2));
  }

  PodBoard& pods() { return pods_; }
  JobBoard& jobs() { return jobs_; }

  // Runs the loop until `done` says so; false at the deadline.
  bool run_until(milliseconds timeout, const std::function<bool()>& done) {
    const auto deadline = steady_clock::now() + timeout;
    while (!done()) {
      if (steady_clock::now() >= deadline) return false;
      loop_.restart();
      loop_.run_for(kStep);
    }
    return true;
  }
  bool run_until_synced() {
    return run_until(std::chrono::seconds(30), [this] { return pods_.synced() && jobs_.synced(); });
  }

  void start(const std::shared_ptr<Creation>& work, std::size_t in_flight) {
    work->sent.resize(work->bodies.size());
    for (std::size_t i = 0; i < in_flight; ++i) client::spawn(env_.executor, create_some(api_, work));
  }

  // Deletes all objects of the kind in the namespace at once, without grace, until none is left.
  Outcome<void> clear(const client::Resource& resource, const std::function<bool()>& gone) {
    for (int attempt = 0; attempt < 5; ++attempt) {
      const auto answered = std::make_shared<bool>(false);
      client::spawn(env_.executor, remove_all(api_, resource, ns_, answered));
      if (!run_until(std::chrono::seconds(120), [&] { return *answered; })) break;
      if (run_until(std::chrono::seconds(60), gone)) return {};
    }
    return std::unexpected(resource.plural + " in " + ns_ + " could not be removed");
  }

 private:
  static client::ApiOptions api_options() {
    client::ApiOptions options;
    options.user_agent = "muster-bench";
    options.timeout = std::chrono::seconds(90);
    return options;
  }
  static Task<void> remove_all(client::ApiClient& api, client::Resource resource, std::string ns,
                               std::shared_ptr<bool> answered) {
    client::DeleteOptions options;
    options.grace_period_seconds = 0;
    options.propagation_policy = "Background";
    client::ListOptions everything;
    everything.limit = 0;
    const auto removed = co_await api.remove_collection(resource, ns, everything, options);
    if (!removed) progress("removing " + resource.plural + ": " + client::to_string(removed.error()));
    *answered = true;
  }

  boost::asio::cancellation_signal stop_pods_, stop_jobs_;  // outlive what they cancel
  boost::asio::io_context loop_{1};
  client::RealClock clock_;
  client::RandomSource random_{client::RandomSource::seed_from_system()};
  client::Environment env_;
  client::CurlTransport transport_;
  client::ApiClient api_;
  std::string ns_;
  PodBoard pods_;
  JobBoard jobs_;
};

// Everything that is measured around the work.
class Measurement {
 public:
  static Outcome<Measurement> begin(const BenchCluster& cluster, std::map<std::string, pid_t> processes) {
    auto writes = cluster.writes();
    if (!writes) return std::unexpected(writes.error());
    processes.merge(cluster.processes());
    processes["bench"] = getpid();
    return Measurement(std::move(*writes), std::move(processes));
  }

  void start() { cpu_ = take_cpu(processes_); }
  CpuUse stop() const { return take_cpu(processes_) - cpu_; }

  // Waits until no writes that count come any more, and says how many there were.
  Outcome<WriteCounts> writes(const BenchCluster& cluster,
                              const std::function<void(milliseconds)>& pause) const {
    std::int64_t before = -1;
    for (int i = 0;; ++i) {
      auto now = cluster.writes();
      if (!now) return std::unexpected(now.error());
      auto since = difference(*now, writes_);
      const auto counted = total(since, Writer::kCounted);
      if (counted == before || i == 20) return since;
      before = counted;
      pause(milliseconds(2000));
    }
  }

 private:
  Measurement(WriteCounts writes, std::map<std::string, pid_t> processes)
      : writes_(std::move(writes)), processes_(std::move(processes)) {}

  WriteCounts writes_;
  std::map<std::string, pid_t> processes_;
  CpuSnapshot cpu_;
};

std::string job_name(std::size_t index) {
  return "job-" + std::to_string(index);
}

std::string job_body(int gang, std::size_t index) {
  const json pod = {{"spec", {{"containers", {container()}}}}};
  const json role = {{"name", "worker"}, {"replicas", gang}, {"gpus", {{"count", 1}}}, {"template", pod}};
  const json job = {{"apiVersion", "muster.dev/v1alpha1"},
                    {"kind", "TrainingJob"},
                    {"metadata", {{"name", job_name(index)}}},
                    {"spec", {{"roles", {role}}}}};
  return job.dump();
}

// The same pods that Muster makes of the same job, without an owner: what the API server is asked to keep is
// equal, and the difference between the phases is the work of deciding, recording and following them.
std::vector<std::string> bare_pods(const std::vector<std::string>& nodes, const Load& load) {
  std::vector<std::string> bodies;
  for (std::size_t gang = 0; std::cmp_less(bodies.size(), load.pods); ++gang) {
    json object = json::parse(job_body(load.gang, gang));
    object["metadata"]["namespace"] = BenchCluster::kBare;
    auto job = crds::from_json<crds::TrainingJob>(object);
    if (!job) throw std::logic_error(crds::to_string(job.error()));
    const reconcilers::PodBuilder builder(*job, {.resource = "nvidia.com/gpu"});
    for (int i = 0; i < load.gang && std::cmp_less(bodies.size(), load.pods); ++i) {
      crds::PodAssignment place;
      place.role = "worker";
      place.index = i;
      place.node = nodes[bodies.size() % nodes.size()];
      place.gpus = {static_cast<std::int32_t>(bodies.size() / nodes.size() % 8)};
      json pod = json::parse(builder.pod(place, 1));
      pod["metadata"].erase("ownerReferences");
      bodies.push_back(pod.dump());
    }
  }
  return bodies;
}

// Why the pods did not all come to run.
std::string unfinished(const Creation& work, Session& session, const Load& load) {
  return std::to_string(session.pods().running()) + " of " + std::to_string(load.pods) +
         " pods came to run (" + std::to_string(session.pods().present()) + " exist; " +
         std::to_string(work.answered) + " of " + std::to_string(work.sent.size()) + " creates answered)" +
         (work.error.empty() ? "" : "; " + work.error);
}

void note_latencies(const Creation& work, Session& session, PhaseResult& result) {
  for (std::size_t i = 0; i < work.sent.size(); ++i) {
    const auto sent = work.sent[i];
    if (const auto at = session.jobs().admitted(job_name(i)))
      result.admitted.push_back(seconds_between(sent, *at));
    const auto group = session.pods().groups().find(job_name(i));
    if (group == session.pods().groups().end()) continue;
    result.first_pod.push_back(seconds_between(sent, group->second.first_created));
    result.all_running.push_back(seconds_between(sent, group->second.last_running));
  }
}

Outcome<void> check(const BenchCluster& cluster, const Load& load) {
  const auto pods = cluster.pods();
  if (!pods) return std::unexpected(pods.error());
  const auto gpus = cluster.node_gpus();
  if (!gpus) return std::unexpected(gpus.error());
  const auto problems = audit(*pods, {load.pods, load.gang, *gpus});
  if (problems.empty()) return {};
  std::string text = "the audit failed:";
  for (const std::string& problem : problems) text += "\n  " + problem;
  return std::unexpected(text);
}

// The jobs, and what the garbage collector takes with them.
Outcome<void> clear_jobs(const BenchCluster& cluster, Session& session) {
  // Pods first, and directly: the garbage collector would delete them one by one.
  auto done = session.clear(client::resources::kPods, [&] { return session.pods().present() == 0; });
  if (!done) return done;
  done = session.clear(kTrainingJobs, [&] { return session.jobs().present() == 0; });
  if (!done) return done;
  const auto gone = [&] {
    return cluster.is_empty("/api/v1", "services", BenchCluster::kTeam) &&
           cluster.is_empty("/apis/discovery.k8s.io/v1", "endpointslices", BenchCluster::kTeam);
  };
  if (!testcluster::wait_until(std::chrono::seconds(120), gone, milliseconds(500))) {
    return std::unexpected("the garbage collector leaves Services or EndpointSlices of deleted jobs behind");
  }
  return {};
}

}  // namespace

Outcome<PhaseResult> run_bare(const BenchCluster& cluster, const Load& load) {
  auto session = Session::open(cluster, BenchCluster::kBare);
  if (!session) return std::unexpected(session.error());
  Session& s = **session;
  if (!s.run_until_synced()) return std::unexpected("the watches of the benchmark are not synced");
  auto measurement = Measurement::begin(cluster, {});
  if (!measurement) return std::unexpected(measurement.error());

  const auto shared = std::make_shared<Creation>(client::resources::kPods, BenchCluster::kBare);
  Creation& work = *shared;
  work.bodies = bare_pods(cluster.nodes(), load);
  measurement->start();
  s.start(shared, static_cast<std::size_t>(load.in_flight));
  const bool all =
      s.run_until(load.timeout, [&] { return s.pods().running() >= load.pods || work.failed(); });
  PhaseResult result;
  result.cpu = measurement->stop();
  if (!all || work.failed()) return std::unexpected("bare client: " + unfinished(work, s, load));
  result.seconds = seconds_between(work.sent.front(), s.pods().last_running());
  result.creating_seconds = seconds_between(work.sent.front(), work.last_answer);
  auto writes = measurement->writes(cluster, [&](milliseconds t) { s.run_until(t, [] { return false; }); });
  if (!writes) return std::unexpected(writes.error());
  result.writes = std::move(*writes);
  if (auto done = s.clear(client::resources::kPods, [&] { return s.pods().present() == 0; }); !done) {
    return std::unexpected(done.error());
  }
  return result;
}

Outcome<PhaseResult> run_muster(BenchCluster& cluster, const Load& load) {
  auto muster = cluster.start_muster();
  if (!muster) return std::unexpected(muster.error());
  MusterProcess& process = **muster;
  auto session = Session::open(cluster, BenchCluster::kTeam);
  if (!session) return std::unexpected(session.error());
  Session& s = **session;
  if (!s.run_until_synced()) return std::unexpected("the watches of the benchmark are not synced");
  cluster.settle();
  auto measurement = Measurement::begin(cluster, {{"muster", process.pid()}});
  if (!measurement) return std::unexpected(measurement.error());

  PhaseResult result;
  result.memory_before = resident_memory(process.pid());
  const auto shared = std::make_shared<Creation>(kTrainingJobs, BenchCluster::kTeam);
  Creation& work = *shared;
  const auto jobs = static_cast<std::size_t>(load.pods / load.gang);
  for (std::size_t i = 0; i < jobs; ++i) work.bodies.push_back(job_body(load.gang, i));
  measurement->start();
  s.start(shared, jobs);
  const bool all = s.run_until(
      load.timeout, [&] { return s.pods().running() >= load.pods || work.failed() || !process.alive(); });
  result.cpu = measurement->stop();
  if (!all || work.failed() || !process.alive()) {
    return std::unexpected("muster: " + unfinished(work, s, load) +
                           (process.alive() ? "" : "; it has ended") + "; its log ends:\n" +
                           process.log_tail());
  }
  result.seconds = seconds_between(work.sent.front(), s.pods().last_running());
  result.creating_seconds = seconds_between(work.sent.front(), work.last_answer);

  // The last status writes come after the last pod runs.
  if (!s.run_until(std::chrono::seconds(60), [&] { return s.jobs().in_phase("Running") == jobs; })) {
    return std::unexpected("all pods run, but only " + std::to_string(s.jobs().in_phase("Running")) + " of " +
                           std::to_string(jobs) + " jobs say so after a minute");
  }
  auto writes = measurement->writes(cluster, [&](milliseconds t) { s.run_until(t, [] { return false; }); });
  if (!writes) return std::unexpected(writes.error());
  result.writes = std::move(*writes);
  result.memory_peak = peak_memory(process.pid());
  note_latencies(work, s, result);
  if (auto sound = check(cluster, load); !sound) return std::unexpected(sound.error());
  process.stop();
  if (auto done = clear_jobs(cluster, s); !done) return std::unexpected(done.error());
  return result;
}

}  // namespace muster::bench
