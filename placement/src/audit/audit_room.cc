// I4: a job that is evicted, shrunk or moved for another one is a legal victim by RULES.md 5 at that moment.
// This is counted from allocations, limits and quotas, not by the code that searches for victims.
#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "audit/audit.h"
#include "audit/audit_disruption.h"
#include "audit/recount.h"
#include "disruption/surge.h"
#include "node/resource_vector.h"

namespace muster::placement {
namespace {

// As a number: what is not accounted, or not bounded, is kUnbounded.
std::int64_t quota_in(const Share& share, ResourceKind kind) {
  return quota_of(share.quota, kind).value_or(kUnbounded);
}

// What of a victim goes at once: a replica (or group) of the surplus, or the minimum whole.
struct Piece {
  JobId job = kNoId;
  QueueId leaf = kNoId;
  bool own = false, moved = false, surplus = false;
  int after = -1;  // the piece of the same job that goes before it
  int followed_by = -1;
  std::vector<Allocation> allocations;
  Resources amounts;
  // Of the first piece of a job that moves: what all of it is charged elsewhere. A share of a GPU's memory is
  // another part of another GPU.
  Resources elsewhere;
};

class SolutionAudit {
 public:
  SolutionAudit(const ClusterModel& s, Time now, const SolutionQuery& q, const Statement& st,
                const Solution& solution, std::vector<std::string>& broken)
      : s_(s), now_(now), c_(q.claimant), st_(st), solution_(solution), broken_(broken), before_(s) {
    for (const Victim& v : solution_.victims) {
      for (const std::size_t pod : v.pods) before_.add(st_.allocation_before(v.job, pod));
    }
  }

  void run() {
    for (const Victim& v : solution_.victims) {
      may_be_one(v);
      cut(v);
    }
    Gone all;
    for (std::size_t i = 0; i < pieces_.size(); ++i) all.push_back(i);
    if (!within_bounds(all)) say("I3", "finds room beyond a limit or quota");
    if (!by_some_right(all))
      say("I4", "has no right to take " + names() +
                    ": the leaves that give are not over, "
                    "or it would be itself");
    if (!simple()) return;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      if (pieces_[i].followed_by >= 0) continue;
      Gone rest = all;
      std::erase(rest, i);
      if (within_bounds(rest) && by_some_right(rest) && is_as_due(rest) && fits(rest))
        say("I4", "would find room without " + s_.job(pieces_[i].job).spec.id + ", of " + names());
    }
  }

 private:
  using Gone = std::vector<std::size_t>;  // indexes into the pieces

  void say(const char* invariant, const std::string& what) {
    broken_.push_back(std::string(invariant) + ": " + s_.job(c_.job).spec.id + " " + what);
  }
  std::string names() const {
    std::string text;
    for (const Victim& v : solution_.victims) {
      text += (text.empty() ? "" : ", ") + s_.job(v.job).spec.id + " (" + std::to_string(v.pods.size()) +
              " of " + std::to_string(s_.job(v.job).assignment->pods.size()) +
              (v.moved_to.empty() ? " pods, " : " pods moved, ") + std::string(to_string(v.reason)) + ")";
    }
    return text;
  }

  // --- each for itself

  void may_be_one(const Victim& v) {
    const Job& j = s_.job(v.job);
    const bool own = j.leaf == c_.path.front();
    const std::string who = j.spec.id;
    if (v.job == c_.job) say("I4", "takes from itself");
    if (v.surges && (v.reason != EvictReason::kConsolidated || !may_surge(j)))
      say("I4", "moves " + who + " without being missed, which it may not");
    if (!j.spec.preemptible && !v.surges) say("I4", "takes " + who + ", which is not preemptible");
    if (v.reason == EvictReason::kConsolidated) {
      if (v.moved_to.empty()) say("I4", "consolidates " + who + " to nowhere");
      if (j.spec.interactive) say("I4", "moves " + who + ", which is interactive");
    } else if (own != (v.reason == EvictReason::kPreempted)) {
      say("I4", "takes " + who + " as " + std::string(to_string(v.reason)) + (own ? " from" : " not from") +
                    " its own leaf");
    } else if (own && j.spec.priority > s_.job(c_.job).spec.priority) {
      say("I4", "takes from " + who + ", which has a higher priority");
    } else if (own && j.spec.priority == s_.job(c_.job).spec.priority) {
      must_be_surplus_for_minimum(v);
    }
    const bool started_now = j.started_in != 0 && j.started_in == s_.plans;
    if (started_now && j.entitled && !own && takes_all(j, v.pods))
      say("I4", "takes " + who + ", which this plan has started within the quota of its leaf");
    if (!started_now && !j.nominated() && j.assignment->since + safe_for(j, !own) > now_)
      say("I4", "takes " + who + ", which is younger than minRuntime");
    if (!takes_all(j, v.pods) && !keeps_minimum(j, v.pods)) say("I4", "breaks " + who + " below its minimum");
  }

  // What a job of the same priority gives.
  void must_be_surplus_for_minimum(const Victim& v) {
    const Job& j = s_.job(v.job);
    if (takes_all(j, v.pods)) say("I4", "preempts " + j.spec.id + ", which has no lower priority");
    if (s_.job(c_.job).assignment)
      say("I4", "grows by surplus of " + j.spec.id + ", which has no lower priority");
    peers_.insert(v.job);
  }

  // Pods of roles that an edit has removed hold nothing.
  static bool takes_all(const Job& j, const std::vector<std::size_t>& taken) {
    for (std::size_t i = 0; i < j.allocations.size(); ++i) {
      if (j.allocations[i].node != kNoId && !std::binary_search(taken.begin(), taken.end(), i)) return false;
    }
    return true;
  }
  // A gang whose roles were edited while it ran may have fewer pods of one than that asks for.
  bool keeps_minimum(const Job& j, const std::vector<std::size_t>& taken) const {
    const auto& roles = s_.request_of(j).roles;
    for (std::size_t r = 0; r < roles.size(); ++r) {
      std::int32_t had = 0, lost = 0;
      for (std::size_t i = 0; i < j.assignment->pods.size(); ++i) {
        if (static_cast<std::size_t>(j.assignment->pods[i].role) != r) continue;
        ++had;
        if (std::binary_search(taken.begin(), taken.end(), i)) ++lost;
      }
      if (lost > 0 && had >= roles[r].replicas && had - lost < roles[r].replicas) return false;
    }
    return true;
  }

  Duration safe_for(const Job& j, bool reclaim) const {
    for (const QueueId at : way_up(s_.tree(), j.leaf)) {
      const QueueSpec& spec = s_.tree().queue(at).spec;
      if (const auto& d = reclaim ? spec.reclaim_min_runtime : spec.preempt_min_runtime) return *d;
    }
    return {};
  }

  // GPUs alone: CPUs and memory cost the same everywhere.
  Resources charged_at(const Job& j, const std::vector<PodPlace>& places) const {
    Resources sum;
    for (const PodPlace& p : places) {
      const NodeId node = s_.nodes().find(p.node);
      const RoleSpec& role = s_.request_of(j).roles[static_cast<std::size_t>(p.role)];
      if (node != kNoId) sum.gpu += charge_on(s_.node(node).spec, role);
    }
    return sum;
  }

  // Surplus goes, first what is nominated, from the highest index, as many at once as belong together; then
  // the rest.
  void cut(const Victim& v) {
    const Job& j = s_.job(v.job);
    const Request& request = s_.request_of(j);
    const bool whole = takes_all(j, v.pods);
    std::vector<std::size_t> rest = v.pods;
    int after = -1;
    const auto push = [&](const std::vector<std::size_t>& pods, bool surplus) {
      Piece p{v.job, j.leaf, j.leaf == c_.path.front(), !v.moved_to.empty(), surplus, after, -1, {}, {}, {}};
      if (after < 0) p.elsewhere = charged_at(j, v.moved_to);
      for (const std::size_t pod : pods) {
        p.allocations.push_back(st_.allocation_before(v.job, pod));
        p.amounts += p.allocations.back().amounts;
      }
      if (after >= 0) pieces_[static_cast<std::size_t>(after)].followed_by = static_cast<int>(pieces_.size());
      after = static_cast<int>(pieces_.size());
      pieces_.push_back(std::move(p));
    };
    const bool in_pieces = request.elastic && v.reason != EvictReason::kConsolidated;
    const std::size_t step =
        request.groups.empty() ? 1 : static_cast<std::size_t>(request.groups.front().size);
    for (std::size_t r = request.roles.size(); r-- > 0 && in_pieces;) {
      // What an edit has left it of a role of fixed size beyond that is no surplus: it goes with the rest.
      if (request.roles[r].most() == request.roles[r].replicas) continue;
      std::vector<std::size_t> pods;
      for (const std::size_t i : rest) {
        if (static_cast<std::size_t>(j.assignment->pods[i].role) == r) pods.push_back(i);
      }
      const auto there = [&](std::size_t i) {
        return st_.allocation_before(v.job, i).hold != Hold::kNominated;
      };
      std::sort(pods.begin(), pods.end(), [&](std::size_t a, std::size_t b) {
        return std::pair(there(a), -j.assignment->pods[a].index) <
               std::pair(there(b), -j.assignment->pods[b].index);
      });
      const std::size_t least = whole ? static_cast<std::size_t>(request.roles[r].replicas) : 0;
      for (std::size_t at = 0; at + step + least <= pods.size(); at += step) {
        push({pods.begin() + static_cast<std::ptrdiff_t>(at),
              pods.begin() + static_cast<std::ptrdiff_t>(at + step)},
             true);
        for (std::size_t k = at; k < at + step; ++k) std::erase(rest, pods[k]);
      }
    }
    if (!rest.empty()) push(rest, false);
  }

  // --- all together

  std::int64_t held(QueueId at, ResourceKind kind) const {
    return amount_of(before_.of(at, c_.pool).target(), kind);
  }
  // Without these pieces; those that are moved count as gone until they have been moved, as the right is
  // judged before.
  std::int64_t held_without(QueueId at, ResourceKind kind, const Gone& gone, bool moved_too) const {
    std::int64_t sum = held(at, kind);
    for (const std::size_t i : gone) {
      const Piece& p = pieces_[i];
      if (!below(p.leaf, at)) continue;
      const bool stays = p.moved && !moved_too;
      if (stays && kind != ResourceKind::kGpu) continue;
      sum -= amount_of(p.amounts, kind) - (stays ? amount_of(p.elsewhere, kind) : 0);
    }
    return sum;
  }
  bool below(QueueId leaf, QueueId at) const {
    const auto path = way_up(s_.tree(), leaf);
    return std::find(path.begin(), path.end(), at) != path.end();
  }

  bool within_bounds(const Gone& gone) const {
    for (const QueueId at : c_.path) {
      const Share& share = s_.tree().share(at, c_.pool);
      for (const ResourceKind kind : s_.tree().accounted()) {
        const std::int64_t asked = amount_of(c_.asked, kind);
        if (asked <= 0) continue;
        const std::int64_t limit = bound_of(share.limit, kind).value_or(kUnbounded);
        if (limit != kUnbounded && held_without(at, kind, gone, false) + asked > limit) return false;
        if (s_.job(c_.job).spec.preemptible) continue;
        const std::int64_t quota = quota_in(share, kind);
        if (quota != kUnbounded && amount_of(before_.of(at, c_.pool).non_preemptible, kind) + asked > quota &&
            !may_be_lent_to(s_.tree(), at, s_.job(c_.job).spec))
          return false;
      }
    }
    return true;
  }

  bool by_some_right(const Gone& gone) const {
    const bool moves_only =
        std::all_of(solution_.victims.begin(), solution_.victims.end(),
                    [](const Victim& v) { return v.reason == EvictReason::kConsolidated; });
    if (moves_only) return true;
    const bool own = std::any_of(gone.begin(), gone.end(), [&](std::size_t i) { return pieces_[i].own; });
    const bool others = std::any_of(gone.begin(), gone.end(), [&](std::size_t i) { return !pieces_[i].own; });
    if (own && !no_further_beyond(gone)) return false;
    const bool peers =
        std::any_of(gone.begin(), gone.end(), [&](std::size_t i) { return peers_.contains(pieces_[i].job); });
    if (peers && !is_guaranteed(gone)) return false;
    return !others || reclaims(gone, Eligibility::kByQuota) || reclaims(gone, Eligibility::kByFairShare);
  }

  // The minimums of its Project, with its own, stay within the guarantee.
  bool is_guaranteed(const Gone& gone) const {
    const QueueId leaf = c_.path.front();
    return std::ranges::all_of(s_.tree().accounted(), [&](ResourceKind kind) {
      const std::int64_t asked = amount_of(c_.asked, kind);
      const std::int64_t quota = quota_in(s_.tree().share(leaf, c_.pool), kind);
      if (asked <= 0 || quota == kUnbounded) return true;
      std::int64_t sum = held(leaf, kind) - surplus(kind) + asked;
      for (const std::size_t i : gone) {
        if (pieces_[i].own && !pieces_[i].surplus) sum -= amount_of(pieces_[i].amounts, kind);
      }
      return sum <= std::min(quota, fair(leaf, kind));
    });
  }

  // What the preemptible jobs of the claimant's Project had beyond their minimums.
  std::int64_t surplus(ResourceKind kind) const {
    std::int64_t sum = 0;
    for (std::size_t id = 0; id < s_.jobs().all().size(); ++id) {
      const Job& j = s_.jobs().all()[id];
      if (j.leaf != c_.path.front() || !j.assignment || !j.spec.preemptible) continue;
      const auto& roles = s_.request_of(j).roles;
      const Victim* const victim = victim_of(static_cast<JobId>(id));
      std::vector<std::int32_t> pods(roles.size());
      for (std::size_t i = 0; i < j.allocations.size(); ++i) {
        const bool taken =
            victim != nullptr && std::binary_search(victim->pods.begin(), victim->pods.end(), i);
        const Allocation c = taken ? st_.allocation_before(static_cast<JobId>(id), i) : j.allocations[i];
        const auto r = static_cast<std::size_t>(j.assignment->pods[i].role);
        if (c.node == kNoId || c.pool != c_.pool || r >= roles.size()) continue;
        if (++pods[r] > roles[r].replicas && roles[r].most() > roles[r].replicas)
          sum += amount_of(c.amounts, kind);
      }
    }
    return sum;
  }
  const Victim* victim_of(JobId id) const {
    const auto& list = solution_.victims;
    const auto found = std::find_if(list.begin(), list.end(), [&](const Victim& v) { return v.job == id; });
    return found == list.end() ? nullptr : &*found;
  }

  // Who has to go at once for a quota may have to wait for a fair share.
  bool is_as_due(const Gone& gone) const {
    const bool owed = std::any_of(solution_.victims.begin(), solution_.victims.end(), [](const Victim& v) {
      return v.owed && v.reason == EvictReason::kReclaimed;
    });
    if (!owed || std::all_of(gone.begin(), gone.end(), [&](std::size_t i) { return pieces_[i].own; }))
      return true;
    return fair_share_is_due(s_, s_.job(c_.job), is_guaranteed_from(gone), now_) ||
           reclaims(gone, Eligibility::kByQuota);
  }
  // Below what it has in common with those who go for it, the claimant stays within its guarantee.
  bool is_guaranteed_from(const Gone& gone) const {
    return std::ranges::all_of(gone, [&](std::size_t i) {
      const auto theirs = way_up(s_.tree(), pieces_[i].leaf);
      return std::ranges::all_of(c_.path, [&](QueueId at) {
        return std::ranges::find(theirs, at) != theirs.end() ||
               std::ranges::all_of(s_.tree().accounted(), [&](ResourceKind kind) {
                 const std::int64_t asked = amount_of(c_.asked, kind);
                 const std::int64_t quota = quota_in(s_.tree().share(at, c_.pool), kind);
                 return asked <= 0 || quota == kUnbounded ||
                        held_without(at, kind, gone, true) + asked <= std::min(quota, fair(at, kind));
               });
      });
    });
  }

  std::int64_t fair(QueueId at, ResourceKind kind) const {
    return amount_of((*c_.fair)[static_cast<std::size_t>(at)], kind);
  }

  // Who preempts in its own leaf is not beyond the larger of its fair share and what it had.
  bool no_further_beyond(const Gone& gone) const {
    for (const QueueId at : c_.path) {
      for (const ResourceKind kind : s_.tree().accounted()) {
        const std::int64_t asked = amount_of(c_.asked, kind);
        if (asked > 0 &&
            held_without(at, kind, gone, true) + asked > std::max(fair(at, kind), held(at, kind)))
          return false;
      }
    }
    return true;
  }

  // An ancestor may have as much as it had: what is exchanged inside it needs no room there.
  bool reclaims(const Gone& gone, Eligibility eligibility) const {
    for (const QueueId at : c_.path) {
      const Share& share = s_.tree().share(at, c_.pool);
      for (const ResourceKind kind : s_.tree().accounted()) {
        const std::int64_t asked = amount_of(c_.asked, kind), quota = quota_in(share, kind);
        if (asked <= 0 || quota == kUnbounded) continue;
        std::int64_t most = fair(at, kind);
        if (eligibility == Eligibility::kByQuota) most = std::min(most, quota);
        if (at != c_.path.front()) most = std::max(most, held(at, kind));
        if (held_without(at, kind, gone, true) + asked > most) return false;
      }
    }
    return in_some_order(gone, eligibility);
  }

  // Each goes while its leaf, and all above it below the common ancestor, is over. The larger ones had best
  // go last.
  bool in_some_order(Gone rest, Eligibility eligibility) const {
    std::sort(rest.begin(), rest.end(), [&](std::size_t a, std::size_t b) {
      const Resources& x = pieces_[a].amounts;
      const Resources& y = pieces_[b].amounts;
      return std::tie(x.gpu, x.cpu, x.memory, x.named, a) < std::tie(y.gpu, y.cpu, y.memory, y.named, b);
    });
    Gone gone;
    while (!rest.empty()) {
      const auto next = std::find_if(rest.begin(), rest.end(), [&](std::size_t i) {
        const int after = pieces_[i].after;
        const bool turn =
            after < 0 || std::find(rest.begin(), rest.end(), static_cast<std::size_t>(after)) == rest.end();
        return turn && (pieces_[i].own || is_over(pieces_[i], gone, eligibility));
      });
      if (next == rest.end()) return false;
      gone.push_back(*next);
      rest.erase(next);
    }
    return true;
  }

  bool is_over(const Piece& p, const Gone& gone, Eligibility eligibility) const {
    for (const QueueId at : way_up(s_.tree(), p.leaf)) {
      if (std::find(c_.path.begin(), c_.path.end(), at) != c_.path.end()) return true;
      const Share& share = s_.tree().share(at, c_.pool);
      // Guaranteed GPUs come with the CPUs and the memory beside them.
      bool over = eligibility == Eligibility::kByQuota && c_.asked.gpu.value > 0 &&
                  p.amounts.gpu.value == 0 &&
                  (quota_in(share, ResourceKind::kCpu) == kUnbounded ||
                   quota_in(share, ResourceKind::kMemory) == kUnbounded);
      for (const ResourceKind kind : s_.tree().accounted()) {
        const std::int64_t quota = quota_in(share, kind);
        if (amount_of(c_.asked, kind) <= 0 || quota == kUnbounded) continue;
        const std::int64_t held = held_without(at, kind, gone, true);
        over = over || held > (eligibility == Eligibility::kByQuota ? quota : fair(at, kind));
        // Only who stays within quota itself may take a gang that straddles the line.
        const std::int64_t least = std::min(quota, fair(at, kind));
        if (eligibility == Eligibility::kByFairShare && at == p.leaf && held >= least &&
            held - amount_of(p.amounts, kind) < least)
          return false;
      }
      if (!over) return false;
    }
    return true;
  }

  // --- whether a piece could be put back, where places are but a matter of counting

  bool some_node_aligns() const {
    return std::any_of(s_.nodes().all().begin(), s_.nodes().all().end(),
                       [](const Node& n) { return n.spec.numa_policy != NumaPolicy::kAny; });
  }

  bool simple() const {
    const Job& j = s_.job(c_.job);
    const Request& r = s_.request_of(j);
    return !s_.tree().reserves() && r.roles.size() == 1 && r.groups.empty() && r.topology.required.empty() &&
           !r.about_pods && s_.jobs().with_anti_affinity().empty() && r.roles[0].topology.required.empty() &&
           !r.roles[0].numa_aligned && (r.roles[0].gpus <= 1 || !some_node_aligns()) &&
           (r.roles[0].gpus == 0 || r.roles[0].share.kind == GpuShare::Kind::kWhole);
  }

  bool fits(const Gone& gone) const {
    Recount counted = before_;
    for (const std::size_t i : gone) {
      for (const Allocation& c : pieces_[i].allocations) counted.add(c, -1);
    }
    // Who is moved stands elsewhere; it may need the place of one that is put back.
    for (const Statement::Placed& p : st_.placed()) {
      const auto mine = [&](std::size_t i) { return pieces_[i].job == p.job; };
      if (p.job == c_.job || std::none_of(gone.begin(), gone.end(), mine)) continue;
      counted.add(p.allocation);
      const auto taken = [&](std::int32_t gpu) {
        return p.allocation.use.whole && counted.uses(p.allocation.node, gpu, View::kTarget).size() > 1;
      };
      if (std::any_of(p.allocation.gpus.begin(), p.allocation.gpus.end(), taken)) return false;
    }
    const Request& request = s_.request_of(s_.job(c_.job));
    const RoleSpec& role = request.roles[0];
    const auto& reservation = s_.pool(c_.pool).reservation;
    std::int64_t room = 0;
    for (std::size_t i = 0; i < s_.nodes().size(); ++i) {
      const Node& n = s_.nodes().all()[i];
      if (!n.takes_part() || n.pool != c_.pool || !would_do(n.spec, role, request.avoid)) continue;
      if (!gives_such(n.spec, s_.pool(c_.pool).spec, role)) continue;
      if (n.kept_for_reservation && reservation && reservation->owner != c_.job)
        continue;  // it may be kept off
      const auto id = static_cast<NodeId>(i);
      const Resources free = n.spec.allocatable - counted.on(id).target();
      std::int64_t k = free.pods;
      if (role.gpus > 0) k = std::min(k, counted.idle_gpus(id) / role.gpus);
      room += std::max<std::int64_t>(0, times_in(free, role.per_pod, k));
    }
    return room >= static_cast<std::int64_t>(solution_.places.size());
  }

  const ClusterModel& s_;
  Time now_;
  const Claimant& c_;
  const Statement& st_;
  const Solution& solution_;
  std::vector<std::string>& broken_;
  Recount before_;  // with the victims, without the claimant
  std::vector<Piece> pieces_;
  std::set<JobId> peers_;  // of the claimant's Project and priority
};

}  // namespace

void PlanAuditor::solution(const SolutionQuery& query, const Statement& statement, const Solution& found) {
  SolutionAudit(s_, now_, query, statement, found, broken_).run();
  for (const Victim& v : found.victims) taken_.emplace(v.job, query.claimant.job);
}

}  // namespace muster::placement
