// Why what waits waits: one verdict for each job, as things are when a plan is made.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "model/state.h"
#include "order/line.h"

namespace muster::placement {

class Judge {
 public:
  // Of claimants by leaf, request, priority and pool: whom they have a right to take, and minRuntime keeps.
  using SafeVictims = std::map<std::tuple<LeafId, RequestId, std::int64_t, PoolId>, std::pair<Time, JobId>>;

  Judge(State& state, const SafeVictims& safe, std::vector<std::string>& changed)
      : s_(state), safe_(safe), changed_(changed) {}

  // All that waits in the line's pool, in the order in which it would be served. Where that are many, only
  // the first of them and those that have no verdict yet; all of them once a minute (Pool::due). The first
  // ones are considered for a reservation before.
  void line(const Line& line);
  void nominated(PoolId pool);  // those whose places are promised, not free
  void sidelined();             // those that stand in no line

 private:
  struct Where {
    std::int32_t position = 0, in_project = 0;
    std::optional<Time> estimated_start;
  };
  // What does not change from job to job of one line.
  struct Scene {
    const Line& line;
    PoolId pool;
    bool many = false;
    std::map<LeafId, std::vector<LeafId>> paths;
    std::map<std::pair<LeafId, RequestId>, std::optional<Verdict>> rights;
  };
  void job(Scene& scene, JobId job, const Where& where);
  const std::vector<LeafId>& path(Scene& scene, LeafId leaf) const;
  const Refusal& described(JobId job, const Scene& scene);
  // nullopt: a shortage binds, not a right.
  std::optional<Verdict> without_right(const Scene& scene, const Job& job, const std::vector<LeafId>& path);
  // It would fit on what is reserved for another one. Once for all jobs that ask the same.
  bool fits_reserved(JobId job, PoolId pool);
  void publish(JobId job, const Verdict& verdict, std::uint64_t serial, const Where& where);

  State& s_;
  const SafeVictims& safe_;
  std::vector<std::string>& changed_;
  std::map<std::pair<RequestId, PoolId>, bool> fits_reserved_;
};

}  // namespace muster::placement
