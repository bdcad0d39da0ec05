// Keys and certificates of a test cluster: EC P-256, a few days valid.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "muster/testcluster/process.h"

namespace muster::testcluster {

// Texts in PEM.
struct KeyPair {
  std::string certificate;  // empty for a bare key
  std::string private_key;
  std::string public_key;
};

Result<KeyPair> make_key();
Result<KeyPair> make_authority(const std::string& name);
// For a server: names are its DNS names and IP addresses ("DNS:localhost", "IP:127.0.0.1").
Result<KeyPair> make_server_certificate(const KeyPair& authority, const std::vector<std::string>& names);
// For a client: Kubernetes takes the user from the common name and the groups from the organisations.
Result<KeyPair> make_client_certificate(const KeyPair& authority, const std::string& user,
                                        const std::vector<std::string>& groups);

}  // namespace muster::testcluster
