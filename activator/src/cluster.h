// What the activator knows of the cluster: which services may be at zero, their ports, and their replicas.
#pragma once

#include <memory>

#include "doors.h"
#include "muster/client/api.h"
#include "muster/client/task_group.h"

namespace muster::activator {

class ClusterView {
 public:
  // Tells `doors` of every change. Both outlive it.
  ClusterView(client::ApiClient& api, Doors& doors);
  ~ClusterView();
  // The tasks end when they are cancelled, and use this until then.
  void start(client::TaskGroup& tasks);
  bool is_synced() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::activator
