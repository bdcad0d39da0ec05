// I1 to I9 for one plan: what was before it, what it decided, and what is now.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <optional>

#include "audit/audit.h"
#include "audit/audit_reason.h"
#include "audit/recount.h"
#include "disruption/surge.h"
#include "node/resource_vector.h"

namespace muster::placement {
namespace {

// What stands on a GPU cannot all be there. `memory`, `overcommit_milli`: of the GPU, of the pool.
bool too_much(const std::vector<GpuUse>& uses, Bytes memory, std::int64_t overcommit_milli) {
  std::int64_t milli = 0, compute = 0, slices = 0, bytes = 0;
  bool by_memory = false, all_opted_in = true;
  for (const GpuUse& u : uses) {
    if (u.whole && uses.size() > 1) return true;
    if ((u.compute > 0) != (uses[0].compute > 0)) return true;
    compute += u.compute, slices += u.slices, bytes += u.memory.value;
    if (!u.by_memory) milli += u.milli;
    by_memory = by_memory || u.by_memory;
    all_opted_in = all_opted_in && u.overcommit;
  }
  if (compute > 7 || slices > 8) return true;
  if (compute > 0 || uses.size() < 2) return false;
  if (!by_memory) return milli > kMilliPerGpu;
  return bytes > memory.value / 1000 * (all_opted_in ? overcommit_milli : 1000) + memory.value % 1000;
}

bool has_minimum(const Request& request, const std::vector<PodPlace>& pods) {
  for (std::size_t r = 0; r < request.roles.size(); ++r) {
    const auto count = std::count_if(
        pods.begin(), pods.end(), [&](const PodPlace& p) { return static_cast<std::size_t>(p.role) == r; });
    if (count < request.roles[r].replicas) return false;
  }
  return true;
}

}  // namespace

class PlanAudit {
 public:
  PlanAudit(const PlanAuditor& watch, const Plan& plan, std::vector<std::string>& broken)
      : w_(watch), s_(watch.s_), plan_(plan), broken_(broken), now_(s_) {}

  void run() {
    for (const Decision& d : plan_.decisions) decided_[d.job] += d.kind == Decision::Kind::kReplace ? 0 : 1;
    for (const Decision& d : plan_.decisions) decision(d);
    std::size_t known = 0;
    for (std::size_t i = 0; i < s_.jobs().all().size(); ++i) {
      if (!s_.jobs().all()[i].known) continue;
      ++known;
      const auto id = static_cast<JobId>(i);
      if (s_.jobs().find(s_.jobs().all()[i].spec.id) != id) say("I8", id, "is not found by its name");
      places(id);
      nomination(id);
      fate(id);
    }
    if (known != s_.jobs().names()) broken_.push_back("I8: there are more names of jobs than jobs");
  }

 private:
  void say(const char* invariant, JobId id, const std::string& what) {
    broken_.push_back(std::string(invariant) + ": " + s_.job(id).spec.id + " " + what);
  }
  const PlanAuditor::Was* was(JobId id) const {
    const auto found = w_.was_.find(id);
    return found == w_.was_.end() ? nullptr : &found->second;
  }

  // --- what was said

  void decision(const Decision& d) {
    using Kind = Decision::Kind;
    const JobId id = s_.jobs().find(d.job);
    if (id == kNoId)
      return broken_.push_back("I8: something is decided about " + d.job + ", which is not known");
    const Job& j = s_.job(id);
    const PlanAuditor::Was* before = was(id);
    const bool ran = before != nullptr && before->ran;
    // Who is taken back for a fault, and has nothing left that must go first, may start again at once.
    const bool faulty = w_.crowded_.contains(id) || (before != nullptr && before->displaced);
    if (decided_[d.job] > 1 && d.kind != Kind::kReplace && !faulty)
      say("I6", id,
          "is decided about " + std::to_string(decided_[d.job]) + " times in one plan: " + kinds(d.job));
    switch (d.kind) {
      case Kind::kStart:
        if (ran && !faulty) say("I6", id, "is started and ran already");
        if (running_pods(j) != d.assignment.pods) say("I2", id, "does not hold what it was started with");
        return whole(id, d.assignment);
      case Kind::kGrow:
      case Kind::kReplace:
        if (!ran) say("I6", id, "is given more, and did not run");
        return;
      case Kind::kShrink:
      case Kind::kMove:
      case Kind::kEvict:
        break;
    }
    if (!ran) say("I6", id, "is stopped by the plan that has started it");
    if (const auto wrong = d.owed || !ran ? std::nullopt : beyond_bound(s_, j, before->life, d.cost))
      say("I9", id, *wrong);
    if (d.kind == Kind::kMove && before != nullptr && d.assignment.pods == before->pods)
      say("I6", id, "is moved to where it stood");
    if (d.kind == Kind::kShrink && before != nullptr && before->whole) whole(id, d.assignment);
    because(d, id);
  }

  static std::vector<PodPlace> running_pods(const Job& j) {
    std::vector<PodPlace> pods;
    for (std::size_t i = 0; i < j.allocations.size(); ++i) {
      if (j.allocations[i].hold == Hold::kRunning) pods.push_back(j.assignment->pods[i]);
    }
    return pods;
  }

  std::string kinds(const std::string& job) const {
    static constexpr std::array<const char*, 6> kNames = {"started", "replaced", "enlarged",
                                                          "shrunk",  "moved",    "evicted"};
    std::string text;
    for (const Decision& d : plan_.decisions) {
      if (d.job == job)
        text += (text.empty() ? "" : ", ") + std::string(kNames[static_cast<std::size_t>(d.kind)]);
    }
    return text;
  }

  // Also by way of one for whom it went and who had to give way in turn.
  bool taken_for(JobId victim, JobId whom) const {
    std::set<JobId> seen;
    std::vector<JobId> open = {victim};
    while (!open.empty()) {
      const JobId at = open.back();
      open.pop_back();
      if (!seen.insert(at).second) continue;
      for (auto it = w_.taken_.lower_bound({at, kFirstId<JobId>}); it != w_.taken_.end() && it->first == at;
           ++it) {
        if (it->second == whom) return true;
        open.push_back(it->second);
      }
    }
    return false;
  }

  void whole(JobId id, const Assignment& a) {
    if (!has_minimum(s_.request_of(s_.job(id)), a.pods)) say("I2", id, "has less than its minimum");
  }

  // Why it goes is true, and what it frees is for somebody.
  void because(const Decision& d, JobId id) {
    const PlanAuditor::Was* before = was(id);
    const Job& j = s_.job(id);
    const auto path = way_up(s_.tree(), j.leaf);
    switch (d.reason) {
      case EvictReason::kNone:
        return say("I4", id, "is stopped without a reason");
      case EvictReason::kNodeFailed:
        if (before == nullptr || !before->displaced)
          say("I4", id, "is stopped for a node, and has lost none");
        return;
      case EvictReason::kDrained:
        if (std::none_of(path.begin(), path.end(),
                         [&](QueueId at) { return s_.tree().queue(at).spec.drain; }))
          say("I4", id, "is stopped for a queue that is not drained");
        return batch(id);
      case EvictReason::kPlacesLost:
        if (!w_.crowded_.contains(id) && (before == nullptr || !before->displaced))
          say("I4", id, "is stopped for a GPU that nobody else has, and no node refused it");
        return;
      case EvictReason::kReclaimed:
      case EvictReason::kPreempted:
      case EvictReason::kConsolidated:
        break;
    }
    const JobId for_whom = s_.jobs().find(d.beneficiary);
    if (for_whom == kNoId) return say("I5", id, "is stopped for nobody");
    if (!taken_for(id, for_whom))
      say("I4", id, "is stopped for " + d.beneficiary + ", which did not take it");
    if (!s_.job(for_whom).assignment)
      say("I5", id, "is stopped for " + d.beneficiary + ", which has no place");
  }

  // --- what is held

  // Pods that have their place since this plan, or may use it since.
  void places(JobId id) {
    const Job& j = s_.job(id);
    if (!j.assignment) return;
    const PlanAuditor::Was* before = was(id);
    Resources started, nominated;
    for (std::size_t i = 0; i < j.allocations.size(); ++i) {
      const Allocation& c = j.allocations[i];
      if (c.node == kNoId) continue;
      const bool runs = c.hold == Hold::kRunning;
      bool was_nominated = false;
      if (before != nullptr) {
        const auto same = std::find(before->pods.begin(), before->pods.end(), j.assignment->pods[i]);
        const auto at = static_cast<std::size_t>(same - before->pods.begin());
        was_nominated = before->nominated_pods.contains(at);
        if (same != before->pods.end() && runs != was_nominated) continue;
      }
      (runs ? started : nominated) += c.amounts;
      on_node(id, c, was_nominated);
    }
    const bool replaced =
        before != nullptr && (before->displaced || before->moving);  // within bounds when it came
    if (started.pods + nominated.pods > 0 && !replaced) within_bounds(id, started, started + nominated);
  }

  // `was_nominated`: it had the place before this plan. Somebody may have come there since, by an assignment
  // that the caller told, so that there is no room any more for all who are nominated there. Who can start
  // first has it, and the nominations of the others end when they cannot.
  void on_node(JobId id, const Allocation& c, bool was_nominated) {
    const Node& n = s_.node(c.node);
    const PoolSpec& pool = s_.pool(c.pool).spec;
    if (!n.takes_part() || n.pool != c.pool)
      return say("I1", id, "was put on node " + n.spec.name + ", which is not usable in pool " + pool.name);
    const Tally held = now_.on(c.node);
    for (const View view : {View::kTarget, View::kForNominated}) {
      if (view == View::kForNominated && c.hold == Hold::kNominated)
        continue;  // others may have to leave first
      if (view == View::kTarget && c.hold == Hold::kRunning && was_nominated) continue;
      const Resources used = view == View::kTarget ? held.target() : held.now();
      const Resources& has = n.spec.allocatable;
      const bool beyond = std::any_of(kAllKinds.begin(), kAllKinds.end(), [&](ResourceKind kind) {
        const bool are_gpus = kind == ResourceKind::kGpu || s_.tree().accounted().is_model(kind);
        return !are_gpus && amount_of(c.amounts, kind) > 0 && amount_of(used, kind) > amount_of(has, kind);
      });
      if (beyond) say("I1", id, "was put on node " + n.spec.name + " beyond what it has");
      for (const std::int32_t gpu : c.gpus) {
        const bool sick =
            std::find(n.spec.unhealthy.begin(), n.spec.unhealthy.end(), gpu) != n.spec.unhealthy.end();
        if (sick || gpu >= n.spec.gpus ||
            too_much(now_.uses(c.node, gpu, view), n.spec.gpu_memory, pool.memory_overcommit_milli))
          say("I1", id,
              "was given GPU " + std::to_string(gpu) + " of node " + n.spec.name + ", which cannot be");
      }
    }
    if (c.unnamed > 0) say("I1", id, "was started without saying on which GPUs");
    if (c.cut >= 0 &&
        n.cut[static_cast<std::size_t>(c.cut)].used > n.cut[static_cast<std::size_t>(c.cut)].count)
      say("I1", id, "was given MIG slices of node " + n.spec.name + " that are taken");
  }

  void within_bounds(JobId id, const Resources& started, const Resources& all) {
    const Job& j = s_.job(id);
    const PoolId pool = s_.find_pool(j.assignment->pool);
    const auto path = way_up(s_.tree(), j.leaf);
    if (path.empty()) return say("I3", id, "was placed without a Project");
    for (const QueueId at : path) {
      const Share& share = s_.tree().share(at, pool);
      const Tally held = now_.of(at, pool);
      for (const ResourceKind kind : s_.tree().accounted()) {
        if (amount_of(all, kind) <= 0) continue;
        const auto limit = bound_of(share.limit, kind);
        const bool over_now = limit && amount_of(started, kind) > 0 && amount_of(held.now(), kind) > *limit;
        if (over_now || (limit && amount_of(held.target(), kind) > *limit))
          say("I3", id,
              "was placed beyond the limit of " + s_.tree().queue(at).spec.name + " in " +
                  s_.resource_names.name_of(kind));
        if (is_surging(j)) continue;  // for a while it holds both places, and its quota is not asked
        const auto quota = quota_of(share.quota, kind);
        if (!j.spec.preemptible && quota && amount_of(held.non_preemptible, kind) > *quota &&
            !may_be_lent_to(s_.tree(), at, j.spec))
          say("I3", id,
              "was placed beyond the quota of " + s_.tree().queue(at).spec.name + " in " +
                  s_.resource_names.name_of(kind));
      }
    }
  }

  // I5: who was nominated places before has them, has started, has lost them to a better right or with a
  // node.
  void nomination(JobId id) {
    const Job& j = s_.job(id);
    const PlanAuditor::Was* before = was(id);
    if (before == nullptr || !before->nominated) return;
    if (j.assignment && (j.runs() || j.assignment->pods == before->pods)) return;
    const bool taken =
        std::any_of(w_.taken_.begin(), w_.taken_.end(), [&](const auto& t) { return t.first == id; });
    const bool gone = std::any_of(before->pods.begin(), before->pods.end(), [&](const PodPlace& p) {
      const NodeId node = s_.nodes().find(p.node);
      if (node == kNoId || !s_.node(node).takes_part()) return true;
      const Node& n = s_.node(node);
      if (before->pool != n.pool) return true;
      return std::any_of(p.gpus.begin(), p.gpus.end(),
                         [&](std::int32_t gpu) {
                           return gpu < 0 || gpu >= n.spec.gpus ||
                                  std::find(n.spec.unhealthy.begin(), n.spec.unhealthy.end(), gpu) !=
                                      n.spec.unhealthy.end();
                         }) ||
             p.gpus.size() < static_cast<std::size_t>(before->gpus[static_cast<std::size_t>(p.role)]);
    });
    if (!taken && !gone && !before->stuck) say("I5", id, "has lost the places that it was promised");
  }

  // RULES.md 3.6: those who are told in one plan are one batch at most, or one job.
  void batch(JobId id) {
    const Job& j = s_.job(id);
    if (!j.evicted_from) return;
    const PoolId pool = s_.find_pool(j.evicted_from->pool);
    const MilliGpu own = leaves(j, pool);
    if (pool == kNoId || own.value == 0) return;
    for (const QueueId at : way_up(s_.tree(), j.leaf)) {
      const QueueSpec& q = s_.tree().queue(at).spec;
      if (!q.drain || !q.drain_batch) continue;
      MilliGpu told;
      for (const Decision& d : plan_.decisions) {
        if (d.reason != EvictReason::kDrained) continue;
        const Job& other = s_.job(s_.jobs().find(d.job));
        const auto path = way_up(s_.tree(), other.leaf);
        if (std::find(path.begin(), path.end(), at) != path.end()) told += leaves(other, pool);
      }
      if (told > own && told > *q.drain_batch)
        say("I4", id, "is drained beside more than " + q.name + " lets go at a time");
    }
  }
  static MilliGpu leaves(const Job& j, PoolId pool) {
    MilliGpu gpus;
    for (const Leaving& l : j.leaving) {
      if (l.allocation.pool == pool) gpus += l.allocation.amounts.gpu;
    }
    return gpus;
  }

  // --- what became of each

  void fate(JobId id) {
    const Job& j = s_.job(id);
    if (!j.displaced.empty()) say("I8", id, "has lost pods, and nothing was decided");
    if (j.runs() && stays_for_nobody(id)) say("I8", id, "is to be drained, and waits for nobody to leave");
    if (j.assignment && !j.nominated_pods.empty() && !waits_for_somebody(id))
      say("I8", id, "was promised places, and waits for nobody to leave them");
    for (const Leaving& l : j.leaving) {
      const auto has = [&](const std::vector<PodPlace>& list) {
        return std::find(list.begin(), list.end(), l.place) != list.end();
      };
      const PlanAuditor::Was* before = was(id);
      if (before == nullptr || (!has(before->leaving) && !has(before->pods)))
        say("I8", id, "waits for a pod on node " + l.place.node + " to leave that was never there");
    }
    if (j.assignment || !j.leaving.empty()) {
      if (j.waits) say("I8", id, "holds something and waits for all the same");
      if (j.runs() && j.assignment->pods.empty()) say("I8", id, "runs without a pod");
    } else if (!j.waits) {
      say("I8", id, "neither runs nor waits");
    }
    // Who has not had a turn keeps the reason that it had.
    if ((j.waits && !plan_.is_cut_off && plan_.thrown.empty()) || j.nominated())
      audit_reason(s_, now_, id, broken_);
  }

  // Below a drained Queue it waits only for those of a batch.
  bool stays_for_nobody(JobId id) const {
    const Job& j = s_.job(id);
    const PoolId pool = s_.find_pool(j.assignment->pool);
    if (pool == kNoId || !s_.pool(pool).known) return false;
    bool is_drained = false, waits = false;
    for (const QueueId at : way_up(s_.tree(), j.leaf)) {
      const QueueSpec& q = s_.tree().queue(at).spec;
      is_drained = is_drained || q.drain;
      waits = waits || (q.drain && q.drain_batch && now_.of(at, pool).anybody_leaves);
    }
    return is_drained && !waits;
  }

  bool waits_for_somebody(JobId id) const {
    const Job& j = s_.job(id);
    if (!j.leaving.empty()) return true;
    const PoolId pool = s_.find_pool(j.assignment->pool);
    for (const std::size_t i : j.nominated_pods) {
      if (now_.on(j.allocations[i].node).anybody_leaves) return true;
    }
    const auto path = way_up(s_.tree(), j.leaf);
    return std::any_of(path.begin(), path.end(),
                       [&](QueueId at) { return now_.of(at, pool).anybody_leaves; });
  }

  const PlanAuditor& w_;
  const ClusterModel& s_;
  const Plan& plan_;
  std::vector<std::string>& broken_;
  Recount now_;
  std::map<std::string, int> decided_;
};

PlanAuditor::PlanAuditor(ClusterModel& s, Time now) : s_(s), now_(now) {
  s_.observer = this;
  for (std::size_t i = 0; i < s.jobs().all().size(); ++i) {
    const Job& j = s.jobs().all()[i];
    if (!j.known || (!j.assignment && j.leaving.empty())) continue;
    Was& w = was_[static_cast<JobId>(i)];
    for (const Leaving& l : j.leaving) w.leaving.push_back(l.place);
    if (!j.assignment) continue;
    w.pods = j.assignment->pods;
    w.pool = s.find_pool(j.assignment->pool);
    w.nominated_pods.insert(j.nominated_pods.begin(), j.nominated_pods.end());
    w.displaced = !j.displaced.empty();
    w.moving = j.moving;
    w.whole = has_minimum(s.request_of(j), j.assignment->pods);
    w.ran = j.runs();
    w.life = life_so_far(j, now);
    w.nominated = j.nominated();
    w.stuck = w.nominated && in_the_way_for_good(j);
    for (const RoleSpec& role : s.request_of(j).roles) w.gpus.push_back(role.gpus);
  }
  for (const auto& [node, gpu] : s.nodes().crowded()) {
    for (const JobId id : s.by_admission(node, gpu)) crowded_.insert(id);
  }
}

// Somebody has come to the nominated places, or under the limits, who need not leave.
bool PlanAuditor::in_the_way_for_good(const Job& j) const {
  const Recount counted(s_);
  Resources amounts;
  for (const Allocation& c : j.allocations) {
    amounts += c.amounts;
    const Node& n = s_.node(c.node);
    Resources used = counted.on(c.node).target();
    if (n.model_place >= 0) used.named[static_cast<std::size_t>(n.model_place)] = 0;
    const Resources& has = n.spec.allocatable;
    if (!fits_beside_gpus(used, has)) return true;
    if (!c.gpus.empty() && counted.idle_gpus(c.node) < 0) return true;
    const PoolSpec& pool = s_.pool(c.pool).spec;
    for (const std::int32_t gpu : c.gpus) {
      const auto uses = counted.uses(c.node, gpu, View::kTarget);
      if (too_much(uses, n.spec.gpu_memory, pool.memory_overcommit_milli)) return true;
      if (pool.sharing.max_clients > 0 && std::ssize(uses) > pool.sharing.max_clients) return true;
    }
  }
  const auto path = way_up(s_.tree(), j.leaf);
  const PoolId pool = s_.find_pool(j.assignment->pool);
  if (path.empty()) return true;
  return std::any_of(path.begin(), path.end(), [&](QueueId at) {
    if (s_.tree().queue(at).spec.hold) return true;
    return std::ranges::any_of(s_.tree().accounted(), [&](ResourceKind kind) {
      const auto limit = bound_of(s_.tree().share(at, pool).limit, kind);
      const auto quota = quota_of(s_.tree().share(at, pool).quota, kind);
      const Tally held = counted.of(at, pool);
      return amount_of(amounts, kind) > 0 &&
             ((limit && amount_of(held.target(), kind) > *limit) ||
              (!j.spec.preemptible && quota && amount_of(held.non_preemptible, kind) > *quota &&
               !may_be_lent_to(s_.tree(), at, j.spec)));
    });
  });
}

PlanAuditor::~PlanAuditor() {
  s_.observer = nullptr;
}

std::vector<std::string> PlanAuditor::after(const Plan& plan) {
  PlanAudit(*this, plan, broken_).run();
  return std::move(broken_);
}

void require_sound(const std::vector<std::string>& broken) {
  if (broken.empty()) return;
  for (const std::string& sentence : broken) std::fprintf(stderr, "placement: %s\n", sentence.c_str());
  std::abort();
}

}  // namespace muster::placement
