// How many replicas of which revision an InferenceService is to have next: scaling and rolling updates in one
// pure function. No I/O, no clock, no memory: a new process that sees the same replicas decides the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "muster/crds/inference_service.h"
#include "muster/crds/time.h"

namespace muster::reconcilers {

// One replica that is there and not on its way out.
struct Replica {
  bool is_current = false;     // of the revision in force
  bool is_stable = false;      // while a canary is under way: of the revision that it goes back to
  bool is_placed = false;      // holds its places
  bool is_ready = false;       // all its pods are
  bool lacks_room = false;     // holds no place, and waits for something that another replica could give back
  bool is_guaranteed = false;  // not preemptible
  bool is_cordoned = false;    // a node of it is
  std::int32_t ordinal = 0;
  crds::Time created{};
  crds::Time waits_since{};  // without a place since then
};

// What is remembered, in the service's status, of a rollout while it lasts.
struct RolloutMemory {
  // How many replicas had places when the rollout began. If it has overtaken an earlier rollout, the number
  // is that of the earlier one. A rollout keeps no more than these serving, so a service that asks for more
  // than there is rolls out too. 0: not known.
  std::int32_t places = 0;
  // The surge found no place, so the rollout goes on without one: one replica at a time gives its place to
  // its successor.
  bool gives_way = false;

  bool operator==(const RolloutMemory&) const = default;
};

struct WantedReplicas {
  struct OfCanary {
    std::int32_t all = 0;
    std::int32_t guaranteed = 0;
  };
  std::int32_t all = 0;
  std::int32_t guaranteed = 0;  // of those of no canary; the others may borrow, and yield
  // So many of all are to be of the revision in force, and the others of the stable one.
  std::optional<OfCanary> canary{};
};

struct ServicePlan {
  std::int32_t create = 0;             // replicas of the revision in force
  std::int32_t create_guaranteed = 0;  // of them
  std::int32_t create_stable = 0;      // while a canary is under way: replicas of the stable revision
  std::int32_t create_stable_guaranteed = 0;
  std::vector<std::size_t> remove;    // indexes into the replicas, in the order in which they are to go
  RolloutMemory rollout;              // empty when it is over
  bool cannot_move = false;           // one on a cordoned node, for kSurgePatience: there is no other place
  std::optional<crds::Time> wake_at;  // look again then, whatever happens
};

// A surge replica that lacks room for this long is taken to get none.
inline constexpr std::chrono::seconds kSurgePatience{30};

// Remembers since when none of a service's pods is on its way out.
class Room {
 public:
  // To be called at every look. `pods_leave`: some pod is on its way out. Returns since when none is. The
  // look that finds the last of them gone is counted from that look on, because the pod may have been there
  // until then.
  crds::Time look(bool pods_leave, crds::Time now) {
    if (pods_leave || they_left_) since_ = now;
    they_left_ = pods_leave;
    return since_;
  }

 private:
  bool they_left_ = false;
  crds::Time since_{};
};

// `before` is what the last plan of this rollout said, or of the rollout that this one has overtaken. No
// replica that has places is given up until the status says how many had places. `room_since`: see Room;
// kSurgePatience begins no earlier. Of the replicas that may go, those that are not guaranteed go first, then
// those that hold nothing, then those that are not ready, then the youngest.
// Whether a replica is guaranteed is decided once, when it is made. In a rollout those are made first that
// are not: a guaranteed one has to fit the quota, which its predecessor still fills. O(replicas log
// replicas).
// Outside of rollouts and canaries, one that is ready and stands on a cordoned node goes as a replica of an
// earlier revision does, with a surge and without fewer that serve. If it cannot be, it serves on.
// While a canary is under way, each of the two revisions keeps as many as it is to have. What it has beyond
// goes as replicas of earlier revisions do: when another is ready in its place.
ServicePlan plan_replicas(WantedReplicas wanted, const crds::Rollout& rollout,
                          const std::vector<Replica>& replicas, RolloutMemory before, crds::Time room_since,
                          crds::Time now);

}  // namespace muster::reconcilers
