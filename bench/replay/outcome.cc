#include "replay/outcome.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

namespace muster::bench {
namespace {

using nlohmann::json;

struct NodeBook {
  std::int64_t cpu_free = 0, memory_free = 0;
  std::vector<std::int64_t> gpus_free;  // milli-GPU of each
};

struct JobBook {
  const ReplayJob* job = nullptr;
  json place;  // where it has its pod; null: nowhere
  bool runs = false;
  std::int64_t since = 0;       // has its place
  std::int64_t runs_since = 0;  // gets on there
  double held = 0, worked = 0;  // GPU-seconds
  bool started = false;
};

std::int64_t seconds_of(const json& instant) {
  return std::stoll(instant.get_ref<const std::string&>());  // "12s"
}

class Audit {
 public:
  Audit(const std::vector<TraceNode>& nodes, const std::vector<ReplayProject>& projects,
        const ReplayWorkload& workload, Policy policy, bool lends, ReplayOutcome& out)
      : projects_(projects),
        policy_(policy),
        lends_(lends),
        out_(out),
        used_(projects.size()),
        fixed_(projects.size()) {
    for (const TraceNode& n : nodes)
      nodes_[n.name] = {n.cpu_milli, n.memory_mib,
                        std::vector<std::int64_t>(static_cast<std::size_t>(n.gpus), 1000)};
    for (const ReplayJob& job : workload.jobs) jobs_[job.name].job = &job;
  }

  void play(const json& event) {
    const auto& type = event.at("type").get_ref<const std::string&>();
    const auto& object = event.at("object").get_ref<const std::string&>();
    at_ = seconds_of(event.at("at"));
    JobBook* const found = book(object);
    if (found == nullptr) return wrong(type + " of " + object + ", which was never submitted");
    JobBook& job = *found;
    if (type == "Admitted" || type == "Restarted") {
      if (!job.place.is_null()) wrong(object + " starts while it still has a place");
      const json& pods = event.at("pods");
      if (pods.size() != 1) return wrong(object + " starts with " + std::to_string(pods.size()) + " pods");
      take(job, pods.front());
    } else if (type == "Evicted" && event.at("reason") == "MaxRuntime") {
      // It had its time, and lost too much of it to others.
      if (!job.runs) wrong(object + " is at its maxRuntime and does not run");
      ++out_.out_of_time;
      stop(job);
    } else if (type == "Evicted" || type == "Moved") {
      if (!job.runs) wrong(object + " is asked to go and does not run");
      if (!job.job->preemptible) wrong(object + " is not preemptible and has to go (" + type + ")");
      if (event.at("for").get_ref<const std::string&>().empty())
        wrong(object + " has to go for nobody (" + type + ", " + event.at("reason").get<std::string>() + ")");
      ++(type == "Evicted" ? out_.preemptions : out_.moves);
      stop(job);
    } else if (type == "Released" || (type == "Finished" && job.runs)) {
      stop(job);  // who was told to go, and has finished, holds its place until that is released
      give_back(job);
    } else if (type != "Waiting" && type != "Finished") {
      wrong(type + " of " + object + ", which has one pod");
    }
  }

  // At the end of the window: what runs has run until there.
  void close(std::int64_t window) {
    at_ = window;
    for (auto& [name, job] : jobs_) {
      stop(job);
      give_back(job);
    }
  }

  JobBook* book(const std::string& object) {
    const auto found = jobs_.find(object.substr(object.find('/') + 1));
    return found == jobs_.end() ? nullptr : &found->second;
  }
  void wrong(const std::string& what) {
    if (out_.violations.size() < kMaxViolations)
      out_.violations.push_back("at " + std::to_string(at_) + "s: " + what);
    else if (out_.violations.size() == kMaxViolations)
      out_.violations.emplace_back("and more");
  }

 private:
  // `by` +1: takes it, -1: gives it back.
  void charge(JobBook& job, std::int64_t by) {
    const TracePod& pod = job.job->pod;
    const auto found = nodes_.find(job.place.at("node").get<std::string>());
    if (found == nodes_.end()) return wrong(job.job->name + " is on a node that there is not");
    NodeBook& node = found->second;
    node.cpu_free -= by * pod.cpu_milli;
    node.memory_free -= by * pod.memory_mib;
    if (node.cpu_free < 0) wrong("more CPU in use on " + found->first + " than it has");
    if (node.memory_free < 0) wrong("more memory in use on " + found->first + " than it has");
    const json& gpus = job.place.at("gpus");
    if (gpus.size() != static_cast<std::size_t>(pod.gpus))
      wrong(job.job->name + " has " + std::to_string(gpus.size()) + " GPUs");
    for (const json& index : gpus) {
      const auto i = index.get<std::size_t>();
      if (i >= node.gpus_free.size()) {
        wrong(job.job->name + " has a GPU that there is not on " + found->first);
        continue;
      }
      node.gpus_free[i] -= by * pod.gpu_milli;
      if (node.gpus_free[i] < 0)
        wrong("GPU " + std::to_string(i) + " of " + found->first + " is given twice, to " + job.job->name);
    }
    const std::size_t p = job.job->project;
    used_[p] += by * pod.milli();
    if (!job.job->preemptible) fixed_[p] += by * pod.milli();
    if (by < 0 || policy_ == Policy::kFifo) return;
    if (!lends_ && fixed_[p] > projects_[p].quota_milli)
      wrong(projects_[p].name + " is above its quota with jobs that are not preemptible");
    if (policy_ == Policy::kStaticQuotas && used_[p] > projects_[p].quota_milli)
      wrong(projects_[p].name + " is above its limit");
  }
  void take(JobBook& job, const json& place) {
    job.place = place;
    job.since = job.runs_since = at_;
    job.runs = job.started = true;
    charge(job, 1);
  }
  void stop(JobBook& job) {
    if (!job.runs) return;
    job.runs = false;
    job.worked += static_cast<double>((at_ - job.runs_since) * job.job->pod.milli()) / 1000;
  }
  void give_back(JobBook& job) {
    if (job.place.is_null()) return;
    charge(job, -1);
    job.held += static_cast<double>((at_ - job.since) * job.job->pod.milli()) / 1000;
    job.place = nullptr;
  }

  const std::vector<ReplayProject>& projects_;
  Policy policy_;
  bool lends_;
  ReplayOutcome& out_;
  std::int64_t at_ = 0;
  std::map<std::string, NodeBook> nodes_;
  std::unordered_map<std::string, JobBook> jobs_;
  std::vector<std::int64_t> used_, fixed_;  // milli-GPU of each project; of them not preemptible
};

}  // namespace

ReplayOutcome replay_outcome(const json& report, const std::vector<TraceNode>& nodes,
                             const std::vector<ReplayProject>& projects, const ReplayWorkload& workload,
                             Policy policy, bool lends) {
  ReplayOutcome out;
  out.useful_of.assign(projects.size(), 0);
  Audit audit(nodes, projects, workload, policy, lends, out);
  for (const json& event : report.at("events")) audit.play(event);
  audit.close(workload.window);
  double gpus = 0;  // of jobs that lost something: what seconds are rounded by
  for (const json& entry : report.at("jobs")) {
    const JobBook* const job = audit.book(entry.at("name").get<std::string>());
    if (job == nullptr) continue;  // told above
    const double size = static_cast<double>(job->job->pod.milli()) / 1000;
    const double lost = entry.at("lostWorkSeconds").get<double>() * size;
    if (lost > 0) gpus += size;
    out.held += job->held;
    out.lost += lost;
    out.useful += job->worked - lost;
    out.useful_of[job->job->project] += job->worked - lost;
    if (job->job->pod.milli() == 0) continue;
    out.waits.push_back(entry.at("waitedSeconds").get<double>());
    if (!job->started) ++out.not_started;
  }
  const json& metrics = report.at("metrics");
  out.capacity = static_cast<double>(gpu_milli(nodes)) / 1000 * static_cast<double>(workload.window);
  const auto same = [&](const char* what, double mine, double slack) {
    const auto told = metrics.at(what).get<double>();
    if (std::abs(told - mine) > slack)
      audit.wrong(std::string(what) + " is " + std::to_string(told) + ", counted " + std::to_string(mine));
  };
  same("gpuSecondsCapacity", out.capacity, 1);
  same("gpuSecondsAllocated", out.held, 1);
  same("gpuSecondsUseful", out.useful, 1 + gpus);
  return out;
}

}  // namespace muster::bench
