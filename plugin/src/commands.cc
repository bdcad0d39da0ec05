#include "commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iostream>
#include <set>
#include <utility>

#include "nodes.h"
#include "queue.h"
#include "reader.h"
#include "text.h"
#include "tree.h"
#include "why.h"

namespace muster::plugin {
namespace {

int fail(const std::string& what) {
  std::cerr << "error: " << what << '\n';
  return 1;
}

std::string said(const client::Error& error) {
  return error.message.empty() ? client::to_string(error) : error.message;
}

int with_reader(const Options& options, const std::function<int(Reader&, const std::string& ns)>& run) {
  client::KubeconfigOptions from;
  from.path = options.kubeconfig;
  from.context = options.context;
  const auto config = client::load_config(from);
  if (!config) return fail(said(config.error()));
  Reader reader(*config);
  return run(reader, options.ns.empty() ? config->ns : options.ns);
}

template <class Kind>
int tell_why(Reader& reader, const std::string& ns, const std::string& name) {
  const auto found = reader.get<Kind>(ns, name);
  if (!found) return fail(said(found.error()));
  std::string text = why(*found, reader.now());
  for (std::size_t at = 0; at != std::string::npos;) {
    const std::size_t end = text.find('\n', at);
    std::cout << wrapped(std::string_view(text).substr(at, end == std::string::npos ? end : end - at))
              << '\n';
    at = end == std::string::npos ? end : end + 1;
  }
  return 0;
}

}  // namespace

int run_why(const Options& options, const std::string& name) {
  constexpr std::array<std::string_view, 3> kJobs = {"trainingjob", "trainingjobs", "tj"};
  constexpr std::array<std::string_view, 3> kServices = {"inferenceservice", "inferenceservices", "isvc"};
  const std::size_t slash = name.find('/');
  const std::string kind = slash == std::string::npos ? "" : name.substr(0, slash);
  const std::string object = slash == std::string::npos ? name : name.substr(slash + 1);
  const bool is_job = std::ranges::find(kJobs, kind) != kJobs.end();
  const bool is_service = std::ranges::find(kServices, kind) != kServices.end();
  if (object.empty() || (!kind.empty() && !is_job && !is_service)) {
    std::cerr << "error: \"" << name << "\" is none of NAME, trainingjob/NAME and inferenceservice/NAME\n";
    return 2;
  }
  return with_reader(options, [&](Reader& reader, const std::string& ns) {
    if (is_job) return tell_why<crds::TrainingJob>(reader, ns, object);
    if (is_service) return tell_why<crds::InferenceService>(reader, ns, object);
    const auto job = reader.get<crds::TrainingJob>(ns, object);
    if (job || job.error().code != client::ErrorCode::kNotFound)
      return tell_why<crds::TrainingJob>(reader, ns, object);
    const auto service = reader.get<crds::InferenceService>(ns, object);
    if (service) return tell_why<crds::InferenceService>(reader, ns, object);
    return fail(fmt::format("there is neither a TrainingJob nor an InferenceService \"{}\" in namespace {}",
                            object, ns));
  });
}

int run_tree(const Options& options) {
  return with_reader(options, [](Reader& reader, const std::string&) {
    const auto queues = reader.list<crds::Queue>();
    if (!queues) return fail(said(queues.error()));
    const auto projects = reader.list<crds::Project>();
    if (!projects) return fail(said(projects.error()));
    if (queues->empty() && projects->empty()) {
      std::cout << "There are no Queues and no Projects.\n";
      return 0;
    }
    std::cout << tree(*queues, *projects)
              << "\nGPUs of the default pool. # used, + borrowed, - quota that is idle.\n";
    return 0;
  });
}

int run_queue(const Options& options) {
  return with_reader(options, [&options](Reader& reader, const std::string& ns) {
    const std::string where = options.all_namespaces ? "" : ns;
    const auto jobs = reader.list<crds::TrainingJob>(where);
    if (!jobs) return fail(said(jobs.error()));
    const std::string text = queue(*jobs, reader.now());
    if (text.empty()) {
      std::cout << (where.empty() ? "Nothing waits.\n" : "Nothing waits in namespace " + where + ".\n");
    } else {
      std::cout << text;
    }
    return 0;
  });
}

int run_nodes(const Options& options) {
  return with_reader(options, [](Reader& reader, const std::string&) {
    const auto all = reader.nodes();
    if (!all) return fail(said(all.error()));
    const auto pools = reader.list<crds::NodePool>();
    if (!pools) return fail(said(pools.error()));
    const auto jobs = reader.list<crds::TrainingJob>();
    if (!jobs) return fail(said(jobs.error()));
    std::set<std::string> resources;
    for (const auto& pool : *pools) resources.insert(pool.spec.gpu_resource);
    const std::string text = nodes(*all, *jobs, resources);
    std::cout << (text.empty() ? "No node has GPUs.\n" : text);
    return 0;
  });
}

}  // namespace muster::plugin
