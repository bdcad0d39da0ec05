// Why what waits waits: one verdict for each job, as things are when a plan is made.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "line.h"
#include "state.h"

namespace muster::placement {

class Judge {
 public:
  Judge(State& state, std::vector<std::string>& changed) : s_(state), changed_(changed) {}

  // The jobs that were refused in the line's pool, in the order in which they were served.
  void line(const Line& line, const std::vector<JobId>& refused);
  void nominated(PoolId pool);  // those whose places are promised, not free
  void sidelined();             // those that stand in no line

 private:
  const Refusal& described(RequestId request, PoolId pool);
  // nullopt: a shortage binds, not a right.
  std::optional<Verdict> without_right(const Line& line, const Job& job, const std::vector<LeafId>& path);
  // It would fit on what is reserved for another one. Once for all jobs that ask the same.
  bool fits_reserved(JobId job, PoolId pool);
  struct Where {
    std::int32_t position = 0, in_project = 0;
    std::optional<Time> estimated_start;
  };
  void publish(JobId job, const Verdict& verdict, std::uint64_t serial, const Where& where);

  State& s_;
  std::vector<std::string>& changed_;
  std::map<std::pair<RequestId, PoolId>, bool> fits_reserved_;
};

}  // namespace muster::placement
