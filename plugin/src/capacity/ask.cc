#include "capacity/ask.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "capacity/nodes.h"
#include "capacity/pools.h"
#include "capacity/tree.h"
#include "muster/reconcilers/pods/names.h"
#include "output/missing.h"
#include "output/text.h"

namespace muster::plugin {
namespace {

// nullopt: it is forbidden, and `kind` is added to `missing`. Any other error is one.
template <class T>
std::expected<std::optional<T>, std::string> allowed(client::Result<T> result, std::string_view kind,
                                                     std::string& missing) {
  if (result) return std::optional<T>(std::move(*result));
  if (!is_forbidden(result.error())) return std::unexpected(said(result.error()));
  missing += (missing.empty() ? "" : ", ") + std::string(kind);
  return std::optional<T>();
}

// Pods that are neither of a job nor hold a GPU for jobs.
client::Result<std::vector<client::Pod>> pods_of_others(Reader& reader) {
  const auto list =
      reader.list_json(client::resources::kPods, {},
                       fmt::format("!{},!{}", reconcilers::kJobLabel, reconcilers::kHolderPodLabel));
  if (!list) return std::unexpected(list.error());
  std::vector<client::Pod> pods;
  for (const auto& item : *list) {
    auto pod = client::decode_pod(item.dump(), {});
    if (!pod) return std::unexpected(pod.error());
    pods.push_back(std::move(*pod));
  }
  return pods;
}

}  // namespace

std::expected<Listing, std::string> tree_for(Reader& reader, const std::string& ns, const std::string& pool) {
  std::string missing;
  auto queues = allowed(reader.list<crds::Queue>(), "queues", missing);
  if (!queues) return std::unexpected(queues.error());
  auto projects = allowed(reader.list<crds::Project>(), "projects", missing);
  if (!projects) return std::unexpected(projects.error());
  if (missing.empty()) {
    hold(**queues, **projects, reader.now());
    return tree(std::move(**queues), std::move(**projects), pool);
  }
  const auto jobs = reader.list<crds::TrainingJob>(ns);
  if (!jobs) return std::unexpected(said(jobs.error(), kAskForViewer));
  auto listing = tree_of_namespace(ns, *jobs, pool);
  note_missing(listing,
               fmt::format("You may not list {}: this is what namespace {} has, without quotas and what "
                           "others have. {}.",
                           missing, ns, kAskForViewer));
  return listing;
}

std::expected<Listing, std::string> pools_for(Reader& reader) {
  std::string missing;
  const auto all = allowed(reader.list<crds::NodePool>(), "nodepools", missing);
  if (!all) return std::unexpected(all.error());
  if (*all) return pools(**all);
  Listing listing;
  note_missing(listing, "You may not list nodepools: what is free is not shown.");
  return listing;
}

std::expected<Listing, std::string> nodes_for(Reader& reader, const std::string& ns) {
  std::string missing;
  const auto all = allowed(reader.nodes(), "nodes", missing);
  if (!all) return std::unexpected(all.error());
  const auto pools = allowed(reader.list<crds::NodePool>(), "nodepools", missing);
  if (!pools) return std::unexpected(pools.error());
  const bool sees_nodes = missing.empty();
  auto jobs = allowed(reader.list<crds::TrainingJob>(), "trainingjobs of all namespaces", missing);
  if (!jobs) return std::unexpected(jobs.error());
  const bool sees_jobs = jobs->has_value();
  if (!sees_jobs) {
    auto own = reader.list<crds::TrainingJob>(ns);
    if (!own) return std::unexpected(said(own.error(), kAskForViewer));
    *jobs = std::move(*own);
  }
  const auto others = sees_nodes && sees_jobs ? pods_of_others(reader) : std::vector<client::Pod>{};
  if (!others && !is_forbidden(others.error())) return std::unexpected(said(others.error()));
  const auto seen = others ? *others : std::vector<client::Pod>{};
  auto uses = sees_nodes ? node_uses(**all, **jobs, **pools, seen) : node_uses_of(**jobs);
  if (!sees_jobs) {
    for (auto& node : uses) node.is_known_whole = false;
  }
  auto listing = nodes(uses);
  listing.if_empty = sees_nodes ? "No node has GPUs.\n" : "No job in namespace " + ns + " has GPUs.\n";
  if (!missing.empty())
    note_missing(listing, fmt::format("You may not list {}: _ is a GPU of which you may not see who has it.",
                                      missing));
  if (!others) {
    listing.about["othersAreKnown"] = false;
    note_missing(
        listing,
        "You may not list pods of all namespaces: what pods that are not Muster's hold counts as free.");
  }
  return listing;
}

}  // namespace muster::plugin
