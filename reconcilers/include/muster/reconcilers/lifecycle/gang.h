// The pods of a job held against its assignment: which pod stands for which place, and what they are
// at together.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "muster/client/informer.h"
#include "muster/client/pod.h"
#include "muster/crds/training_job.h"

namespace muster::reconcilers {

// Pods that are not wanted any more and still hold something.
struct Lingering {
  std::size_t count = 0;
  std::string example;    // "<pod> on node <node>": the one that has longest to go
  crds::Time deadline{};  // of that one; the epoch: it was not told to go yet

  void add(const client::Pod& pod);
  // When there is something wrong with it: some seconds after its deadline.
  crds::Time overdue_at() const { return deadline + std::chrono::seconds{5}; }
};

struct Gang {
  std::vector<const client::Pod*> pods;    // parallel to the assignment's; nullptr: none exists
  std::vector<bool> succeeded;             // parallel to `pods`: seen now, or remembered by the assignment
  std::vector<const client::Pod*> strays;  // of earlier attempts or tries, or without identity
  Lingering stale;                         // those of `strays` that have not ended
  // Of the attempt that serves until this one is ready. None of them was told to go.
  std::vector<const client::Pod*> replaced;
};

// Complexity: O(pods log pods). The pods must outlive the answer.
Gang match(const crds::Assignment& assignment, const std::vector<client::Ptr<client::Pod>>& pods);

// The completion policy is met.
bool is_complete(const Gang& gang, const crds::Assignment& assignment, const crds::Completion& completion);
// The first pod whose program failed; nullptr: none.
const client::Pod* program_fault(const Gang& gang);
// Pods that are Ready.
std::size_t count_ready(const Gang& gang);
// Pods that are Ready or have succeeded already.
std::size_t count_there(const Gang& gang);
// What the assignment is to remember of it.
std::vector<std::int32_t> places_succeeded(const Gang& gang);

}  // namespace muster::reconcilers
