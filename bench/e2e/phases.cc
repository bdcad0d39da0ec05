#include "e2e/phases.h"

#include <nlohmann/json.hpp>

#include "live/phase.h"
#include "live/sample_pods.h"
#include "muster/crds/crds.h"
#include "report.h"

namespace muster::bench {
namespace {

std::string job_name(std::size_t index) {
  return "job-" + std::to_string(index);
}

std::vector<std::string> bare_pods(const std::vector<std::string>& nodes, const Load& load) {
  std::vector<std::string> bodies;
  for (std::size_t gang = 0; std::cmp_less(bodies.size(), load.pods); ++gang) {
    const auto job =
        crds::from_json<crds::TrainingJob>(sample_job(job_name(gang), BenchCluster::kBare, load.gang));
    if (!job) throw std::logic_error(crds::to_string(job.error()));
    for (int i = 0; i < load.gang && std::cmp_less(bodies.size(), load.pods); ++i)
      bodies.push_back(bare_pod(*job, i, nodes, bodies.size()));
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
  auto phase = begin_bare(cluster);
  if (!phase) return std::unexpected(phase.error());
  Session& s = *phase->session;
  const auto shared = std::make_shared<Creation>(client::resources::kPods, BenchCluster::kBare);
  Creation& work = *shared;
  work.bodies = bare_pods(cluster.nodes(), load);
  phase->measurement.start();
  s.start(shared, static_cast<std::size_t>(load.in_flight));
  const bool all =
      s.run_until(load.timeout, [&] { return s.pods().running() >= load.pods || work.failed(); });
  PhaseResult result;
  result.cpu = phase->measurement.stop();
  if (!all || work.failed()) return std::unexpected("bare client: " + unfinished(work, s, load));
  result.seconds = seconds_between(work.sent.front(), s.pods().last_running());
  result.creating_seconds = seconds_between(work.sent.front(), work.last_answer);
  auto writes = phase->measurement.writes(cluster, s);
  if (!writes) return std::unexpected(writes.error());
  result.writes = std::move(*writes);
  if (auto done = s.clear(client::resources::kPods, [&] { return s.pods().present() == 0; }); !done) {
    return std::unexpected(done.error());
  }
  return result;
}

Outcome<PhaseResult> run_muster(BenchCluster& cluster, const Load& load) {
  auto phase = begin_muster(cluster);
  if (!phase) return std::unexpected(phase.error());
  MusterProcess& process = *phase->muster;
  Session& s = *phase->session;
  PhaseResult result;
  result.memory_before = phase->memory_before;
  const auto shared = std::make_shared<Creation>(kTrainingJobs, BenchCluster::kTeam);
  Creation& work = *shared;
  const auto jobs = static_cast<std::size_t>(load.pods / load.gang);
  for (std::size_t i = 0; i < jobs; ++i)
    work.bodies.push_back(sample_job(job_name(i), BenchCluster::kTeam, load.gang).dump());
  phase->measurement.start();
  s.start(shared, jobs);
  const bool all = s.run_until(
      load.timeout, [&] { return s.pods().running() >= load.pods || work.failed() || !process.alive(); });
  result.cpu = phase->measurement.stop();
  if (!all || work.failed() || !process.alive()) {
    return std::unexpected("muster: " + unfinished(work, s, load) + "; " + process.last_words());
  }
  result.seconds = seconds_between(work.sent.front(), s.pods().last_running());
  result.creating_seconds = seconds_between(work.sent.front(), work.last_answer);

  // The last status writes come after the last pod runs.
  if (!s.run_until(std::chrono::seconds(60), [&] { return s.jobs().in_phase("Running") == jobs; })) {
    return std::unexpected("all pods run, but only " + std::to_string(s.jobs().in_phase("Running")) + " of " +
                           std::to_string(jobs) + " jobs say so after a minute");
  }
  auto writes = phase->measurement.writes(cluster, s);
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
