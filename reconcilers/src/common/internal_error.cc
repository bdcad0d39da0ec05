#include "muster/reconcilers/common/internal_error.h"

namespace muster::reconcilers {
namespace {

crds::Condition condition_of(const std::string& thrown, std::int64_t generation, crds::Time now) {
  crds::Condition condition{.type = std::string(kInternalError),
                            .status = crds::ConditionStatus::kFalse,
                            .observed_generation = generation,
                            .last_transition_time = now,
                            .reason = "Recovered",
                            .message = ""};
  if (thrown.empty()) return condition;
  condition.status = crds::ConditionStatus::kTrue;
  condition.reason = "Exception";
  condition.message =
      "Muster has a bug that this object brings out, and leaves the object as it is: " + thrown +
      ". It tries again after 5 ms, doubling up to 1000 s, and when the object changes.";
  return condition;
}

}  // namespace

template <class Kind>
client::Task<client::Result<void>> say_internal_error(client::ApiClient& api, ObjectStore<Kind>& store,
                                                      client::Key key, crds::Time now, std::string thrown) {
  client::Result<void> done;
  const auto object = store.find(key);
  if (!object || object->status_unreadable || object->value.metadata.deletion_timestamp) co_return done;
  if (thrown.empty() && !crds::is_true(object->value.status.conditions, kInternalError)) co_return done;
  Kind wanted;
  wanted.metadata = object->value.metadata;
  wanted.status = object->value.status;
  const auto condition = condition_of(thrown, wanted.metadata.generation, now);
  const bool is_news = crds::set_condition(wanted.status.conditions, condition);
  if (!is_news) co_return done;
  done = co_await write_status(api, store, std::move(wanted));
  co_return done;
}

#define MUSTER_KIND(K)                                                     \
  template client::Task<client::Result<void>> say_internal_error<crds::K>( \
      client::ApiClient&, ObjectStore<crds::K>&, client::Key, crds::Time, std::string)
MUSTER_KIND(Queue);
MUSTER_KIND(Project);
MUSTER_KIND(NodePool);
MUSTER_KIND(TrainingJob);
MUSTER_KIND(InferenceService);
#undef MUSTER_KIND

}  // namespace muster::reconcilers
