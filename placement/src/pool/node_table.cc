#include "pool/node_table.h"

#include <algorithm>

#include "pool/request.h"

namespace muster::placement {
namespace {

void put(std::string& out, std::int64_t n) {
  out += std::to_string(n), out += ';';
}
void put(std::string& out, const std::string& s) {
  put(out, static_cast<std::int64_t>(s.size())), out += s;
}

// All that kind_would_do() looks at, as text without ambiguity.
std::string key_of(const NodeSpec& n) {
  std::string out;
  put(out, std::int64_t{n.gpus});
  put(out, n.gpu_model);
  put(out, n.gpu_memory.value);
  put(out, static_cast<std::int64_t>(n.unhealthy.size()));
  for (const std::int32_t gpu : n.unhealthy) put(out, std::int64_t{gpu});
  put(out, static_cast<std::int64_t>(n.gpu_numa.size()));
  for (const std::int32_t zone : n.gpu_numa) put(out, std::int64_t{zone});
  put(out, static_cast<std::int64_t>(n.zones.size()));
  for (const NumaZone& zone : n.zones) put(out, zone.cpu.value), put(out, zone.memory.value);
  put(out, static_cast<std::int64_t>(n.numa_policy));
  put(out, n.unaligned);
  put(out, static_cast<std::int64_t>(n.mig.size()));
  for (const auto& [profile, count] : n.mig) put(out, profile), put(out, std::int64_t{count});
  for (const Taint& taint : n.taints) put(out, taint.key), put(out, taint.value), put(out, taint.effect);
  return out;
}

NodeSpec kind_of(NodeSpec n) {
  n.name.clear();
  n.labels.clear();
  n.gpu_links.clear();
  n.allocatable = {};
  return n;
}

}  // namespace

void NodeTable::leave_kind(Row& row) {
  if (row.kind == kNoKind) return;
  const auto kind = slots_[static_cast<std::size_t>(row.kind)];
  if (--kind->second.users == 0) {
    slots_[static_cast<std::size_t>(row.kind)] = kinds_.end();
    free_slots_.push_back(row.kind);
    kinds_.erase(kind);
  }
  row.kind = kNoKind;
}

void NodeTable::put(NodeId id, const NodeSpec& spec) {
  const auto at = static_cast<std::size_t>(id);
  if (rows_.size() <= at) rows_.resize(at + 1);
  leave_kind(rows_[at]);
  const auto [kind, fresh] = kinds_.try_emplace(key_of(spec));
  if (fresh) {
    kind->second.spec = kind_of(spec);
    if (free_slots_.empty()) {
      kind->second.slot = static_cast<std::int32_t>(slots_.size());
      slots_.push_back(kind);
    } else {
      kind->second.slot = free_slots_.back();
      free_slots_.pop_back();
      slots_[static_cast<std::size_t>(kind->second.slot)] = kind;
    }
  }
  ++kind->second.users;
  const Resources& a = spec.allocatable;
  rows_[at] = {a.cpu.value, a.memory.value, a.pods, kind->second.slot};
}

void NodeTable::drop(NodeId id) {
  const auto at = static_cast<std::size_t>(id);
  if (at < rows_.size()) leave_kind(rows_[at]);
}

std::vector<bool> NodeTable::would_do(const RoleSpec& role, std::size_t nodes) const {
  std::vector<std::uint8_t> good(slots_.size());
  for (const auto& [key, kind] : kinds_) {
    if (kind_would_do(kind.spec, role)) good[static_cast<std::size_t>(kind.slot)] = 1;
  }
  std::vector<bool> list(nodes);
  const std::int64_t cpu = role.per_pod.cpu.value, memory = role.per_pod.memory.value,
                     pods = role.per_pod.pods;
  for (std::size_t i = 0; i < std::min(nodes, rows_.size()); ++i) {
    const Row& row = rows_[i];
    if (row.kind != kNoKind && good[static_cast<std::size_t>(row.kind)] != 0 && cpu <= row.cpu &&
        memory <= row.memory && pods <= row.pods)
      list[i] = true;
  }
  return list;
}

}  // namespace muster::placement
