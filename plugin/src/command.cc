#include "command.h"

#include <iostream>

#include "output/terminal.h"

namespace muster::plugin {

int fail(const std::string& what) {
  std::cerr << "error: " << what << '\n';
  return kFailed;
}

int wrong_use(const std::string& what) {
  std::cerr << "error: " << what << '\n';
  return kWrongUse;
}

int with_reader(const Options& options, const std::function<int(Reader&, const std::string&)>& run) {
  client::KubeconfigOptions from;
  from.path = options.kubeconfig;
  from.context = options.context;
  const auto config = client::load_config(from);
  if (!config) return fail(said(config.error()));
  Reader reader(*config);
  return run(reader, options.ns.empty() ? config->ns : options.ns);
}

int with_workload(const Options& options, const std::string& name,
                  const std::function<int(Reader&, const Workload&)>& run) {
  const auto wanted = parse_workload_name(name);
  if (!wanted) return wrong_use(wanted.error());
  return with_reader(options, [&](Reader& reader, const std::string& ns) {
    const auto found = find_workload(reader, ns, *wanted);
    return found ? run(reader, *found) : fail(said(found.error()));
  });
}

int show(const Listing& listing, Format format) {
  std::cout << print(listing, format, wants_colours());
  if (format == Format::kCsv && listing.about.contains("missing")) {
    for (const auto& sentence : listing.about["missing"]) std::cerr << sentence.get<std::string>() << '\n';
  }
  return 0;
}

}  // namespace muster::plugin
