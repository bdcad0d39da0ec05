// Plays an input in virtual time through the placement core, and keeps what came out.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/simulate/input.h"

namespace muster::placement {
class Cluster;
}

namespace muster::simulate {

struct Options {
  std::optional<Instant> until;  // absent: until nothing happens any more
  // Called once, before anything is put into the cluster: a test has its plans audited so.
  void (*prepare)(placement::Cluster& cluster) = nullptr;
  crds::Duration fault_after{60};  // a node that is not Ready for so long is a fault
};

// How far a run has come, for a progress line.
struct Progress {
  Instant now{0};
  std::size_t jobs = 0;      // submitted so far
  std::size_t finished = 0;  // of them
  std::size_t events = 0;
};

class World;  // src/world.h

class Simulation {
 public:
  // `input` has no errors and outlives the simulation. `tell` is called after each instant.
  Simulation(const Input& input, const Options& options, std::function<void(const Progress&)> tell = {});
  ~Simulation();

  // Returns what is wrong with the input as far as only playing it shows: a stated assignment that cannot
  // hold. Nothing else of the outcome counts then.
  // Complexity: O(log n) a thing that happens, and one plan() an instant.
  std::vector<crds::FieldError> run();
  // Plays a part: up to and with this instant, and stands there. run() goes on from it, and gives what it
  // would have given at once.
  void run_to(Instant until);

  // Expectations that do not hold, each as lines for a person; those later than the end count as failed.
  const std::vector<std::string>& failures() const;
  std::size_t expectations_held() const;
  const World& world() const { return *world_; }

 private:
  Options options_;
  std::unique_ptr<World> world_;
  std::function<void(const Progress&)> tell_;
};

}  // namespace muster::simulate
