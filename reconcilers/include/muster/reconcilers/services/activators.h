// The activators, which hold requests for InferenceServices that have no replica: which pods they are, for
// whom they listen, and how many requests they hold. Each is asked over HTTP in the background and answers as
// soon as something has changed, so nothing is polled and nothing is written for a demand.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "muster/client/environment.h"
#include "muster/client/object.h"
#include "muster/client/pod.h"
#include "muster/client/task_group.h"
#include "muster/client/transport.h"
#include "muster/crds/inference_service.h"
#include "muster/reconcilers/services/autoscale_rule.h"

namespace muster::reconcilers {

// How an activator says how many requests it holds for a service that it listens for, with the labels
// namespace, service and port; and the number of its answer, which goes into the next question.
inline constexpr std::string_view kHeldMetric = "muster_activator_requests_held";
inline constexpr std::string_view kVersionMetric = "muster_activator_version";

struct ActivatorOptions {
  std::int32_t admin_port = 8080;                      // where activators answer questions
  std::int32_t first_port = 20000, last_port = 24999;  // where they listen for services, one port for each
};

// A port of the range that is not in `taken`; 0: there is none. The search begins at a place that the name
// decides, so a port that became free is seldom given to another service soon: somebody may still send to it.
std::int32_t choose_port(const client::Key& service, const std::set<std::int32_t>& taken,
                         const ActivatorOptions& options);

// Leads a service's Service to the activators, beside the slices that Kubernetes keeps for the pods of its
// selector. `addresses`: not empty, all of one family.
crds::Json activation_slice_json(const crds::InferenceService& service,
                                 const std::vector<std::string>& addresses);
std::string activation_slice_name(const crds::InferenceService& service);
// To whom such a slice leads at this port, whatever somebody has made of it.
std::vector<std::string> addresses_of_slice(const crds::Json& slice, std::int32_t port);

class Activators {
 public:
  // `transport` takes whole URLs. `changed` is called, from the event loop, when something is to be looked at
  // again for a service; never after stop().
  Activators(client::Environment env, client::Transport& transport,
             std::function<void(const client::Key&)> changed, ActivatorOptions options);
  ~Activators();
  Activators(const Activators&) = delete;
  Activators& operator=(const Activators&) = delete;

  // A pod with the label, in Muster's namespace. Those that are ready are asked from then on.
  void note(const client::Pod& pod, bool is_gone);

  // `port`: of the service's status; 0: none yet.
  Activation look(const client::Key& service, std::int32_t port) const;
  // Of activators that are ready and have said that they listen for the service at this port; sorted, of one
  // family.
  std::vector<std::string> addresses(const client::Key& service, std::int32_t port) const;
  // Some activator is ready, and whether it listens for anybody is not known: it has not answered this
  // process yet, or not lately. One that answers with an error of HTTP has said that it does not.
  bool is_silent() const;
  // Of the addresses that a service is led to, with those of addresses(): those of activators that are ready,
  // and have not said that they do not listen for it at this port. So a process that begins, or a question
  // that got lost, takes nobody out of the path; only an activator that is gone, or not ready, goes.
  std::vector<std::string> still_led(const client::Key& service, std::int32_t port,
                                     const std::vector<std::string>& led) const;
  // Some activator answers, and none listens for the service at this port.
  bool is_ignored(const client::Key& service, std::int32_t port) const;
  const ActivatorOptions& options() const;

  // Nobody is asked any more. What is under way ends soon; join questions() before what they use is
  // destroyed.
  void stop();
  client::TaskGroup& questions();

 private:
  struct State;
  std::shared_ptr<State> state_;  // also held by questions under way
};

}  // namespace muster::reconcilers
