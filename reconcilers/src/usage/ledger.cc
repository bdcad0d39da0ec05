#include "muster/reconcilers/usage/ledger.h"

#include <algorithm>

namespace muster::reconcilers {
namespace {

// The tree of Queues may be wrong for a while and have a circle in it.
constexpr std::size_t kMostLevels = 64;

}  // namespace

template <class Kind>
Account* Ledger::find(std::map<std::string, Entry>& accounts, const ObjectStore<Kind>& store,
                      const std::string& name) {
  const auto object = store.find(name);
  if (!object) {
    accounts.erase(name);
    return nullptr;
  }
  const auto known = accounts.find(name);
  if (known != accounts.end() && known->second.uid == object->meta.uid) return &known->second.account;
  Entry fresh{object->meta.uid, Account(object->value.status.usage)};
  return &accounts.insert_or_assign(name, std::move(fresh)).first->second.account;
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
        account->count(part.user, part.pool, held, together.counted_until, now);
    }
  }
  together.counted_until = now;
}

void Ledger::settle_all(crds::Time now) {
  for (auto& [project, together] : held_) settle(project, together, now);
}

void Ledger::catch_up(const JobUse& use, crds::Time now) {
  if (use.project.empty()) return;
  if (use.end && use.whole) {
    for (Account* account : accounts_of(use.project))
      account->count(use.user, use.pool, use.until_end,
                     std::max(*use.whole, account->counted_until().value_or(*use.whole)), *use.end);
  }
  if (!use.begin) return;
  // All but what leaves: the same amounts, first while it starts and then while it runs.
  Held now_held = use.held;
  const std::int64_t assigned =
      now_held.gpus(Doing::kStarting) + now_held.gpus(Doing::kRunning) + now_held.gpus(Doing::kIdle);
  now_held.milli_gpus = {};
  Held starting = now_held, whole = now_held;
  starting.gpus(Doing::kStarting) = whole.gpus(Doing::kRunning) = assigned;
  for (Account* account : accounts_of(use.project)) {
    const auto begin = std::max(*use.begin, account->counted_until().value_or(*use.begin));
    const auto is_whole = std::clamp(use.whole.value_or(now), std::min(begin, now), now);
    account->count(use.user, use.pool, starting, begin, is_whole);
    account->count(use.user, use.pool, whole, is_whole, now);
  }
}

void Ledger::update(const client::Key& job, JobUse use, crds::Time now) {
  const auto known = jobs_.find(job);
  if (known == jobs_.end()) {
    catch_up(use, now);
  } else {
    const JobUse& before = known->second;
    if (before.project == use.project && before.user == use.user && before.pool == use.pool &&
        before.held == use.held)
      return;
    Together& together = held_[before.project];
    settle(before.project, together, now);
    if (before.held != Held{}) {
      for (Account* account : accounts_of(before.project)) account->note_end();
    }
    const auto part = together.parts.find({before.user, before.pool});
    if (part != together.parts.end()) {
      part->second.take(before.held);
      if (part->second == Held{}) together.parts.erase(part);
    }
  }
  Together& together = held_[use.project];
  settle(use.project, together, now);
  if (use.held != Held{}) together.parts[{use.user, use.pool}].add(use.held);
  jobs_[job] = std::move(use);
}

void Ledger::forget(const client::Key& job, crds::Time now) {
  if (!jobs_.contains(job)) return;
  update(job, {}, now);
  jobs_.erase(job);
}

void Ledger::lose(const std::string& project, std::int64_t gpu_seconds, crds::Time now) {
  for (Account* account : accounts_of(project)) account->lose(gpu_seconds, now);
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
