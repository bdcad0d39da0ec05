// Random clusters for the properties of the placement core: nodes, pools, trees and jobs of every kind that
// the core knows, and histories of what happens to them.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "placement/small_cluster.h"

namespace muster::placement::testing {

// The source of all choices of one history, so that a history can be played twice.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  std::int64_t upto(std::int64_t n) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(n + 1));
  }
  bool one_in(std::int64_t n) { return upto(n - 1) == 0; }
  template <class T>
  const T& of(const std::vector<T>& list) {
    return list[static_cast<std::size_t>(upto(static_cast<std::int64_t>(list.size()) - 1))];
  }
  template <class T>
  void shuffle(std::vector<T>& list) {
    for (std::size_t i = list.size(); i > 1; --i)
      std::swap(list[i - 1], list[static_cast<std::size_t>(upto(static_cast<std::int64_t>(i) - 1))]);
  }

 private:
  std::mt19937_64 engine_;
};

extern const std::vector<std::string> kProjects, kQueues, kPools;

NodeSpec some_node(Dice& dice);  // one of eight names
PoolSpec some_pool(Dice& dice, const std::string& name);
QueueSpec some_queue(Dice& dice, bool reserves);  // a Queue or a Project; with reserved parts
// One of six names of a Project, submitted up to 20 ms after `now`.
JobSpec some_job(Dice& dice, Time now);

// A cluster to which one thing after the other happens: what a caller tells of nodes, pools, queues and jobs,
// what becomes of pods, and what a broken history may have left behind.
class History {
 public:
  // `devices`: the same, and nodes have resources known by name, jobs ask for them, and quotas bound them.
  explicit History(std::uint64_t seed, bool devices = false);

  void step();
  void skip() { ++step_; }  // the others do what they would have done, as far as they can
  // Some time passes: from a millisecond to half an hour.
  void wait();
  // Pods that were asked to go have gone. False: there were none.
  bool let_go();

  Cluster cluster;
  std::map<std::string, JobSpec> jobs;                       // those that exist
  std::map<std::pair<bool, std::string>, QueueSpec> queues;  // by is_project and name
  Time now{1'000'000};
  Dice dice;        // of each step its own
  std::string log;  // what was told, a line each

 private:
  std::uint64_t seed_ = 0, step_ = 0;
  bool reserves_ = false, devices_ = false;
  void note(const std::string& line);
  Dice more_dice() const { return Dice(seed_ * 1'000'003 + step_ + 500'000); }  // for devices
  void upsert(QueueSpec queue);
  void upsert(NodeSpec node);
  void upsert(const PoolSpec& pool);
  void upsert(JobSpec job);
  const JobSpec& some_known();
  void remove_some_job();
  void confirm_or_withdraw();
  void other_pod();
  void report();
};

std::string text_of(const Cluster& cluster, const Plan& plan);
// As lines.
std::string all(const std::vector<std::string>& sentences);

}  // namespace muster::placement::testing
