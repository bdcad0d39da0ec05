// The reconciler of InferenceServices. This version runs none: it says so in the object's conditions, so that
// nobody waits for pods that will not come.
#pragma once

#include "muster/reconcilers/world.h"

namespace muster::reconcilers {

class InferenceServiceReconciler {
 public:
  explicit InferenceServiceReconciler(World& world) : world_(world) {}
  client::Task<Outcome> reconcile(client::Key key);

 private:
  World& world_;
};

}  // namespace muster::reconcilers
