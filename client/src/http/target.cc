#include "http/target.h"

#include <curl/curl.h>

#include <memory>
#include <new>

#include "muster/client/api.h"

namespace muster::client {

std::string percent_encode(std::string_view text) {
  if (text.empty()) return {};  // libcurl would take a length of 0 for "up to the zero byte"
  const std::unique_ptr<char, decltype(&curl_free)> encoded(
      curl_easy_escape(nullptr, text.data(), static_cast<int>(text.size())), curl_free);
  if (!encoded) throw std::bad_alloc();
  return encoded.get();
}

Target& Target::with(std::string_view key, std::string_view value) {
  if (value.empty()) return *this;
  text_ += has_query_ ? '&' : '?';
  has_query_ = true;
  text_ += key;
  text_ += '=';
  text_ += percent_encode(value);
  return *this;
}

std::string Resource::path(std::string_view ns, std::string_view name, std::string_view subresource) const {
  std::string out = group.empty() ? "/api/" + version : "/apis/" + group + "/" + version;
  if (!ns.empty()) out += "/namespaces/" + percent_encode(ns);
  out += "/" + plural;
  if (!name.empty()) out += "/" + percent_encode(name);
  if (!subresource.empty()) out += "/" + std::string{subresource};
  return out;
}

namespace resources {
const Resource kPods{"", "v1", "pods"};
const Resource kNodes{"", "v1", "nodes", false};
const Resource kNamespaces{"", "v1", "namespaces", false};
const Resource kServices{"", "v1", "services"};
const Resource kConfigMaps{"", "v1", "configmaps"};
const Resource kSecrets{"", "v1", "secrets"};
const Resource kPersistentVolumeClaims{"", "v1", "persistentvolumeclaims"};
const Resource kPersistentVolumes{"", "v1", "persistentvolumes", false};
const Resource kStorageClasses{"storage.k8s.io", "v1", "storageclasses", false};
const Resource kLeases{"coordination.k8s.io", "v1", "leases"};
const Resource kEvents{"events.k8s.io", "v1", "events"};
const Resource kPriorityClasses{"scheduling.k8s.io", "v1", "priorityclasses", false};
const Resource kServiceAccounts{"", "v1", "serviceaccounts"};
const Resource kRoleBindings{"rbac.authorization.k8s.io", "v1", "rolebindings"};
const Resource kPodDisruptionBudgets{"policy", "v1", "poddisruptionbudgets"};
const Resource kNetworkPolicies{"networking.k8s.io", "v1", "networkpolicies"};
const Resource kEndpointSlices{"discovery.k8s.io", "v1", "endpointslices"};
const Resource kCustomResourceDefinitions{"apiextensions.k8s.io", "v1", "customresourcedefinitions", false};
}  // namespace resources

}  // namespace muster::client
