#include "refusals.h"

#include <algorithm>

namespace muster::reconcilers {

bool has_refused(const Refusals& list, const std::string& node, std::optional<crds::Time> since) {
  return std::any_of(list.begin(), list.end(),
                     [&](const crds::NodeRefusal& r) { return r.node == node && r.at >= since; });
}

bool remember_refusal(Refusals& list, const std::string& node, const std::string& reason, crds::Time now,
                      std::optional<crds::Time> since) {
  if (has_refused(list, node, since)) return false;
  std::erase_if(list, [&](const crds::NodeRefusal& r) { return r.node == node; });
  if (list.size() >= kMaxRefusals) list.erase(list.begin());
  list.push_back({node, reason, now});
  return true;
}

void forget_refusals(Refusals& list, crds::Time now, const std::set<std::string>& needed) {
  std::erase_if(list, [&](const crds::NodeRefusal& r) {
    return !r.at || (*r.at + kRefusalMemory <= now && !needed.contains(r.node));
  });
}

}  // namespace muster::reconcilers
