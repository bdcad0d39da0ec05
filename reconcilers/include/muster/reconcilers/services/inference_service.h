// The reconciler of InferenceServices. Each replica is a TrainingJob of its own, so that what places, starts,
// repairs and charges gangs does it for replicas too; this one decides how many there are of which revision,
// keeps the Service that leads to them, and says what they come to.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/reconcilers/caches/reconciler_context.h"
#include "muster/reconcilers/services/activators.h"
#include "muster/reconcilers/services/autoscaler.h"
#include "muster/reconcilers/services/canary_analysis.h"
#include "muster/reconcilers/services/service_status.h"

namespace muster::reconcilers {

class InferenceServiceReconciler {
 public:
  // `pods`: a way to any pod, for whole URLs. `changed`: the key is to be reconciled, its replicas were read.
  InferenceServiceReconciler(ReconcilerContext& context, client::Transport& pods,
                             std::function<void(const client::Key&)> changed,
                             ActivatorOptions activators = {})
      : context_(context),
        autoscaler_(context.env, pods, changed),
        canaries_(context.env, pods, changed),
        activators_(context.env, pods, std::move(changed), activators) {}
  // Level-based and idempotent. Never runs twice at once for one key (the work queue sees to that).
  client::Task<Outcome> reconcile(client::Key key);
  // No replica is asked any more. Readings under way end some seconds later, or when they are cancelled.
  void stop() {
    autoscaler_.stop();
    canaries_.stop();
    activators_.stop();
  }
  client::TaskGroup& readings() { return autoscaler_.readings(); }
  client::TaskGroup& canary_readings() { return canaries_.readings(); }
  Activators& activators() { return activators_; }
  const EndpointCounts& counts() const { return autoscaler_.counts(); }

 private:
  using Service = client::Ptr<Object<crds::InferenceService>>;
  using Job = client::Ptr<Object<crds::TrainingJob>>;
  // Those that are there and stay; jobs keep the views' pointers alive.
  struct Fleet {
    std::vector<Job> jobs;
    std::vector<ReplicaView> views;
  };
  struct Kept {
    std::string content;
    client::TimePoint at;
  };
  // Only this process writes them while it leads, so they are read once.
  struct History {
    std::string uid;  // the service's
    std::vector<KeptRevision> all;
  };

  client::Task<Outcome> keep_serving(const client::Key& key, Service service, Refused refusal);
  client::Task<Outcome> keep_size(const client::Key& key, Service service);
  client::Task<Outcome> keep_led(const client::Key& key, Service service);  // activation.cc
  client::Task<Outcome> keep_replicas(const client::Key& key, Service service,
                                      std::optional<ScalingVerdict> scaling);
  // Of the pods that its Service leads to those that are ready, of any revision. Those of one replica stand
  // together.
  std::vector<client::Ptr<client::Pod>> serving_pods(const Service& service) const;
  // Where its ready replicas are read; with a revision, those of that one.
  std::vector<MetricsEndpoint> endpoints_of(const Service& service, std::string_view revision = {}) const;
  // activation.cc
  std::string isolation_of(
      const Service& service) const;  // why nobody else may hold its requests; "": they may
  Activation activation_of(const client::Key& key, const Service& service) const;
  std::int32_t port_of(const client::Key& key, const Service& service);
  bool leads_itself(const std::vector<client::Ptr<client::Pod>>& serving) const;
  client::Task<std::optional<std::vector<std::string>>> led_now(client::Key key, Service service);
  // To these activators; empty: not to them any more. False: it could not be written.
  client::Task<bool> lead(client::Key key, Service service, std::vector<std::string> addresses);
  // service_revisions.cc
  client::Task<client::Result<void>> read_revisions(client::Key key, Service service);
  Service located(Service service, std::string* problem = nullptr) const;
  client::Task<Outcome> note_abort(client::Key key, Service service, crds::AbortedCanary aborted);
  std::optional<CanaryWatch::Look> look_at_canary(const client::Key& key, const Service& service);
  RolloutDecision decide(const client::Key& key, const Service& service, const CanaryVerdict& canary) const;
  // `own`: the spec's own revision. Nothing where what a revision is made of is not known any more.
  std::optional<crds::InferenceService> as_of(const client::Key& key, const Service& service,
                                              const std::string& own, const std::string& revision) const;
  // It is kept, and has the highest number. kAlreadyExists: an object of somebody else has its name.
  client::Task<client::Result<void>> keep_revision(client::Key key, Service service, std::string own,
                                                   std::string revision);
  client::Task<bool> prune_revisions(client::Key key, Service service, RolloutDecision decision);
  Fleet fleet_of(const Service& service, const std::string& revision) const;
  crds::Time room_since(const client::Key& key, const Service& service);
  std::vector<std::int32_t> free_ordinals(const Service& service, const std::string& revision,
                                          std::int32_t n) const;
  std::string priority_class_of(const crds::InferenceService& service) const;
  // `as`: the service as it is in the revision in force.
  client::Task<Refused> keep_companions(client::Key key, Service service, crds::InferenceService as);
  client::Task<bool> remove_role_services(client::Key key, Service service, crds::InferenceService as,
                                          const Fleet& fleet);
  client::Task<Refused> keep_companion(std::string id, client::Resource resource, Service service,
                                       crds::Json object);
  // `as`: the service as it is in that revision.
  client::Task<Refused> create(Service service, crds::InferenceService as, std::string revision,
                               std::int32_t n, std::int32_t guaranteed);
  client::Task<bool> remove(Service service, std::vector<Job> jobs);
  client::Task<Outcome> write(const client::Key& key, Service service, crds::InferenceServiceStatus wanted);
  // service_events.cc
  void tell(const Service& service, const char* reason, const char* verb,
            const std::vector<std::string>& names) const;
  void tell(const Service& service, const crds::InferenceServiceStatus& now) const;
  // The end of a canary.
  void tell_canary(const Service& service, const crds::InferenceServiceStatus& now) const;
  void tell_size(const Service& service, std::int32_t now, const std::optional<ScalingVerdict>& why) const;

  ReconcilerContext& context_;
  std::map<std::string, Kept> kept_;                  // "key/plural" -> what was found or made there
  std::map<client::Key, client::TimePoint> written_;  // the last status
  std::map<client::Key, Room> rooms_;
  std::set<client::Key> cannot_move_;  // a replica on a cordoned node, as the last plan said
  std::map<client::Key, History> histories_;
  std::map<client::Key, std::int32_t> ports_;  // given out, maybe not written yet
  Autoscaler autoscaler_;
  CanaryWatch canaries_;
  Activators activators_;
};

}  // namespace muster::reconcilers
