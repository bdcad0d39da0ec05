// The ledger: what the work of each Project and Queue uses. It knows what each job holds since when, and adds
// that to the accounts of its Project and of all Queues above.
//
// What survives a crash: each account is written into the status of its object, with the instant up to which
// everything is counted (`usage.until`). The next process goes on from there. Of a job that held something
// before this process began, the time since `until` is counted from the job's own status: when it was
// admitted, when it was whole, and when it ended. So nothing is counted twice. Lost is what was given back
// after the last write by a job that goes on, or was deleted: has_ended() says that a write is due within
// seconds.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/client/object.h"
#include "muster/reconcilers/common/objects.h"
#include "muster/reconcilers/usage/account.h"

namespace muster::reconcilers {

// What a job holds now.
struct JobUse {
  std::string project;  // "": nobody is charged
  std::string user;     // label muster.dev/user; "": not said
  std::string pool;
  Held held;
  // Of what its assignment holds: since when, and since when it is whole.
  std::optional<crds::Time> begin, whole;
  // Of a job that has ended: when, and what it held then (since `whole`).
  std::optional<crds::Time> end;
  Held until_end;
};

class Ledger {
 public:
  // The stores outlive this. Accounts go on from the statuses in them.
  Ledger(const ObjectStore<crds::Queue>& queues, const ObjectStore<crds::Project>& projects)
      : queues_(queues), projects_(projects) {}

  // To be called whenever what the job holds may have changed. Instants never go back.
  // Complexity: O(depth of the tree x log).
  void update(const client::Key& job, JobUse use, crds::Time now);
  // The job is gone, or was told to go.
  void forget(const client::Key& job, crds::Time now);
  // Work of this Project's jobs was thrown away.
  void lose(const std::string& project, std::int64_t gpu_seconds, crds::Time now);

  // What is to be written into the object's status. `now`: as for update().
  // Complexity: O(users and days of the account); of a Queue also what holds something below.
  crds::UsageStatus of_project(const std::string& name, crds::Time now);
  crds::UsageStatus of_queue(const std::string& name, crds::Time now);

  // Whether something is held no longer that was when of_project() or of_queue() was last called.
  bool project_has_ended(const std::string& name);
  bool queue_has_ended(const std::string& name);

  // Of each Project since this process began.
  void for_each_project(crds::Time now, const std::function<void(const std::string&, const Used&)>& tell);

 private:
  struct Entry {
    std::string uid;  // of the object
    Account account;
  };
  struct Part {
    std::string user, pool;
    auto operator<=>(const Part&) const = default;
  };
  // What the jobs of one Project hold together.
  struct Together {
    std::map<Part, Held> parts;
    crds::Time counted_until{};
  };

  template <class Kind>
  static Account* find(std::map<std::string, Entry>& accounts, const ObjectStore<Kind>& store,
                       const std::string& name);
  // The account of the Project and of all Queues above it.
  std::vector<Account*> accounts_of(const std::string& project);
  void settle(const std::string& project, Together& together, crds::Time now);
  void settle_all(crds::Time now);
  // What the job held before this process looked at it, as far as it is not counted.
  void catch_up(const JobUse& use, crds::Time now);

  const ObjectStore<crds::Queue>& queues_;
  const ObjectStore<crds::Project>& projects_;
  std::map<std::string, Entry> of_queues_, of_projects_;
  std::map<std::string, Together> held_;  // by Project
  std::map<client::Key, JobUse> jobs_;
};

}  // namespace muster::reconcilers
