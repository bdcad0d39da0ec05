#include "cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "muster/client/informer.h"
#include "muster/crds/crds.h"

namespace muster::activator {
namespace {

using client::Key;
using nlohmann::json;

constexpr std::string_view kServiceLabel = "muster.dev/service";
constexpr const char* kByService = "service";

struct SeenService {
  client::Meta meta;
  bool may_be_zero = false;
  Service service;
};

// Kubernetes keeps it for the pods that a Service selects.
struct SeenSlice {
  client::Meta meta;
  Key service;
  std::vector<std::string> ready;  // addresses with their port
};

client::Error not_read(std::string what) {
  client::Error error;
  error.code = client::ErrorCode::kDecode;
  error.message = std::move(what);
  return error;
}

client::Result<SeenService> service_of(std::string_view text) {
  const auto meta = client::decode_meta(text);
  if (!meta) return std::unexpected(meta.error());
  SeenService seen;
  seen.meta = *meta;
  const json object = json::parse(text, nullptr, false);
  try {
    const bool is_going = object.at("metadata").contains("deletionTimestamp");
    const json& spec = object.at("spec");
    seen.may_be_zero =
        !is_going && spec.contains("autoscaling") && spec["autoscaling"].value("minReplicas", 1) == 0;
    if (const auto status = object.find("status"); status != object.end()) {
      seen.service.port = status->value("activatorPort", 0);
      if (status->contains("queue")) seen.service.reason = (*status)["queue"].value("reason", "");
    }
  } catch (const json::exception& e) {
    return std::unexpected(not_read("InferenceService " + meta->key() + ": " + e.what()));
  }
  return seen;
}

client::Result<SeenSlice> slice_of(std::string_view text) {
  const auto meta = client::decode_meta(text);
  if (!meta) return std::unexpected(meta.error());
  SeenSlice seen;
  seen.meta = *meta;
  const json slice = json::parse(text, nullptr, false);
  try {
    seen.service =
        client::make_key(meta->ns, slice.at("metadata").at("labels").value(std::string(kServiceLabel), ""));
    const json ports = slice.value("ports", json::array());
    if (!ports.is_array() || ports.empty()) return seen;  // nobody is there
    const int port = ports[0].value("port", 0);
    const bool is_v6 = slice.value("addressType", "") == "IPv6";
    for (const json& endpoint : slice.value("endpoints", json::array())) {
      const json conditions = endpoint.value("conditions", json::object());
      if (!conditions.value("ready", true)) continue;
      const std::string address = endpoint.at("addresses").at(0);
      seen.ready.push_back(is_v6 ? fmt::format("[{}]:{}", address, port)
                                 : fmt::format("{}:{}", address, port));
    }
  } catch (const json::exception& e) {
    return std::unexpected(not_read("EndpointSlice " + meta->key() + ": " + e.what()));
  }
  return seen;
}

client::Resource of_services() {
  return {std::string(crds::kGroup), std::string(crds::kVersion),
          std::string(crds::InferenceService::kPlural)};
}

// A slice has the labels of its Service.
client::WatcherOptions of_muster() {
  client::WatcherOptions options;
  options.label_selector =
      std::string(kServiceLabel) + ",endpointslice.kubernetes.io/managed-by=endpointslice-controller.k8s.io";
  return options;
}

// The object that an event is about, and whether it is there.
template <class T>
std::pair<client::Ptr<T>, bool> told(const client::StoreEvent<T>& event) {
  if (const auto* added = std::get_if<client::Added<T>>(&event)) return {added->now, true};
  if (const auto* updated = std::get_if<client::Updated<T>>(&event)) return {updated->now, true};
  if (const auto* deleted = std::get_if<client::Deleted<T>>(&event)) return {deleted->last, false};
  return {};
}

}  // namespace

struct ClusterView::Impl {
  Impl(client::ApiClient& api, Doors& d)
      : doors(d),
        services(api, of_services(), service_of),
        slices(api, client::resources::kEndpointSlices, slice_of, of_muster()) {
    slices.store().add_index(kByService, [](const SeenSlice& slice) { return std::vector{slice.service}; });
    services.store().add_handler([this](const client::StoreEvent<SeenService>& event) {
      const auto [service, is_there] = told(event);
      if (!service) return;
      if (is_there && service->may_be_zero && service->service.port != 0)
        doors.set_service(service->meta.key(), service->service);
      else
        doors.remove_service(service->meta.key());
    });
    slices.store().add_handler([this](const client::StoreEvent<SeenSlice>& event) {
      const auto [slice, is_there] = told(event);
      if (!slice) return;
      std::vector<std::string> ready;
      for (const auto& one : slices.store().by_index(kByService, slice->service))
        ready.insert(ready.end(), one->ready.begin(), one->ready.end());
      std::ranges::sort(ready);
      const auto twice = std::ranges::unique(ready);
      ready.erase(twice.begin(), twice.end());
      doors.set_replicas(slice->service, ready);
    });
  }

  Doors& doors;
  client::Informer<SeenService> services;
  client::Informer<SeenSlice> slices;
};

ClusterView::ClusterView(client::ApiClient& api, Doors& doors) : impl_(std::make_unique<Impl>(api, doors)) {}
ClusterView::~ClusterView() = default;

void ClusterView::start(client::TaskGroup& tasks) {
  tasks.spawn(impl_->services.run());
  tasks.spawn(impl_->slices.run());
}

bool ClusterView::is_synced() const {
  return impl_->services.store().synced() && impl_->slices.store().synced();
}

}  // namespace muster::activator
