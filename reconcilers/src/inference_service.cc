#include "muster/reconcilers/inference_service.h"

namespace muster::reconcilers {

client::Task<Outcome> InferenceServiceReconciler::reconcile(client::Key key) {
  auto& store = world_.caches.services.store();
  const auto object = store.find(key);
  if (!object || object->value.metadata.deletion_timestamp) co_return Outcome::done();
  crds::InferenceService wanted;
  wanted.metadata = object->value.metadata;
  wanted.status = object->value.status;
  wanted.status.observed_generation = wanted.metadata.generation;
  const auto say = [&](const char* type) {
    crds::set_condition(
        wanted.status.conditions,
        {type, crds::ConditionStatus::kFalse, wanted.metadata.generation, world_.now(), "NotSupported",
         "this version of Muster does not run InferenceServices; run the server as a Deployment or a "
         "TrainingJob until it does"});
  };
  say("Accepted");
  say("Ready");
  if (wanted.status == object->value.status) co_return Outcome::done();
  const auto written = co_await write_status(world_.api, store, std::move(wanted));
  if (!written && written.error().code != client::ErrorCode::kNotFound) co_return Outcome::retry();
  co_return Outcome::done();
}

}  // namespace muster::reconcilers
