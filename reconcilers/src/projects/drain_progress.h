// How far the drain of a Queue or Project is: who has been asked to save, who has left, and who still runs.
#pragma once

#include <string>
#include <vector>

#include "muster/client/events.h"
#include "muster/crds/common.h"
#include "muster/reconcilers/caches/caches.h"

namespace muster::reconcilers {

// The namespaces of the Projects below the Queue, whose jobs a drain of it lets go. Complexity: O(tree
// below).
std::vector<std::string> namespaces_below(const Caches& caches, const std::string& queue);

// Of the jobs in these namespaces. `since`: when the drain was first seen. Complexity: O(their jobs and
// pods).
crds::DrainStatus drain_progress(const Caches& caches, const std::vector<std::string>& namespaces,
                                 crds::Time since);

// Nobody is left to be let go.
inline bool is_over(const crds::DrainStatus& drain) {
  return drain.running + drain.saving == 0;
}

// What people are told when a drain begins, and when it is over; "": nothing.
struct DrainNews {
  std::string reason;
  std::string text;
};
DrainNews drain_news(const std::optional<crds::DrainStatus>& before,
                     const std::optional<crds::DrainStatus>& now);

}  // namespace muster::reconcilers
