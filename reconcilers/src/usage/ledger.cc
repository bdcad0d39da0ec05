#include "muster/reconcilers/usage/ledger.h"

#include <algorithm>

namespace muster::reconcilers {
namespace {

// The tree of Queues may be wrong for a while and have a circle in it.
constexpr std::size_t kMostLevels = 64;

bool is_same_but_for_power(Held a, const Held& b) {
  a.read_milliwatts = b.read_milliwatts;
  a.read_milli_gpus = b.read_milli_gpus;
  return a == b;
}

// All its GPUs. What is read of them now says nothing about the past.
Held all_doing(Doing doing, Held held) {
  const std::int64_t gpus = held.all_milli_gpus();
  held.milli_gpus = {};
  held.gpus(doing) = gpus;
  held.read_milliwatts = held.read_milli_gpus = 0;
  return held;
}

}  // namespace

template <class Kind>
Account* Ledger::find(std::map<std::string, Entry>& accounts, const ObjectStore<Kind>& store,
                      const std::string& name) {
  Entry* entry = find_entry(accounts, store, name);
  return entry == nullptr ? nullptr : &entry->account;
}

template <class Kind>
Ledger::Entry* Ledger::find_entry(std::map<std::string, Entry>& accounts, const ObjectStore<Kind>& store,
                                  const std::string& name) {
  const auto object = store.find(name);
  if (!object) {
    accounts.erase(name);
    return nullptr;
  }
  const auto known = accounts.find(name);
  if (known != accounts.end() && known->second.uid == object->meta.uid) return &known->second;
  Entry fresh{object->meta.uid, Account(object->value.status.usage), {}};
  if constexpr (requires { object->value.status.run_times; })
    fresh.run_times = object->value.status.run_times;
  return &accounts.insert_or_assign(name, std::move(fresh)).first->second;
}

const Rates& Ledger::rates_of(const std::string& pool) {
  const auto [known, is_new] = rates_.try_emplace(pool);
  if (!is_new) return known->second;
  if (const auto object = pools_.find(pool)) {
    const auto& spec = object->value.spec;
    known->second = {spec.price_per_gpu_hour.value_or(crds::MilliCost{}), spec.watts_per_gpu.value_or(0)};
  }
  return known->second;
}

void Ledger::pool_changed(const std::string& pool, crds::Time now) {
  const auto known = rates_.find(pool);
  if (known == rates_.end()) return;
  const Rates before = known->second;
  rates_.erase(known);
  const Rates after = rates_of(pool);
  if (after == before) return;
  rates_[pool] = before;
  settle_all(now);
  rates_[pool] = after;
}

std::vector<Account*> Ledger::accounts_of(const std::string& project) {
  std::vector<Account*> accounts;
  const auto object = projects_.find(project);
  if (!object) return accounts;
  accounts.push_back(find(of_projects_, projects_, project));
  std::string queue = object->value.spec.queue;
  for (std::size_t level = 0; level < kMostLevels && !queue.empty(); ++level) {
    const auto above = queues_.find(queue);
    if (!above) break;
    accounts.push_back(find(of_queues_, queues_, queue));
    queue = above->value.spec.parent;
  }
  return accounts;
}

void Ledger::settle(const std::string& project, Together& together, crds::Time now) {
  if (now <= together.counted_until) return;
  if (!together.parts.empty()) {
    for (Account* account : accounts_of(project)) {
      for (const auto& [part, held] : together.parts)
        account->count(part, held, rates_of(part.pool), together.counted_until, now);
    }
  }
  together.counted_until = now;
}

void Ledger::settle_all(crds::Time now) {
  for (auto& [project, together] : held_) settle(project, together, now);
}

void Ledger::count_past(Account& account, const JobUse& use, const Held& held, crds::Time begin,
                        crds::Time end) {
  begin = std::max(begin, account.counted_until().value_or(begin));
  if (begin >= end) return;
  Rates rates = rates_of(use.pool);
  rates.watts = account.usual_watts(use.pool).value_or(rates.watts);
  const Part part{use.user, use.pool, use.model};
  const auto whole = std::clamp(use.whole.value_or(end), begin, end);
  const auto idle = std::clamp(use.idle_since.value_or(end), whole, end);
  account.count(part, all_doing(Doing::kStarting, held), rates, begin, whole, began_);
  account.count(part, all_doing(Doing::kRunning, held), rates, whole, idle, began_);
  account.count(part, all_doing(Doing::kIdle, held), rates, idle, end, began_);
}

void Ledger::catch_up(const JobUse& use, crds::Time now) {
  if (!began_) began_ = now;
  if (use.project.empty()) return;
  rates_of(use.pool);  // as they are now: other ones count from when they come
  const auto accounts = accounts_of(use.project);
  if (use.end && use.whole) {
    for (Account* account : accounts) count_past(*account, use, use.until_end, *use.whole, *use.end);
  }
  if (use.first_start) count_start(use);
  const Entry* project = find_entry(of_projects_, projects_, use.project);
  if (use.end && project != nullptr && project->account.counted_until() < use.end) learn_from(use);
  if (!use.begin) return;
  Held held = use.held;
  held.gpus(Doing::kSaving) = 0;  // what leaves is not of the assignment
  for (Account* account : accounts) count_past(*account, use, held, *use.begin, now);
}

void Ledger::learn_from(const JobUse& use) {
  Entry* project = find_entry(of_projects_, projects_, use.project);
  if (project == nullptr || !use.run_seconds) return;
  learn(project->run_times, use.user, use.size, *use.run_seconds);
  project->account.note_change();
}

// What an account has written tells of all starts until then.
void Ledger::count_start(const JobUse& use) {
  for (Account* account : accounts_of(use.project)) {
    if (account->counted_until() < use.first_start) account->note_start(use.waited_seconds, *use.first_start);
  }
}

void Ledger::update(const client::Key& job, JobUse use, crds::Time now) {
  // What was read of its GPUs stands until note_power() says otherwise.
  const auto known = jobs_.find(job);
  if (known != jobs_.end() && known->second.held.all_milli_gpus() == use.held.all_milli_gpus()) {
    use.held.read_milliwatts = known->second.held.read_milliwatts;
    use.held.read_milli_gpus = known->second.held.read_milli_gpus;
  }
  replace(job, std::move(use), now);
}

void Ledger::replace(const client::Key& job, JobUse use, crds::Time now) {
  const auto known = jobs_.find(job);
  if (known == jobs_.end()) {
    catch_up(use, now);
  } else {
    const JobUse& before = known->second;
    // What still leaves is where it was.
    if (use.pool.empty()) use.pool = before.pool;
    if (use.model.empty()) use.model = before.model;
    if (!before.run_seconds && use.run_seconds) learn_from(use);
    if (!before.first_start && use.first_start) count_start(use);
    if (before.project == use.project && before.user == use.user && before.pool == use.pool &&
        before.model == use.model && before.held == use.held) {
      known->second = std::move(use);
      return;
    }
    Together& together = held_[before.project];
    settle(before.project, together, now);
    if (before.held != Held{} && !is_same_but_for_power(before.held, use.held)) {
      for (Account* account : accounts_of(before.project)) account->note_end();
    }
    const auto part = together.parts.find({before.user, before.pool, before.model});
    if (part != together.parts.end()) {
      part->second.take(before.held);
      if (part->second == Held{}) together.parts.erase(part);
    }
  }
  Together& together = held_[use.project];
  settle(use.project, together, now);
  if (use.held != Held{}) together.parts[{use.user, use.pool, use.model}].add(use.held);
  jobs_[job] = std::move(use);
}

void Ledger::forget(const client::Key& job, crds::Time now) {
  if (!jobs_.contains(job)) return;
  update(job, {}, now);
  jobs_.erase(job);
}

void Ledger::note_power(const client::Key& job, std::optional<std::int64_t> milliwatts, crds::Time now) {
  const auto known = jobs_.find(job);
  if (known == jobs_.end()) return;
  JobUse use = known->second;
  use.held.read_milliwatts = milliwatts.value_or(0);
  use.held.read_milli_gpus = milliwatts ? use.held.all_milli_gpus() : 0;
  replace(job, std::move(use), now);
}

void Ledger::lose(const client::Key& job, const std::string& project, std::int64_t gpu_seconds,
                  crds::Time now) {
  const auto known = jobs_.find(job);
  const Part part =
      known == jobs_.end() ? Part{} : Part{known->second.user, known->second.pool, known->second.model};
  for (Account* account : accounts_of(project)) account->lose(part, gpu_seconds, now);
}

crds::UsageStatus Ledger::of_project(const std::string& name, crds::Time now) {
  if (const auto together = held_.find(name); together != held_.end()) settle(name, together->second, now);
  Account* account = find(of_projects_, projects_, name);
  return account == nullptr ? crds::UsageStatus{} : account->status(now);
}

crds::UsageStatus Ledger::of_queue(const std::string& name, crds::Time now) {
  settle_all(now);
  Account* account = find(of_queues_, queues_, name);
  return account == nullptr ? crds::UsageStatus{} : account->status(now);
}

std::vector<crds::RunTimes> Ledger::run_times_of(const std::string& project) {
  const Entry* entry = find_entry(of_projects_, projects_, project);
  return entry == nullptr ? std::vector<crds::RunTimes>{} : entry->run_times;
}

std::optional<UsualRunTime> Ledger::usual_run_time(const std::string& project, const std::string& user,
                                                   crds::MilliGpu size) {
  const Entry* entry = find_entry(of_projects_, projects_, project);
  if (entry == nullptr) return std::nullopt;
  return reconcilers::usual_run_time(entry->run_times, user, size);
}

PoolAccount* Ledger::find_pool(const std::string& name) {
  const auto object = pools_.find(name);
  if (!object) {
    of_pools_.erase(name);
    return nullptr;
  }
  const auto known = of_pools_.find(name);
  if (known != of_pools_.end() && known->second.uid == object->meta.uid) return &known->second.account;
  // Restored from a backup, it counts from when the object was made anew.
  crds::NodePoolStatus written = object->value.status;
  const auto made = object->value.metadata.creation_timestamp;
  if (written.usage.until && made) written.usage.until = std::max(*written.usage.until, *made);
  PoolEntry fresh{object->meta.uid, PoolAccount(written)};
  return &of_pools_.insert_or_assign(name, std::move(fresh)).first->second.account;
}

void Ledger::note_capacity(const std::string& pool, const crds::Amounts& capacity, const crds::Amounts& free,
                           crds::Time now) {
  if (PoolAccount* account = find_pool(pool)) account->look(capacity, free, now);
}

crds::CapacityUsage Ledger::of_pool(const std::string& name) {
  PoolAccount* account = find_pool(name);
  return account == nullptr ? crds::CapacityUsage{} : account->status();
}

bool Ledger::project_has_ended(const std::string& name) {
  const Account* account = find(of_projects_, projects_, name);
  return account != nullptr && account->has_ended();
}

bool Ledger::queue_has_ended(const std::string& name) {
  const Account* account = find(of_queues_, queues_, name);
  return account != nullptr && account->has_ended();
}

void Ledger::for_each_project(crds::Time now,
                              const std::function<void(const std::string&, const Used&)>& tell) {
  settle_all(now);
  std::erase_if(of_projects_, [&](const auto& entry) { return projects_.find(entry.first) == nullptr; });
  for (const auto& [name, entry] : of_projects_) tell(name, entry.account.since_start());
}

}  // namespace muster::reconcilers
