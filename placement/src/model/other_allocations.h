// What pods outside jobs hold, and with which labels.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "node/node.h"

namespace muster::placement {

class OtherAllocations {
 public:
  // By the key of the pod. What it holds of MIG slices stands behind it, under keys of their own.
  const std::map<std::string, Allocation>& all() const { return all_; }

  // The allocations are taken already.
  void add(const std::string& pod, Allocation allocation, const Labels& labels) {
    if (!labels.empty()) {
      const auto same = label_sets_.emplace(labels, 0).first;
      ++same->second;
      allocation.labels = &same->first;
    }
    all_.emplace(pod, std::move(allocation));
  }
  void add_slices(const std::string& pod, const std::string& profile, Allocation allocation) {
    all_.emplace(slices_key(pod) + profile, std::move(allocation));
  }
  // All that the pod held. To be given back.
  std::vector<Allocation> remove(const std::string& pod) {
    std::vector<Allocation> list;
    const auto found = all_.find(pod);
    if (found == all_.end()) return list;
    if (const Labels* labels = std::exchange(found->second.labels, nullptr)) {
      const auto same = label_sets_.find(*labels);
      if (--same->second == 0) label_sets_.erase(same);
    }
    list.push_back(std::move(found->second));
    all_.erase(found);
    const std::string slices = slices_key(pod);
    for (auto at = all_.lower_bound(slices); at != all_.end() && at->first.starts_with(slices);) {
      list.push_back(std::move(at->second));
      at = all_.erase(at);
    }
    return list;
  }
  template <class Visit>  // void(Allocation&)
  void visit_on(NodeId node, Visit&& visit) {
    for (auto& [key, allocation] : all_) {
      if (allocation.node == node) visit(allocation);
    }
  }

 private:
  static std::string slices_key(const std::string& pod) { return pod + '/'; }  // no pod's name has a slash

  std::map<std::string, Allocation> all_;
  std::map<Labels, std::int32_t> label_sets_;  // and how many pods have them
};

}  // namespace muster::placement
