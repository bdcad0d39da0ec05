// RULES.md 2.5 as users see it: nobody is admitted and taken from again before it has worked, unless
// something has changed meanwhile. Judged from objects as the API server has them, of a cluster or of one in
// memory.
#pragma once

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace muster::test {

class UndoneAdmissions {
 public:
  using Instant = std::chrono::milliseconds;  // since whatever moment

  // `lag`: a change may be so late to be heard of.
  explicit UndoneAdmissions(Instant lag) : lag_(lag) {}

  // Somebody outside has done something: to an object, to a process, to a request.
  void note_change(Instant at) { changes_.insert(at); }

  // A pod or a TrainingJob as it is now, in the order of their changes. That a pod comes to run, ends or goes
  // is a change from outside. So is an edit, the end or the deletion of a job.
  void see(const nlohmann::json& object, bool is_gone, Instant at) {
    const std::string uid = object["metadata"]["uid"];
    if (object.value("kind", "") == "TrainingJob") {
      see_job(jobs_[uid], object, is_gone, at);
    } else {
      const std::string phase = is_gone ? "gone" : object.value("/status/phase"_json_pointer, std::string());
      if (std::exchange(phases_[uid], phase) != phase && phase != "Pending" && !phase.empty())
        note_change(at);
    }
  }

  const std::vector<std::string>& problems() const { return problems_; }
  int judged() const { return judged_; }  // so often a job was taken from for others within its own start

 private:
  struct Job {
    std::string seen;  // what others than the operator decide about
    int attempt = 0;
    bool is_evicted = false;
    Instant admitted{}, start{};
  };

  void see_job(Job& job, const nlohmann::json& object, bool is_gone, Instant at) {
    const nlohmann::json status = object.value("status", nlohmann::json::object());
    const std::string phase = status.value("phase", "");
    const bool has_ended = is_gone || phase == "Succeeded" || phase == "Failed";
    const std::string seen = has_ended ? "ended" : object["spec"].dump();
    if (std::exchange(job.seen, seen) != seen) note_change(at);
    const auto reason = evicted_for_others(status);
    if (reason && !job.is_evicted && !has_ended) judge(job, object["metadata"]["name"], *reason, at);
    job.is_evicted = reason.has_value();
    const int attempt = status.value("/assignment/attempt"_json_pointer, 0);
    if (attempt <= job.attempt) return;
    job.attempt = attempt;
    job.admitted = at;
    // Before it is known it counts as two minutes (RULES.md 5.11).
    job.start = std::chrono::seconds{status.value("/disruption/startSeconds"_json_pointer, 120)};
  }

  static std::optional<std::string> evicted_for_others(const nlohmann::json& status) {
    for (const auto& c : status.value("conditions", nlohmann::json::array())) {
      const std::string reason = c.value("reason", "");
      if (c["type"] == "Evicted" && c["status"] == "True" &&
          (reason == "Reclaimed" || reason == "Preempted" || reason == "Consolidated"))
        return reason;
    }
    return std::nullopt;
  }

  void judge(const Job& job, const std::string& name, const std::string& reason, Instant at) {
    if (job.attempt == 0 || at - job.admitted >= job.start) return;
    ++judged_;
    const auto change = changes_.lower_bound(job.admitted - lag_);
    if (change != changes_.end() && *change <= at) return;
    problems_.push_back("job " + name + " was admitted at " + std::to_string(job.admitted.count()) +
                        " ms, and " + reason + " at " + std::to_string(at.count()) +
                        " ms, though nothing had changed and it takes " + std::to_string(job.start.count()) +
                        " ms to start");
  }

  Instant lag_;
  std::map<std::string, Job> jobs_;            // by uid
  std::map<std::string, std::string> phases_;  // of pods, by uid
  std::set<Instant> changes_;
  std::vector<std::string> problems_;
  int judged_ = 0;
};

}  // namespace muster::test
