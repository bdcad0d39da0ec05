#include "url.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>

#include "muster/client/api.h"

namespace muster::client {

std::string percent_encode(std::string_view text) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const bool unreserved = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                            c == '-' || c == '.' || c == '_' || c == '~';
    if (unreserved) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

std::string_view host_of(std::string_view url) {
  const auto start = url.find("://");
  const std::string_view rest = start == std::string_view::npos ? url : url.substr(start + 3);
  return rest.substr(0, rest.find('/'));
}

std::string with_host(std::string_view url, std::string_view host) {
  const std::string_view old = host_of(url);
  std::string out{url};
  out.replace(static_cast<std::size_t>(old.data() - url.data()), old.size(), host);
  return out;
}

bool is_loopback(std::string_view host_and_port) {
  const bool bracketed = host_and_port.starts_with('[');
  const auto end = std::min(host_and_port.find(bracketed ? ']' : ':'), host_and_port.size());
  std::string_view host = host_and_port.substr(0, end);
  if (bracketed) {
    const std::string_view after = host_and_port.substr(end).substr(end < host_and_port.size() ? 1 : 0);
    if (!after.empty() && !after.starts_with(':')) return false;
    host.remove_prefix(1);
  }
  if (host == "localhost") return true;
  boost::system::error_code not_an_address;
  const auto address = boost::asio::ip::make_address(host, not_an_address);
  return !not_an_address && address.is_loopback();
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
const Resource kCustomResourceDefinitions{"apiextensions.k8s.io", "v1", "customresourcedefinitions", false};
}  // namespace resources

}  // namespace muster::client
