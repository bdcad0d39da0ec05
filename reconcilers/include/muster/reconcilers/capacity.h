// The reconcilers of Queue, Project and NodePool: whether the objects fit each other (parents, cycles,
// namespaces, default pools), and the numbers in their status. They write status only; who gets what is
// placement's.
#pragma once

#include <map>
#include <set>
#include <string>

#include "muster/reconcilers/world.h"

namespace muster::reconcilers {

class CapacityReconciler {
 public:
  explicit CapacityReconciler(World& world) : world_(world) {}

  client::Task<Outcome> queue(client::Key key);
  client::Task<Outcome> project(client::Key key);
  client::Task<Outcome> node_pool(client::Key key);

 private:
  template <class Kind>
  client::Task<Outcome> write(ObjectStore<Kind>& store, client::Ptr<Object<Kind>> object,
                              typename Kind::Status wanted);

  World& world_;
  std::map<std::string, client::TimePoint> written_;  // kind/name -> when its numbers were last written
};

// Of several Projects that claim one namespace the oldest has it (then by name). Empty: nobody claims it.
std::string owner_of_namespace(const ObjectStore<crds::Project>& projects, const std::string& ns);

}  // namespace muster::reconcilers
