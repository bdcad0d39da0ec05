#include "muster/reconcilers/lifecycle/gang.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "muster/reconcilers/pods/pod_end.h"
#include "muster/reconcilers/pods/pod_identity.h"

namespace muster::reconcilers {
namespace {

bool is_ready(const client::Pod* pod) {
  return pod != nullptr && pod->ready;
}

}  // namespace

void Lingering::add(const client::Pod& pod) {
  if (is_terminal(pod)) return;
  const crds::Time until{std::chrono::seconds{pod.deleting ? pod.deleted_at : 0}};
  if (count++ > 0 && until <= deadline) return;
  example = fmt::format("{} on node {}", pod.meta.name, pod.node_name);
  deadline = until;
}

Gang match(const crds::Assignment& assignment, const std::vector<client::Ptr<client::Pod>>& pods) {
  const auto& places = assignment.pods;
  std::map<std::pair<std::string_view, std::int32_t>, std::size_t> by_role_index;
  for (std::size_t i = 0; i < places.size(); ++i)
    by_role_index.emplace(std::pair{std::string_view(places[i].role), places[i].index}, i);
  Gang gang;
  gang.pods.assign(places.size(), nullptr);
  gang.succeeded.assign(places.size(), false);
  for (const auto i : assignment.succeeded) {
    if (i >= 0 && static_cast<std::size_t>(i) < places.size())
      gang.succeeded[static_cast<std::size_t>(i)] = true;
  }
  for (const auto& pod : pods) {
    const auto id = identity_of(*pod);
    const auto place = id ? by_role_index.find({std::string_view(id->role), id->index}) : by_role_index.end();
    if (place != by_role_index.end() && id->attempt == assignment.attempt &&
        id->tries == places[place->second].tries) {
      gang.pods[place->second] = pod.get();
      if (pod->phase == client::PodPhase::kSucceeded) gang.succeeded[place->second] = true;
    } else if (id && assignment.replaces.attempt != 0 && id->attempt == assignment.replaces.attempt &&
               !pod->deleting && !is_terminal(*pod)) {
      gang.replaced.push_back(pod.get());
    } else {
      gang.strays.push_back(pod.get());
      gang.stale.add(*pod);
    }
  }
  return gang;
}

bool is_complete(const Gang& gang, const crds::Assignment& assignment, const crds::Completion& completion) {
  bool all = true, any = false, waited_for = false;
  for (std::size_t i = 0; i < gang.pods.size(); ++i) {
    if (!completion.role.empty() && assignment.pods[i].role != completion.role) continue;
    const bool succeeded = gang.succeeded[i];
    waited_for = true;
    all = all && succeeded;
    any = any || succeeded;
  }
  return completion.policy == crds::CompletionPolicy::kFirst ? any : (all && waited_for);
}

const client::Pod* program_fault(const Gang& gang) {
  const auto found = std::find_if(gang.pods.begin(), gang.pods.end(), [](const client::Pod* pod) {
    return pod != nullptr && is_program_fault(*pod);
  });
  return found == gang.pods.end() ? nullptr : *found;
}

std::size_t count_ready(const Gang& gang) {
  return static_cast<std::size_t>(std::count_if(gang.pods.begin(), gang.pods.end(), is_ready));
}

std::size_t count_there(const Gang& gang) {
  std::size_t there = 0;
  for (std::size_t i = 0; i < gang.pods.size(); ++i)
    there += gang.succeeded[i] || is_ready(gang.pods[i]) ? 1 : 0;
  return there;
}

std::vector<std::int32_t> places_succeeded(const Gang& gang) {
  std::vector<std::int32_t> places;
  for (std::size_t i = 0; i < gang.succeeded.size(); ++i) {
    if (gang.succeeded[i]) places.push_back(static_cast<std::int32_t>(i));
  }
  return places;
}

}  // namespace muster::reconcilers
