// Two controllers that elect a leader, and what befalls them: they are killed, told to end, or stopped and
// continued beyond their lease.
#pragma once

#include <array>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fixture.h"

namespace muster::test {

// What is drawn by lot, the same for the same seed.
class Lots {
 public:
  void seed(unsigned seed) { random_.seed(seed); }
  bool chance(int in_hundred) { return pick(100) < in_hundred; }
  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  template <class T>
  const T& one_of(const std::vector<T>& all) {
    return all[static_cast<std::size_t>(pick(static_cast<int>(all.size())))];
  }
  std::string seconds(int low, int high) { return std::to_string(low + pick(high - low + 1)) + "s"; }

 private:
  std::mt19937 random_;
};

class ControllerPair {
 public:
  using Clock = std::chrono::steady_clock;

  // Both outlive it. `tell` hears of all that is done.
  ControllerPair(Cluster& cluster, std::function<void(const std::string&)> tell)
      : cluster_(cluster), tell_(std::move(tell)) {
    for (auto& one : controllers_) start(one);
  }

  void disturb_one(Lots& lots) {
    Controller& one = controllers_[static_cast<std::size_t>(lots.pick(2))];
    if (lots.chance(70)) {
      tell_(one.name + " is killed");
      if (stopped_ == &one) stopped_ = nullptr;
      one.process.reset();
      if (lots.chance(60)) free_lease_of(one.name);
      return start(one);
    }
    if (lots.chance(50)) {
      tell_(one.name + " is told to end");
      ::kill(one.process->id().pid, SIGTERM);
      return;  // look_after() starts another when it has ended
    }
    if (stopped_ != nullptr) return;
    tell_(one.name + " is stopped");
    ::kill(one.process->id().pid, SIGSTOP);
    stopped_ = &one;
    continue_at_ = Clock::now() + kBeyondTheLease + std::chrono::milliseconds{lots.pick(6000)};
  }

  // Whoever lost its lease, or was told to, has ended, as it should.
  void look_after() {
    if (stopped_ != nullptr && Clock::now() >= continue_at_) {
      tell_(stopped_->name + " is continued");
      ::kill(stopped_->process->id().pid, SIGCONT);
      stopped_ = nullptr;
    }
    for (auto& one : controllers_) {
      if (!one.process->alive()) start(one);
    }
  }

  void both_go_on() {
    if (stopped_ != nullptr) continue_at_ = Clock::now();
    look_after();
  }

 private:
  // A leader that does not renew is followed after 15 s; what it sent before must be over by then.
  static constexpr auto kBeyondTheLease = std::chrono::seconds{18};

  struct Controller {
    std::string name;  // in the lease
    std::unique_ptr<MusterProcess> process;
  };
  void start(Controller& one) {
    one.name = "controller-" + std::to_string(next_++);
    one.process = cluster_.muster({"--leader-elect", "--identity", one.name, "--node-grace", "4"});
  }
  // The next one leads at once, and not when the lease of the one that is dead has run out.
  void free_lease_of(const std::string& dead) {
    const std::string path = "/apis/coordination.k8s.io/v1/namespaces/muster-system/leases/muster-controller";
    const json lease = cluster_.get(path);
    if (lease.is_null() || lease.value("/spec/holderIdentity"_json_pointer, std::string()) != dead) return;
    tell_("its lease is deleted");
    cluster_.real().request("DELETE", path);
  }

  Cluster& cluster_;
  std::function<void(const std::string&)> tell_;
  std::array<Controller, 2> controllers_;
  int next_ = 0;
  const Controller* stopped_ = nullptr;
  Clock::time_point continue_at_;
};

}  // namespace muster::test
