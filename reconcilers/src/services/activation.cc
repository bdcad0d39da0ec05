// What an InferenceService that may be at zero needs of the activators: a port, and an EndpointSlice that
// leads its Service to them while no replica serves.
#include <nlohmann/json.hpp>

#include "muster/reconcilers/common/child.h"
#include "muster/reconcilers/common/log.h"
#include "muster/reconcilers/services/inference_service.h"

namespace muster::reconcilers {
namespace {

// When a replica is ready, whoever sends to its Service hears of it a little later.
constexpr std::chrono::seconds kStillLed{5};
// While it is not known of all activators for whom they listen.
constexpr std::chrono::seconds kLookAgain{2};

}  // namespace

std::string InferenceServiceReconciler::isolation_of(const Service& service) const {
  for (const auto& p : context_.caches.projects.store().by_index(kByNamespace, service->meta.ns)) {
    if (p->value.spec.ns.isolate_network)
      return "Project " + p->meta.name +
             " lets nobody from outside reach its pods (isolateNetwork), and activators hold requests of "
             "everybody";
  }
  return {};
}

Activation InferenceServiceReconciler::activation_of(const client::Key& key, const Service& service) const {
  Activation activation = activators_.look(key, service->value.status.activator_port);
  if (auto isolation = isolation_of(service); !isolation.empty()) activation.missing = std::move(isolation);
  return activation;
}

// The one in the status stays, unless it is not in the range or is another service's as well.
std::int32_t InferenceServiceReconciler::port_of(const client::Key& key, const Service& service) {
  const ActivatorOptions& options = activators_.options();
  const std::int32_t now = service->value.status.activator_port;
  const bool fits = now >= options.first_port && now <= options.last_port;
  if (fits && !activators_.is_ignored(key, now)) return now;
  std::set<std::int32_t> taken;
  bool is_first = true;
  for (const auto& [other, there] : context_.caches.services.store().all()) {
    if (other == key) continue;
    const std::int32_t theirs = there->value.status.activator_port;
    if (theirs != 0) taken.insert(theirs);
    if (theirs == now && other < key) is_first = false;
  }
  for (const auto& [other, port] : ports_) {
    if (other != key) taken.insert(port);
  }
  if (fits && is_first) return now;  // the activators have not heard of it yet
  return ports_[key] = choose_port(key, taken, options);
}

// Its first replica serves, and has for long enough.
bool InferenceServiceReconciler::leads_itself(const std::vector<client::Ptr<client::Pod>>& serving) const {
  return std::ranges::any_of(serving, [this](const auto& pod) {
    return context_.now() >= crds::Time{std::chrono::seconds{pod->ready_at}} + kStillLed;
  });
}

// To whom the slice leads. What this process has not written itself it reads; nothing: it could not.
client::Task<std::optional<std::vector<std::string>>> InferenceServiceReconciler::led_now(client::Key key,
                                                                                          Service service) {
  std::optional<std::vector<std::string>> led;
  crds::Json slice;
  if (const auto known = kept_.find(key + "/endpointslices"); known != kept_.end()) {
    slice = crds::Json::parse(known->second.content, nullptr, false);  // "": there is none
  } else {
    const auto read = co_await context_.api.get(client::resources::kEndpointSlices,
                                                {service->meta.ns, activation_slice_name(service->value)});
    if (!read && read.error().code != client::ErrorCode::kNotFound) co_return led;
    if (read) slice = crds::Json::parse(*read, nullptr, false);
    if (read && !is_owned_by(slice, service->meta.uid)) slice = {};
  }
  led = addresses_of_slice(slice, service->value.status.activator_port);
  co_return led;
}

// The activators stand in before the last replica goes, and until the first one has served for a moment.
client::Task<Outcome> InferenceServiceReconciler::keep_led(const client::Key& key, Service service) {
  const auto serving = serving_pods(service);
  const std::int32_t port = service->value.status.activator_port;
  const bool is_at_zero = crds::size_of(service->value) == 0;
  std::vector<std::string> addresses;
  const bool is_held = is_at_zero || !leads_itself(serving);
  const bool may_hold = is_held && port != 0 && isolation_of(service).empty();
  bool is_silent = false;
  if (may_hold) addresses = activators_.addresses(key, port);
  const bool nobody_stands_in = addresses.empty();
  if (may_hold && activators_.is_silent()) {
    const auto led = co_await led_now(key, service);
    if (!led) co_return Outcome::retry();
    is_silent = activators_.is_silent();  // some may have answered meanwhile
    addresses = activators_.still_led(key, port, *led);
  }
  if (!co_await lead(key, service, std::move(addresses))) co_return Outcome::retry();
  if (is_at_zero && !serving.empty() && nobody_stands_in) co_return Outcome::retry();
  if (is_held && !serving.empty()) co_return Outcome::again(std::chrono::seconds{1});
  co_return is_silent ? Outcome::again(kLookAgain) : Outcome::done();
}

client::Task<bool> InferenceServiceReconciler::lead(client::Key key, Service service,
                                                    std::vector<std::string> addresses) {
  const std::string id = key + "/endpointslices";
  if (!addresses.empty()) {
    const Refused refusal = co_await keep_companion(id, client::resources::kEndpointSlices, service,
                                                    activation_slice_json(service->value, addresses));
    if (!refusal.reason.empty())
      log_warn("requests are not led to activators", {{"service", key}, {"error", refusal.message}});
    co_return refusal.reason.empty();
  }
  if (const auto known = kept_.find(id); known != kept_.end() && known->second.content.empty())
    co_return true;
  const auto gone =
      co_await remove_child(context_.api, client::resources::kEndpointSlices,
                            {service->meta.ns, activation_slice_name(service->value)}, service->meta.uid);
  if (gone) kept_[id] = {"", context_.env.clock.now()};
  co_return gone.has_value();
}

}  // namespace muster::reconcilers
