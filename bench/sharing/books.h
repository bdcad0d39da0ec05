// Books of a day, kept from the events alone.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sharing/outcome.h"

namespace muster::bench {

// Which GPUs are held by whom, and how many are free on how many nodes.
class GpuBook {
 public:
  explicit GpuBook(const std::vector<TraceNode>& nodes);

  using Gpu = std::pair<std::size_t, std::size_t>;  // node, index
  std::optional<Gpu> find(const std::string& node, std::int64_t index) const;
  // False: somebody has it. What only leaves has made room for whoever takes it.
  bool take(Gpu gpu);
  void give_back(Gpu gpu);
  // Its pod was told to go, and holds it until this instant at most.
  void leave(Gpu gpu, std::int64_t until);
  // Those that have left by then are free.
  void pass(std::int64_t now);
  // The next instant at which one is free; absent: none leaves.
  std::optional<std::int64_t> next() const;

  std::int64_t held() const { return held_; }
  std::int64_t leaving() const { return leaving_count_; }
  const std::vector<std::int64_t>& nodes_by_free() const { return nodes_by_free_; }

 private:
  enum class State : std::uint8_t { kFree, kHeld, kLeaving };
  struct One {
    State state = State::kFree;
    std::uint32_t stamp = 0;
  };
  void set(Gpu gpu, State state);

  std::unordered_map<std::string, std::size_t> names_;
  std::vector<std::vector<One>> nodes_;
  std::vector<std::int64_t> free_of_;
  std::vector<std::int64_t> nodes_by_free_;
  std::multimap<std::int64_t, std::pair<Gpu, std::uint32_t>> due_;
  std::int64_t held_ = 0, leaving_count_ = 0;
};

class DayBook {
 public:
  DayBook(const Day& day, Sharing policy, DayOutcome& out);

  void play(const nlohmann::json& event);
  void close();
  // Compares with what the simulation reports.
  void compare(const nlohmann::json& report);

 private:
  struct Job {
    const DayJob* is = nullptr;
    std::vector<GpuBook::Gpu> gpus;
    bool is_submitted = false, is_entitled = false, is_over = false;
    bool works = false;  // holds its place and was not told to go
    std::optional<std::int64_t> admitted, first_victim;
    std::optional<Wish> wish;          // it waits
    std::optional<std::size_t> story;  // its index in the outcome, when the day is over
    // Taken by a resize that restarts it, whose former pods save until then: no pod is there yet.
    std::vector<GpuBook::Gpu> unmade;
    std::int64_t unmade_until = 0;
  };

  void wrong(const std::string& what);
  Job* find(const std::string& object);
  void advance(std::int64_t to);
  void submit_until(std::int64_t now);
  bool is_within_quota(const Job& job) const;
  void account(std::int64_t to);
  void wait_as(Job& job, const std::string& reason);
  void wait_no_more(Job& job);
  void take(Job& job, const nlohmann::json& pods);
  void resize(Job& job, const nlohmann::json& event);
  void asked_to_give(Job& job, const nlohmann::json& event, const std::string& type);
  void give_back(Job& job);
  void give_back_unmade(Job& job);
  void charge(Job& job, std::int64_t gpus);
  std::vector<GpuBook::Gpu> gpus_of(const Job& job, const nlohmann::json& pods);
  double waited(const Job& job) const;

  const Day& day_;
  Sharing policy_;
  DayOutcome& out_;
  GpuBook gpus_;
  std::int64_t at_ = 0;
  std::vector<Job> jobs_;  // as the day has them
  std::unordered_map<std::string, std::size_t> by_name_;
  std::size_t next_ = 0;  // to be submitted
  std::map<Wish, std::int64_t> waiting_;
  std::int64_t growth_ = 0;                      // GPUs that elastic jobs which run lack
  std::vector<std::vector<std::size_t>> open_;   // of each project: jobs that have not ended, by arrival
  std::vector<std::int64_t> used_, firm_;        // of each project: held, of that not preemptible
  double held_at_least_ = 0, held_at_most_ = 0;  // GPU-seconds
};

}  // namespace muster::bench
