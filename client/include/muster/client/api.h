// The verbs of the Kubernetes API over a Transport. Bodies are JSON text: whoever calls decides how to
// decode.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "muster/client/environment.h"
#include "muster/client/error.h"
#include "muster/client/task.h"
#include "muster/client/transport.h"

namespace muster::client {

// Where a kind lives: {"", "v1", "pods"} or {"muster.dev", "v1alpha1", "trainingjobs"}.
struct Resource {
  std::string group;  // empty: the core group
  std::string version;
  std::string plural;
  bool namespaced = true;

  // "/api/v1/namespaces/ns/pods/name/subresource"; empty parts are left out. Names are percent-encoded.
  std::string path(std::string_view ns, std::string_view name = {}, std::string_view subresource = {}) const;
};

namespace resources {
extern const Resource kPods, kNodes, kNamespaces, kServices, kConfigMaps, kSecrets, kPersistentVolumeClaims,
    kPersistentVolumes, kStorageClasses, kLeases, kEvents, kPriorityClasses, kServiceAccounts, kRoleBindings,
    kNetworkPolicies, kPodDisruptionBudgets, kEndpointSlices, kCustomResourceDefinitions;
}

// One object's place; ns empty for cluster-scoped kinds.
struct ObjectRef {
  std::string ns;
  std::string name;
};

struct ListOptions {
  std::string label_selector;
  std::string field_selector;
  int limit = 500;
  std::string continue_token;
  std::string resource_version;  // "0": from the server's cache; empty: the newest
};

struct ListPage {
  std::string body;  // the List object
  std::string continue_token;
  std::string resource_version;
};

struct WatchOptions {
  std::string label_selector;
  std::string field_selector;
  std::string resource_version;
  bool send_initial_events = false;
  Duration server_timeout{};
};

enum class PatchType : std::uint8_t { kMerge, kJson, kApply };

struct PatchOptions {
  PatchType type = PatchType::kMerge;
  std::string field_manager;  // required for kApply
  bool force = false;         // kApply: take over fields owned by others
  std::string subresource;
  bool dry_run = false;
};

struct DeleteOptions {
  std::optional<std::int64_t> grace_period_seconds{};
  std::string uid{};                 // precondition; empty: none
  std::string resource_version{};    // precondition; empty: none
  std::string propagation_policy{};  // Foreground | Background | Orphan; empty: the kind's default
};

struct ApiOptions {
  Duration timeout = std::chrono::seconds{30};  // of one attempt
  // How often a request that certainly did not take effect (Error::safe_to_repeat) is sent again. The wait
  // before each is what the server says (Retry-After, up to a minute), or else a back-off that doubles from
  // 100 ms to 10 s, with jitter. A write with unknown outcome is never repeated. A read has no effect, so it
  // is repeated after a lost connection and a 504 as well.
  int max_repeats = 8;
  int max_in_flight = 256;  // ceiling of the adaptive limit, which 429 halves and success raises
  std::string user_agent = "muster";
};

// All calls: the answer's JSON text or a typed Error. Arguments are read when the call is made, not when it
// is awaited. Thread: the environment's executor only. Environment and Transport outlive the client and its
// calls.
class ApiClient {
 public:
  ApiClient(Environment env, Transport& transport, ApiOptions options = {});
  ~ApiClient();
  ApiClient(const ApiClient&) = delete;
  ApiClient& operator=(const ApiClient&) = delete;

  Task<Result<std::string>> get(const Resource& resource, ObjectRef ref);
  Task<Result<ListPage>> list(const Resource& resource, std::string ns, ListOptions options);
  Task<Result<std::string>> create(const Resource& resource, std::string ns, std::string body,
                                   std::string field_manager, bool dry_run = false);
  // Guarded by metadata.resourceVersion in the body where there is one. subresource: "" | "status" | "scale".
  Task<Result<std::string>> update(const Resource& resource, ObjectRef ref, std::string body,
                                   std::string subresource = {});
  Task<Result<std::string>> patch(const Resource& resource, ObjectRef ref, std::string body,
                                  PatchOptions options);
  // The object's last state, or a Status. kNotFound is an error like any other; callers often take it for
  // success.
  Task<Result<std::string>> remove(const Resource& resource, ObjectRef ref, DeleteOptions options = {});
  Task<Result<std::string>> remove_collection(const Resource& resource, std::string ns, ListOptions selector,
                                              DeleteOptions options = {});
  // A stream of watch events (one JSON object a line), or the typed Error of a non-2xx answer. Tried once:
  // whoever watches has a back-off and a state to go on from. Streams do not count against the in-flight
  // limit.
  Task<Result<std::unique_ptr<BodyStream>>> watch(const Resource& resource, std::string ns,
                                                  WatchOptions options);
  // Any path, for discovery, /version, /readyz, /metrics. Any HTTP status is an answer.
  Task<Result<HttpResponse>> raw(HttpRequest request);

  // No write leaves this client after this; those in flight are not recalled. What a lost lease calls. Later
  // writes, and those that still waited for their turn or for a repetition, end with kCancelled.
  void stop_writes();
  // The same from `when` on, by the environment's clock. Each write is judged by that clock at the moment
  // when it is about to be sent, so no timer that comes late lets one through. What a lease allows; moved on
  // by each call.
  void set_write_deadline(TimePoint when);
  // By stop_writes(), or because the deadline has passed.
  bool writes_stopped() const;
  int current_limit() const;  // the adaptive in-flight limit

  // Called after each answer, for metrics: verb ("GET", "LIST", "WATCH", "POST", "PATCH"…), HTTP status (0:
  // none), time from sending to the answer, of a watch to its headers.
  using Observer =
      std::function<void(std::string_view verb, const Resource& resource, int status, Duration took)>;
  void set_observer(Observer observer);

  const Environment& environment() const { return env_; }

 private:
  struct Impl;
  Environment env_;
  std::shared_ptr<Impl> impl_;  // also held by calls under way
};

}  // namespace muster::client
