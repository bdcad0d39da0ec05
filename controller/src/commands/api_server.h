// Which API server a command talks to.
#pragma once

#include <optional>
#include <string>

#include "muster/client/config.h"

namespace muster::controller {

// nullopt, and the reason in the log: there is no way to one.
std::optional<client::ClientConfig> find_api_server(const std::string& kubeconfig,
                                                    const std::string& context);

}  // namespace muster::controller
