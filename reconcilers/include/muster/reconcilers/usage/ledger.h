// The ledger: what the work of each Project and Queue uses. It knows what each job holds since when, and adds
// that to the accounts of its Project and of all Queues above.
//
// What survives a crash: each account is written into the status of its object, with the instant up to which
// everything is counted (`usage.until`). The next process goes on from there. Of a job that held something
// before this process began, the time since `until` is counted from the job's own status: when it was
// admitted, when it was whole, since when it is idle, and when it ended. So nothing is counted twice. Lost is
// what was given back after the last write by a job that goes on, or was deleted: has_ended() says that a
// write is due within seconds. What its GPUs drew in that time nobody has written: it counts as what GPUs of
// the pool drew on average before.
//
// Beside the sums stands how long jobs ran that have succeeded (run_times.h). It is written together with
// them, and so no run is learned twice.
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
#include "muster/reconcilers/usage/pool_account.h"
#include "muster/reconcilers/usage/run_times.h"

namespace muster::reconcilers {

// What a job holds now.
struct JobUse {
  std::string project;  // "": nobody is charged
  std::string user;     // label muster.dev/user; "": not said
  std::string pool;
  std::string model;  // of its GPUs; "mixed": several; "": not known
  Held held;
  // Of what its assignment holds: since when, and since when it is whole.
  std::optional<crds::Time> begin, whole;
  // Since when it is idle, or was when it ended.
  std::optional<crds::Time> idle_since;
  // Of a job that has ended: when, and what it held then (since `whole`).
  std::optional<crds::Time> end;
  Held until_end;
  // When it was admitted, if it was not before, and for how long it had waited then.
  std::optional<crds::Time> first_start;
  std::int64_t waited_seconds = 0;
  // Of a job that has succeeded.
  crds::MilliGpu size;                      // the GPUs that it asks for at least
  std::optional<std::int64_t> run_seconds;  // in all its attempts
};

class Ledger {
 public:
  // The stores outlive this. Accounts go on from the statuses in them.
  Ledger(const ObjectStore<crds::Queue>& queues, const ObjectStore<crds::Project>& projects,
         const ObjectStore<crds::NodePool>& pools)
      : queues_(queues), projects_(projects), pools_(pools) {}

  // To be called whenever what the job holds may have changed. Instants never go back.
  // Complexity: O(depth of the tree x log).
  void update(const client::Key& job, JobUse use, crds::Time now);
  // The job is gone, or was told to go.
  void forget(const client::Key& job, crds::Time now);
  // The readings of its GPUs say what those of the job draw together, or nothing any more (nullopt).
  void note_power(const client::Key& job, std::optional<std::int64_t> milliwatts, crds::Time now);
  // Its rates may be others: until now the earlier ones count.
  void pool_changed(const std::string& pool, crds::Time now);
  // What the pool has from now on.
  void note_capacity(const std::string& pool, const crds::Amounts& capacity, const crds::Amounts& free,
                     crds::Time now);
  // Work of this job of the Project was thrown away.
  void lose(const client::Key& job, const std::string& project, std::int64_t gpu_seconds, crds::Time now);

  // What is to be written into the object's status. `now`: as for update().
  // Complexity: O(users and days of the account); of a Queue also what holds something below.
  crds::UsageStatus of_project(const std::string& name, crds::Time now);
  crds::UsageStatus of_queue(const std::string& name, crds::Time now);
  // What stands beside of_project().
  std::vector<crds::RunTimes> run_times_of(const std::string& project);
  // A NodePool's, until the last note_capacity().
  crds::CapacityUsage of_pool(const std::string& name);
  // How long such a job is likely to run; nullopt: not known.
  std::optional<UsualRunTime> usual_run_time(const std::string& project, const std::string& user,
                                             crds::MilliGpu size);

  // Whether something is held no longer that was when of_project() or of_queue() was last called.
  bool project_has_ended(const std::string& name);
  bool queue_has_ended(const std::string& name);

  // Of each Project since this process looked at its first job. The counters of the one before it have told
  // what was held until then.
  void for_each_project(crds::Time now, const std::function<void(const std::string&, const Used&)>& tell);

 private:
  struct Entry {
    std::string uid;  // of the object
    Account account;
    std::vector<crds::RunTimes> run_times;  // of a Project
  };
  struct PoolEntry {
    std::string uid;
    PoolAccount account;
  };
  // What the jobs of one Project hold together.
  struct Together {
    std::map<Part, Held> parts;
    crds::Time counted_until{};
  };

  template <class Kind>
  static Entry* find_entry(std::map<std::string, Entry>& accounts, const ObjectStore<Kind>& store,
                           const std::string& name);
  template <class Kind>
  static Account* find(std::map<std::string, Entry>& accounts, const ObjectStore<Kind>& store,
                       const std::string& name);
  // The account of the Project and of all Queues above it.
  std::vector<Account*> accounts_of(const std::string& project);
  void settle(const std::string& project, Together& together, crds::Time now);
  void settle_all(crds::Time now);
  // What the job held before this process looked at it, as far as it is not counted.
  void replace(const client::Key& job, JobUse use, crds::Time now);
  void catch_up(const JobUse& use, crds::Time now);
  // Of what the account has not counted yet: `held` from `begin` to `end`, starting until it was whole, and
  // idle since it was.
  void count_past(Account& account, const JobUse& use, const Held& held, crds::Time begin, crds::Time end);
  void learn_from(const JobUse& use);
  // In the accounts that have not counted its first start yet.
  void count_start(const JobUse& use);
  const Rates& rates_of(const std::string& pool);
  PoolAccount* find_pool(const std::string& name);

  const ObjectStore<crds::Queue>& queues_;
  const ObjectStore<crds::Project>& projects_;
  const ObjectStore<crds::NodePool>& pools_;
  std::optional<crds::Time> began_;     // when the first job was looked at
  std::map<std::string, Rates> rates_;  // by pool; what is counted with
  std::map<std::string, PoolEntry> of_pools_;
  std::map<std::string, Entry> of_queues_, of_projects_;
  std::map<std::string, Together> held_;  // by Project
  std::map<client::Key, JobUse> jobs_;
};

}  // namespace muster::reconcilers
