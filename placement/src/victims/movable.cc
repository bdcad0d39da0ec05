#include "victims/movable.h"

#include <algorithm>

#include "node/devices.h"
#include "shares/backfill.h"

namespace muster::placement {

bool has_all_of_minimum(const Request& request, const std::vector<PodPlace>& pods) {
  std::vector<std::int32_t> count(request.roles.size());
  for (const PodPlace& p : pods) {
    const auto role = static_cast<std::size_t>(p.role);  // a negative one is beyond all
    if (role < count.size()) ++count[role];
  }
  return std::equal(count.begin(), count.end(), request.roles.begin(),
                    [](std::int32_t n, const RoleSpec& role) { return n >= role.replicas; });
}

Movable::Movable(const ClusterModel& s, const Claimant& c)
    : s_(s), pool_(s.pool(c.pool)), id_(c.pool), claimant_off_(kept_off(s, c.job, c.pool, c.asked)) {
  for (const RoleSpec& r : s.request_of(s.job(c.job)).roles)
    needs_ = std::min(needs_, takes_whole_gpus(r) ? r.gpus : 0);
}

bool Movable::add(JobId id) {
  const Job& j = s_.job(id);
  if (!has_all_of_minimum(s_.request_of(j), j.assignment->pods)) return false;
  if (!has_holes(j, false)) return false;
  const bool off = kept_off(s_, id, id_, s_.asked(s_.request_of(j), id_), true);
  if (off && !has_holes(j, true)) return false;
  const auto& roles = s_.request_of(j).roles;
  for (std::size_t i = 0; i < j.allocations.size(); ++i) {
    const auto role = static_cast<std::size_t>(j.assignment->pods[i].role);
    if (j.allocations[i].node == kNoId || role >= roles.size()) continue;
    // Of a pod that shares GPUs no more is known than how many it touches.
    parts_.push_back({j.allocations[i].node, roles[role].gpus, takes_whole_gpus(roles[role]), off});
  }
  return true;
}

bool Movable::helps(JobId id) {
  if (could_be_free_.empty()) add_up();
  const auto& allocations = s_.job(id).allocations;
  return std::any_of(allocations.begin(), allocations.end(), [&](const Allocation& c) {
    return c.node != kNoId && !(claimant_off_ && s_.node(c.node).kept_for_reservation) &&
           could_be_free_[static_cast<std::size_t>(c.node)] >= needs_;
  });
}

void Movable::add_up() {
  could_be_free_.resize(s_.nodes().size());
  for (const Part& p : parts_)
    could_be_free_[static_cast<std::size_t>(p.node)] = std::max(0, s_.node(p.node).free_gpus());
  std::sort(parts_.begin(), parts_.end());
  for (auto it = parts_.begin(); it != parts_.end();) {
    const auto end = std::find_if(it, parts_.end(), [&](const Part& p) { return p != *it; });
    std::int64_t pods = end - it;
    // A hole on the same node is none.
    if (it->whole) pods = std::min(pods, holes(it->gpus, it->off) - holes_on(it->node, it->gpus, it->off));
    could_be_free_[static_cast<std::size_t>(it->node)] += static_cast<std::int32_t>(pods) * it->gpus;
    it = end;
  }
}

bool Movable::has_holes(const Job& j, bool off) {
  const auto& roles = s_.request_of(j).roles;
  const auto& pods = j.assignment->pods;
  const auto has_room = [&](std::size_t r, bool for_all) {
    const auto is_of_role = [&](const PodPlace& p) { return p.role == static_cast<std::int32_t>(r); };
    const auto need = !for_all            ? 1
                      : roles.size() == 1 ? std::ssize(pods)
                                          : std::ranges::count_if(pods, is_of_role);
    return !takes_whole_gpus(roles[r]) || need <= holes(roles[r].gpus, off);
  };
  // Who changes its size in place had better give a pod than restart.
  const bool for_all = j.spec.resizes_in_place || pods.size() == 1;
  std::size_t fitting = 0;
  for (std::size_t r = 0; r < roles.size(); ++r) fitting += has_room(r, for_all) ? 1 : 0;
  return for_all ? fitting == roles.size() : fitting > 0;
}

std::int64_t Movable::holes(std::int32_t gpus, bool off) {
  const auto [it, fresh] = holes_.try_emplace({gpus, off});
  if (!fresh) return it->second;
  for (const auto& [model, buckets] : pool_.domains[0].by_free) {
    for (auto b = buckets.lower_bound(gpus); b != buckets.end(); ++b) {
      for (const NodeId id : b->second) it->second += holes_on(id, gpus, off);
    }
  }
  return it->second;
}

std::int64_t Movable::holes_on(NodeId id, std::int32_t gpus, bool off) const {
  const Node& n = s_.node(id);
  if (!n.takes_part() || n.pool != id_ || (off && n.kept_for_reservation)) return 0;
  return idle_gpus(n, View::kNow) / gpus;
}

}  // namespace muster::placement
