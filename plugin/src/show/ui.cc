// `kubectl muster ui`: what the page (ui/) is told by the command line.
#include <sstream>
#include <utility>

#include "muster/ui/serve.h"
#include "show/show.h"

namespace muster::plugin {

int run_ui(const Options& options, int port) {
  client::KubeconfigOptions from;
  from.path = options.kubeconfig;
  from.context = options.context;
  auto config = client::load_config(from);
  if (!config) return fail(said(config.error()));
  ui::ServeOptions serve;
  std::istringstream names(options.ns.empty() ? config->ns : options.ns);
  for (std::string ns; std::getline(names, ns, ',');) {
    if (!ns.empty()) serve.namespaces.push_back(ns);
  }
  serve.config = std::move(*config);
  serve.port = port;
  return ui::serve(std::move(serve));
}

}  // namespace muster::plugin
