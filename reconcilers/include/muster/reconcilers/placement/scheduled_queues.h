// Queues and Projects as placement takes them, with what their schedules say. It remembers when that changes,
// so that whoever plans looks again at that instant.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "muster/crds/crds.h"
#include "muster/placement/queue.h"

namespace muster::reconcilers {

class ScheduledQueues {
 public:
  // The newest state of the object; what holds of it now.
  placement::QueueSpec take(const crds::Queue& queue, crds::Time now);
  placement::QueueSpec take(const crds::Project& project, crds::Time now);
  void forget(const std::string& name, bool is_project);

  // What holds now of those of which something has changed since they were last taken.
  std::vector<placement::QueueSpec> due(crds::Time now);
  std::optional<crds::Time> next() const;  // when due() has something; absent: never

 private:
  struct Entry {
    std::variant<crds::Queue, crds::Project> object;  // without status
    crds::Time due;
  };
  template <class Kind>
  placement::QueueSpec take_in(const Kind& object, bool is_project, crds::Time now);

  std::map<std::pair<bool, std::string>, Entry> entries_;  // by is_project and name
};

}  // namespace muster::reconcilers
