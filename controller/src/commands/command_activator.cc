#include <utility>

#include "commands/api_server.h"
#include "commands/commands.h"
#include "muster/activator/serve.h"
#include "muster/reconcilers/common/log.h"

namespace muster::controller {

using reconcilers::log_error;
using reconcilers::log_info;
using reconcilers::log_warn;

int run_activator(const ActivatorOptions& options) {
  set_up_logging(options.log_format, options.log_level);
  auto config = find_api_server(options.kubeconfig, options.context);
  if (!config) return 2;
  log_info("starting", {{"version", MUSTER_VERSION}, {"server", config->server}, {"config", config->origin}});
  activator::ActivatorOptions serve;
  serve.config = std::move(*config);
  serve.address = options.address;
  serve.admin_address = options.admin_address;
  serve.bounds.requests = static_cast<std::size_t>(options.max_requests);
  serve.bounds.bytes = static_cast<std::size_t>(options.max_mebibytes) << 20;
  serve.bounds.per_replica = static_cast<std::size_t>(options.max_per_replica);
  serve.bounds.time = std::chrono::seconds{options.hold_seconds};
  serve.drain = std::chrono::seconds{options.drain_seconds};
  serve.warn = [](const std::string& what) { log_warn("serving", {{"problem", what}}); };
  serve.inform = [](const std::string& what) { log_info(what, {}); };
  const auto served = activator::serve(std::move(serve));
  if (!served) {
    log_error("cannot serve", {{"error", served.error()}});
    return 2;
  }
  log_info("stopped", {});
  return 0;
}

}  // namespace muster::controller
