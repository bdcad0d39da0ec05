#include "commands/api_server.h"

#include "muster/reconcilers/common/log.h"

namespace muster::controller {

std::optional<client::ClientConfig> find_api_server(const std::string& kubeconfig,
                                                    const std::string& context) {
  auto config = client::load_config({.path = kubeconfig, .context = context});
  if (config) return *std::move(config);
  reconcilers::log_error("no way to an API server", {{"error", client::to_string(config.error())}});
  return std::nullopt;
}

}  // namespace muster::controller
