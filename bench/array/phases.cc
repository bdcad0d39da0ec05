#include "array/phases.h"

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>

#include "live/phase.h"
#include "live/sample_pods.h"
#include "muster/crds/crds.h"
#include "muster/reconcilers/arrays/array_objects.h"
#include "report.h"

namespace muster::bench {
namespace {

using client::Task;
using nlohmann::json;
using std::chrono::steady_clock;

constexpr const char* kName = "sweep";
constexpr client::Duration kIdle = std::chrono::milliseconds(5);

json array_object(const ArrayLoad& load, const std::string& ns) {
  json array = sample_job(kName, ns, 1, {{"test.muster.dev/runs-for", load.runs_for}});
  array["spec"]["array"] = {{"count", load.count}, {"parallelism", load.parallelism}};
  return array;
}

std::vector<std::string> pods_of_indexes(const std::vector<std::string>& nodes, const ArrayLoad& load) {
  const auto array = crds::from_json<crds::TrainingJob>(array_object(load, BenchCluster::kBare));
  if (!array) throw std::logic_error(crds::to_string(array.error()));
  std::vector<std::string> bodies;
  for (int i = 0; i < load.count; ++i)
    bodies.push_back(bare_pod(reconcilers::index_job(*array, i), 0, nodes, bodies.size()));
  return bodies;
}

// What the bare client does. Shared with its coroutines, which may outlive a phase that failed.
struct Churn {
  std::vector<std::string> bodies{};
  std::size_t parallelism = 0;

  std::size_t next = 0, ended = 0, deleted = 0;
  std::deque<std::string> to_delete{};
  SteadyTime first_sent{};
  std::string error{};  // the first

  bool is_over() const { return !error.empty() || deleted == bodies.size(); }
};

Task<void> churn(client::ApiClient& api, const client::Environment& env, std::shared_ptr<Churn> work) {
  while (!work->is_over()) {
    if (!work->to_delete.empty()) {
      client::ObjectRef ref{BenchCluster::kBare, std::move(work->to_delete.front())};
      work->to_delete.pop_front();
      client::DeleteOptions options;
      options.propagation_policy = "Background";
      const auto gone = co_await api.remove(client::resources::kPods, std::move(ref), std::move(options));
      ++work->deleted;
      if (!gone && work->error.empty()) work->error = client::to_string(gone.error());
    } else if (work->next < work->bodies.size() && work->next - work->ended < work->parallelism) {
      if (work->next == 0) work->first_sent = steady_clock::now();
      std::string body = std::move(work->bodies[work->next++]);
      const auto made =
          co_await api.create(client::resources::kPods, BenchCluster::kBare, std::move(body), "bench");
      if (!made && work->error.empty()) work->error = client::to_string(made.error());
    } else {
      co_await env.clock.sleep_for(kIdle);
    }
  }
}

Task<void> submit(client::ApiClient& api, std::string body, std::shared_ptr<std::string> error) {
  const auto made = co_await api.create(kTrainingJobs, BenchCluster::kTeam, std::move(body), "bench");
  if (!made) *error = client::to_string(made.error());
}

// Each index has had one pod, which has succeeded.
std::string problems_of(const PodBoard& board, const ArrayLoad& load) {
  std::string text;
  if (std::cmp_not_equal(board.groups().size(), load.count))
    text += "\n  " + std::to_string(board.groups().size()) + " jobs had pods";
  int named = 0;
  for (const auto& [job, group] : board.groups()) {
    if ((group.created == 1 && group.succeeded == 1) || ++named > 10) continue;
    text += "\n  " + job + " had " + std::to_string(group.created) + " pods, of which " +
            std::to_string(group.succeeded) + " succeeded";
  }
  return text;
}

// Notes how large the array is, and whether it has ended.
bool look_at_array(const BenchCluster& cluster, ArrayResult& result) {
  const auto answer = cluster.real().request("GET", std::string("/apis/muster.dev/v1alpha1/namespaces/") +
                                                        BenchCluster::kTeam + "/trainingjobs/" + kName);
  if (!answer || !answer->ok()) return false;
  const json object = json::parse(answer->body);
  const json status = object.value("status", json::object());
  result.object_bytes = std::max(result.object_bytes, answer->body.size());
  result.status_bytes = std::max(result.status_bytes, status.dump().size());
  const std::string phase = status.value("phase", "");
  return phase == "Succeeded" || phase == "Failed";
}

}  // namespace

Outcome<ArrayResult> run_bare_pods(const BenchCluster& cluster, const ArrayLoad& load) {
  auto phase = begin_bare(cluster);
  if (!phase) return std::unexpected(phase.error());
  Session& s = *phase->session;
  const auto work = std::make_shared<Churn>();
  work->bodies = pods_of_indexes(cluster.nodes(), load);
  work->parallelism = static_cast<std::size_t>(load.parallelism);
  s.pods().on_success = [work](const client::Pod& pod) {
    ++work->ended;
    work->to_delete.push_back(pod.meta.name);
  };
  phase->measurement.start();
  for (int i = 0; i < load.in_flight; ++i)
    client::spawn(s.environment().executor, churn(s.api(), s.environment(), work));
  ArrayResult result;
  const bool all =
      s.run_until(load.timeout, [&] { return s.pods().succeeded() >= load.count || !work->error.empty(); });
  result.cpu = phase->measurement.stop();
  if (!all || !work->error.empty()) {
    return std::unexpected("bare client: " + std::to_string(s.pods().succeeded()) + " of " +
                           std::to_string(load.count) + " pods succeeded; " + work->error);
  }
  result.seconds = seconds_between(work->first_sent, s.pods().last_succeeded());
  if (!s.run_until(std::chrono::seconds(120), [&] { return work->is_over() && s.pods().present() == 0; }))
    return std::unexpected("bare client: pods that have succeeded do not go; " + work->error);
  return result;
}

// Kills the process, and starts another one. What the first had in memory counts.
Outcome<void> kill_muster(BenchCluster& cluster, std::unique_ptr<MusterProcess>& process,
                          ArrayResult& result) {
  result.memory_peak = std::max(result.memory_peak, peak_memory(process->pid()));
  process.reset();  // SIGKILL
  auto next = cluster.start_muster();
  if (!next) return std::unexpected(next.error());
  process = std::move(*next);
  ++result.kills;
  return {};
}

Outcome<ArrayResult> run_array(BenchCluster& cluster, const ArrayLoad& load) {
  auto phase = begin_muster(cluster);
  if (!phase) return std::unexpected(phase.error());
  Session& s = *phase->session;
  ArrayResult result;
  result.memory_before = phase->memory_before;
  const auto error = std::make_shared<std::string>();
  phase->measurement.start();
  const auto sent = steady_clock::now();
  client::spawn(s.environment().executor,
                submit(s.api(), array_object(load, BenchCluster::kTeam).dump(), error));
  const client::Key key = client::make_key(BenchCluster::kTeam, kName);
  const auto has_ended = [&] {
    const std::string phase = s.jobs().phase_of(key);
    return phase == "Succeeded" || phase == "Failed";
  };
  // Between two looks at the size of the array.
  const auto deadline = sent + load.timeout;
  int told = 0;
  const auto due = [&] {  // the next kill, by what has been done
    return result.kills < load.kills &&
           s.pods().succeeded() >= std::int64_t{load.count} * result.kills / load.kills + 1;
  };
  while (!has_ended() && error->empty() && phase->muster->alive() && steady_clock::now() < deadline) {
    s.run_until(std::chrono::seconds(2), has_ended);
    look_at_array(cluster, result);
    if (!has_ended() && due()) {
      if (auto next = kill_muster(cluster, phase->muster, result); !next)
        return std::unexpected(next.error());
    }
    if (++told % 10 == 0) progress("  " + std::to_string(s.pods().succeeded()) + " pods have succeeded");
  }
  const auto ended = steady_clock::now();
  result.cpu = phase->measurement.stop();
  if (s.jobs().phase_of(key) != "Succeeded") {
    return std::unexpected("muster: " + std::to_string(s.pods().succeeded()) + " of " +
                           std::to_string(load.count) + " pods succeeded; " + *error + "; " +
                           phase->muster->last_words());
  }
  result.seconds = seconds_between(sent, ended);
  look_at_array(cluster, result);
  const auto only_the_array = [&] { return s.jobs().present() == 1 && s.pods().present() == 0; };
  if (!s.run_until(std::chrono::seconds(300), only_the_array))
    return std::unexpected("jobs or pods of indexes that have succeeded do not go");
  auto writes = phase->measurement.writes(cluster, s);
  if (!writes) return std::unexpected(writes.error());
  result.writes = std::move(*writes);
  result.memory_peak = std::max(result.memory_peak, peak_memory(phase->muster->pid()));
  if (const auto problems = problems_of(s.pods(), load); !problems.empty())
    return std::unexpected("the audit failed:" + problems);
  phase->muster->stop();
  if (auto done = s.clear(kTrainingJobs, [&] { return s.jobs().present() == 0; }); !done)
    return std::unexpected(done.error());
  return result;
}

}  // namespace muster::bench
