// What users submit by lot, for random_life_test.cc.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "fixture.h"

namespace muster::test {

// The source of all that is left to chance. The same seed draws the same lots.
class Lots {
 public:
  void seed(unsigned number) { random_.seed(number); }
  bool chance(int in_hundred) { return pick(100) < in_hundred; }
  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }  // below n
  template <class T>
  const T& one_of(const std::vector<T>& all) {
    return all[static_cast<std::size_t>(pick(static_cast<int>(all.size())))];
  }
  // A duration, both ends included.
  std::string seconds(int low, int high) { return std::to_string(low + pick(high - low + 1)) + "s"; }

 private:
  std::mt19937 random_;
};

// A TrainingJob of any kind in `team` or `guests`. Its program ends within 30 s, or fails, and saves within 3
// s.
json random_job(Lots& lots, const std::string& name);
// An InferenceService in `team`.
json random_service(Lots& lots, const std::string& name);

}  // namespace muster::test
