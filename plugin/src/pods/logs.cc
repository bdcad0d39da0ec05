// `kubectl muster logs`: what all ranks write.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <set>

#include "muster/client/task_group.h"
#include "pods/lines.h"
#include "pods/pods.h"
#include "pods/ranks.h"

namespace muster::plugin {
namespace {

using client::Task;

constexpr client::Duration kAnswerWithin = std::chrono::seconds{20};
constexpr client::Duration kMaxSilence = std::chrono::hours{24 * 365};  // of a log that is followed
constexpr client::Duration kLookForPods = std::chrono::seconds{2};

std::string target_of(const std::string& ns, const RankedPod& pod, const LogOptions& log) {
  std::string target = client::resources::kPods.path(ns, pod.name, "log") +
                       "?container=" + (log.container.empty() ? pod.container : log.container) +
                       (log.follow ? "&follow=true" : "&timestamps=true");
  if (log.tail) target += fmt::format("&tailLines={}", *log.tail);
  return target;
}

void complain(std::int32_t rank, const std::string& what) {
  std::cerr << fmt::format("[{}] error: {}\n", rank, what);
}

// Reads one log to its end, and gives each line to `take`. What is wrong is said, and the others go on.
// False: it could not be read.
template <class Take>
Task<bool> read_log(client::Transport& transport, std::int32_t rank, std::string target, Take take) {
  client::HttpRequest request;
  request.target = std::move(target);
  request.headers = {{"accept", "*/*"}, {"user-agent", "kubectl-muster"}};
  auto stream = co_await transport.open(std::move(request), kAnswerWithin);
  if (!stream) {
    complain(rank, said(stream.error()));
    co_return false;
  }
  LineCutter cutter;
  std::string refusal;
  while (true) {
    const auto piece = co_await stream->body->next(kMaxSilence);
    if (!piece) {
      complain(rank, said(piece.error()));
      co_return false;
    }
    if (piece->empty()) break;
    if (stream->status != 200) {
      refusal += *piece;
      continue;
    }
    for (auto& line : cutter.take(*piece)) take(std::move(line));
  }
  if (stream->status != 200) {
    complain(rank, said(client::error_from_response(stream->status, refusal, {})));
    co_return false;
  }
  if (auto rest = cutter.rest(); !rest.empty()) take(std::move(rest));
  co_return true;
}

void print_line(std::int32_t rank, const std::string& text) {
  std::cout << fmt::format("[{}] {}\n", rank, text);
}

Task<void> follow_log(client::Transport& transport, std::int32_t rank, std::string target) {
  co_await read_log(transport, rank, std::move(target), [rank](const std::string& line) {
    print_line(rank, line);
    std::cout.flush();
  });
}

bool is_wanted(const RankedPod& pod, const LogOptions& log) {
  return !log.rank || *log.rank == pod.rank;
}

int print_logs(Reader& reader, const std::string& ns, const std::vector<RankedPod>& pods,
               const LogOptions& log) {
  std::vector<LogLine> lines;
  bool is_whole = true;
  for (const RankedPod& pod : pods) {
    if (!is_wanted(pod, log)) continue;
    is_whole &= reader.wait_for(
        read_log(reader.transport(), pod.rank, target_of(ns, pod, log),
                 [&](const std::string& line) { lines.push_back(split_time(pod.rank, line)); }));
  }
  in_time_order(lines);
  for (const LogLine& line : lines) print_line(line.rank, line.text);
  return is_whole ? 0 : kFailed;
}

// Whether there will be no more pods of it.
bool has_ended(Reader& reader, const Workload& workload) {
  const auto& meta = meta_of(workload);
  if (std::holds_alternative<crds::InferenceService>(workload)) return false;
  const auto job = reader.get<crds::TrainingJob>(meta.ns, meta.name);
  if (!job) return job.error().code == client::ErrorCode::kNotFound;
  return job->status.phase == crds::Phase::kSucceeded || job->status.phase == crds::Phase::kFailed;
}

// The streams go on while the questions wait for their answers: one loop runs all.
int follow_logs(Reader& reader, const Workload& workload, const LogOptions& log) {
  const std::string& ns = meta_of(workload).ns;
  client::TaskGroup streams(reader.environment().executor);
  std::set<std::string> followed;
  while (true) {
    // Asked before the pods, so that none comes between the two.
    const bool is_over = has_ended(reader, workload);
    const auto pods = pods_of(reader, workload);
    if (!pods) return fail(said(pods.error()));
    for (const RankedPod& pod : *pods) {
      if (!pod.has_started || !is_wanted(pod, log) || !followed.insert(pod.name).second) continue;
      streams.spawn(follow_log(reader.transport(), pod.rank, target_of(ns, pod, log)));
    }
    if (is_over && streams.empty()) return 0;
    reader.wait_for(reader.environment().clock.sleep_for(kLookForPods));
  }
}

}  // namespace

int run_logs(const Options& options, const std::string& name, const LogOptions& log) {
  return with_workload(options, name, [&](Reader& reader, const Workload& workload) {
    if (log.follow) return follow_logs(reader, workload, log);
    const auto pods = pods_of(reader, workload);
    if (!pods) return fail(said(pods.error()));
    const std::string who = name_of(meta_of(workload));
    if (pods->empty()) return fail(who + " has no pods; `kubectl muster why` says what it does");
    if (std::ranges::none_of(*pods, [&](const RankedPod& pod) { return is_wanted(pod, log); }))
      return fail(say_no_rank(who, *pods, *log.rank));
    return print_logs(reader, meta_of(workload).ns, *pods, log);
  });
}

}  // namespace muster::plugin
