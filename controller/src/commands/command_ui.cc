#include <utility>

#include "commands/api_server.h"
#include "commands/commands.h"
#include "muster/reconcilers/common/log.h"
#include "muster/ui/serve.h"

namespace muster::controller {

using reconcilers::log_error;
using reconcilers::log_info;
using reconcilers::log_warn;

int run_ui(const UiOptions& options) {
  set_up_logging(options.log_format, options.log_level);
  const bool is_encrypted = !options.certificate.empty();
  if (!is_encrypted && !server::is_loopback(options.address)) {
    log_error("cannot serve",
              {{"error", "--address \"" + options.address +
                             "\": users send their tokens here, so it needs --tls-cert-file and "
                             "--tls-private-key-file, or an address of the loopback"}});
    return 2;
  }
  auto config = find_api_server(options.kubeconfig, options.context);
  if (!config) return 2;
  log_info("starting", {{"version", MUSTER_VERSION}, {"server", config->server}, {"config", config->origin}});
  ui::ClusterOptions serve;
  serve.config = std::move(*config);
  serve.address = options.address;
  if (is_encrypted) serve.listen.certificate = server::CertificateFiles{options.certificate, options.key};
  serve.listen.warn = [](const std::string& what) { log_warn("serving", {{"problem", what}}); };
  serve.listens = [](int port) { log_info("serving", {{"what", "page"}, {"port", std::to_string(port)}}); };
  const auto served = ui::serve(std::move(serve));
  if (!served) {
    log_error("cannot serve", {{"error", served.error()}});
    return 2;
  }
  log_info("stopped", {});
  return 0;
}

}  // namespace muster::controller
