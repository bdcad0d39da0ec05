#include "undone_starts.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "muster/crds/duration.h"

namespace muster::simulate {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kUnknownStart{120};

milliseconds time_of(const json& event) {
  return *crds::parse_duration(event["at"].get<std::string>());
}

struct Life {
  std::optional<milliseconds> admitted;
  bool has_worked = false;  // so it is known how long it takes to start
};

class Judge {
 public:
  Judge(const json& events, const KnownOfJobs& known) : events_(events), known_(known) {
    changes_.insert(known.changes.begin(), known.changes.end());
    for (const json& e : events_) {
      const std::string type = e["type"];
      if (type == "Finished" || type == "Released") changes_.insert(time_of(e));
      if (begins_attempt(type)) changes_.insert(time_of(e) + start_of(e["object"]));
    }
  }

  UndoneStarts run() {
    for (const json& e : events_) {
      const milliseconds at = time_of(e);
      if (at != now_) close();
      now_ = at;
      Life& life = lives_[e["object"]];
      note(e, life);
      if (is_taken_for_others(e)) taken_[e.value("for", "")].push_back({e["object"], is_undone(e, life)});
    }
    close();
    return std::move(found_);
  }

 private:
  struct Taken {
    std::string job;
    bool undone = false;
  };

  static bool begins_attempt(const std::string& type) { return type == "Admitted" || type == "Restarted"; }
  static bool is_taken_for_others(const json& e) {
    const std::string type = e["type"], reason = e.value("reason", "");
    return (type == "Evicted" || type == "Moved") &&
           (reason == "Reclaimed" || reason == "Preempted" || reason == "Consolidated");
  }
  seconds start_of(const std::string& job) const {
    const auto found = known_.starts_in.find(job);
    return found == known_.starts_in.end() ? seconds{0} : found->second;
  }

  void note(const json& e, Life& life) {
    const std::string type = e["type"], job = e["object"];
    if (begins_attempt(type)) {
      life = {now_, life.has_worked || (life.admitted && *life.admitted + start_of(job) <= now_)};
      starting_.insert(job);
    } else if (type == "Evicted" || type == "Moved" || type == "Finished") {
      runs_.erase(job);
    }
  }

  bool is_undone(const json& e, Life& life) {
    if (!life.admitted) return false;
    const milliseconds since = *life.admitted;
    const seconds start = start_of(e["object"]);
    const milliseconds own = life.has_worked ? start : kUnknownStart;
    life.has_worked = life.has_worked || since + start <= now_;
    const auto change = changes_.upper_bound(since);
    return now_ - since < own && (change == changes_.end() || *change > now_);
  }

  // Of one instant.
  void close() {
    for (const auto& [claimant, all] : taken_) {
      const bool only_these = std::ranges::all_of(all, &Taken::undone);
      for (const Taken& one : all) {
        if (!one.undone) continue;
        auto& list = grows(claimant) && only_these ? found_.by_growth : found_.by_others;
        list.push_back(one.job + " is taken for " + claimant + " at " + std::to_string(now_.count()) +
                       " ms, before it has worked");
      }
    }
    taken_.clear();
    runs_.merge(starting_);
    starting_.clear();
  }
  // It has run since before this instant.
  bool grows(const std::string& claimant) const { return runs_.contains(claimant); }

  const json& events_;
  const KnownOfJobs& known_;
  std::set<milliseconds> changes_;
  std::map<std::string, Life> lives_;
  std::map<std::string, std::vector<Taken>> taken_;  // by who it is for
  std::set<std::string> runs_, starting_;            // starting at this instant
  milliseconds now_{-1};
  UndoneStarts found_;
};

}  // namespace

UndoneStarts undone_starts(const json& outcome, const KnownOfJobs& known) {
  return Judge(outcome["events"], known).run();
}

}  // namespace muster::simulate
