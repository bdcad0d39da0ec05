// Running a credential plugin (client.authentication.k8s.io).
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <string_view>

#include "muster/client/config.h"
#include "muster/client/object.h"

namespace muster::client {

struct ExecCredential {
  Secret token;
  Secret certificate_pem, key_pem;
  std::optional<WallTime> expires;
};

// Blocks until the plugin ends, at most a minute (it is then killed), or `stop` is set. For a thread of its
// own.
Result<Secret> run_plugin(const ExecPlugin& plugin, const std::atomic<bool>& stop);

// What the plugin printed. Errors never quote it.
Result<ExecCredential> parse_exec_credential(std::string_view json, const ExecPlugin& plugin);

}  // namespace muster::client
