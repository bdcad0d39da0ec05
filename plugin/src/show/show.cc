#include "show/show.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <utility>

#include "capacity/nodes.h"
#include "capacity/tree.h"
#include "muster/reconcilers/pods/names.h"
#include "show/disruptions.h"
#include "show/queue.h"
#include "show/usage.h"
#include "show/why.h"

namespace muster::plugin {
namespace {

Since since_of(const std::string& text) {
  if (text == "1d") return Since::kDay;
  if (text == "7d") return Since::kWeek;
  return text == "all" ? Since::kAll : Since::kMonth;
}

template <class Kind, class Lines>
int usage_of(Reader& reader, Format format, const std::string& title, Lines lines) {
  const auto objects = reader.list<Kind>();
  if (!objects) return fail(said(objects.error(), kAskForViewer));
  return show(usage(lines(*objects), title, reader.now()), format);
}

int usage_of_pools(Reader& reader, Format format, Since span) {
  const auto pools = reader.list<crds::NodePool>();
  if (!pools) return fail(said(pools.error(), kAskForViewer));
  return usage_of<crds::Project>(reader, format, "POOL",
                                 [&](const auto& projects) { return usage_by_pool(projects, span, *pools); });
}

int usage_of_jobs(Reader& reader, const Options& options, const std::string& ns) {
  const auto jobs = reader.list<crds::TrainingJob>(options.all_namespaces ? "" : ns);
  if (!jobs) return fail(said(jobs.error(), options.all_namespaces ? kLeaveOutAll : ""));
  auto listing = usage(usage_by_job(*jobs, reader.now()), "JOB", reader.now());
  listing.if_empty = "There are no jobs with GPUs.\n";
  return show(listing, options.format);
}

// Who may not list jobs is told the rest all the same.
std::vector<Ahead> find_ahead(Reader& reader, const Workload& workload, bool in_all_namespaces) {
  const auto* job = std::get_if<crds::TrainingJob>(&workload);
  if (job == nullptr || job->status.phase != crds::Phase::kQueued || job->status.queue.position <= 1)
    return {};
  const auto jobs = reader.list<crds::TrainingJob>(in_all_namespaces ? "" : job->metadata.ns);
  return jobs ? ahead_of(*job, *jobs) : std::vector<Ahead>{};
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

int show_disruptions(Reader& reader, const Options& options, const std::vector<crds::TrainingJob>& jobs,
                     const std::string& of_what) {
  auto listing = disruptions(jobs, reader.now());
  listing.if_empty = "No disruption of " + of_what + " is remembered.\n";
  return show(listing, options.format);
}

}  // namespace

int run_why(const Options& options, const std::string& name) {
  const auto wanted = parse_workload_name(name);
  if (!wanted) return wrong_use(wanted.error());
  return with_reader(options, [&](Reader& reader, const std::string& ns) {
    const auto workload = find_workload(reader, ns, *wanted);
    // An index that has ended, or has not begun, has no job that could be asked.
    const std::string of_index = workload ? "" : say_index_without_job(reader, ns, *wanted);
    if (!workload && of_index.empty()) return fail(said(workload.error()));
    const auto ahead =
        workload ? find_ahead(reader, *workload, options.all_namespaces) : std::vector<Ahead>{};
    if (options.format == Format::kTable) {
      std::cout << wrapped(workload ? why(*workload, reader.now(), ahead) : of_index) << '\n';
      return 0;
    }
    const Data data =
        workload
            ? why_data(*workload, reader.now(), ahead)
            : Data{{"kind", crds::TrainingJob::kKind}, {"namespace", ns}, {"name", name}, {"text", of_index}};
    std::cout << (options.format == Format::kYaml ? to_yaml(data) : data.dump(2) + '\n');
    return 0;
  });
}

int run_tree(const Options& options, const std::string& pool) {
  return with_reader(options, [&](Reader& reader, const std::string&) {
    auto queues = reader.list<crds::Queue>();
    if (!queues) return fail(said(queues.error(), kAskForViewer));
    auto projects = reader.list<crds::Project>();
    if (!projects) return fail(said(projects.error(), kAskForViewer));
    hold(*queues, *projects, reader.now());
    const auto listing = tree(std::move(*queues), std::move(*projects), pool);
    return listing ? show(*listing, options.format) : fail(listing.error());
  });
}

int run_queue(const Options& options) {
  return with_reader(options, [&](Reader& reader, const std::string& ns) {
    const std::string where = options.all_namespaces ? "" : ns;
    const auto jobs = reader.list<crds::TrainingJob>(where);
    if (!jobs) return fail(said(jobs.error(), where.empty() ? kLeaveOutAll : ""));
    auto listing = queue(*jobs, reader.now());
    listing.if_empty = where.empty() ? "Nothing waits.\n" : "Nothing waits in namespace " + where + ".\n";
    return show(listing, options.format);
  });
}

int run_nodes(const Options& options) {
  return with_reader(options, [&](Reader& reader, const std::string&) {
    constexpr std::string_view kHelp =
        "It needs the right to list Nodes, NodePools (ClusterRole muster-viewer), and TrainingJobs of all "
        "namespaces";
    const auto all = reader.nodes();
    if (!all) return fail(said(all.error(), kHelp));
    const auto pools = reader.list<crds::NodePool>();
    if (!pools) return fail(said(pools.error(), kHelp));
    const auto jobs = reader.list<crds::TrainingJob>();
    if (!jobs) return fail(said(jobs.error(), kHelp));
    const auto others = pods_of_others(reader);
    const bool may_not = !others && others.error().code == client::ErrorCode::kForbidden;
    if (!others && !may_not) return fail(said(others.error()));
    auto listing = nodes(node_uses(*all, *jobs, *pools, may_not ? std::vector<client::Pod>{} : *others));
    if (may_not) {
      listing.about["othersAreKnown"] = false;
      listing.footer +=
          "You may not list pods of all namespaces: what pods that are not Muster's hold counts as free.\n";
    }
    listing.if_empty = "No node has GPUs.\n";
    return show(listing, options.format);
  });
}

int run_usage(const Options& options, const std::string& by, const std::string& since) {
  const Since span = since_of(since);
  const bool is_by_day = by == "user" || by == "pool" || by == "model";
  if (by == "job" && !since.empty())
    return wrong_use("--since is not for --by job: what a job has used is counted over its whole life");
  if (is_by_day && span == Since::kAll)
    return wrong_use("--since all is not for --by " + by + ": the days go back 31 days at most");
  return with_reader(options, [&](Reader& reader, const std::string& ns) {
    if (by == "job") return usage_of_jobs(reader, options, ns);
    if (by == "queue") {
      return usage_of<crds::Queue>(reader, options.format, "QUEUE",
                                   [&](const auto& queues) { return usage_by_queue(queues, span); });
    }
    if (by == "pool") return usage_of_pools(reader, options.format, span);
    std::string title = by;
    std::ranges::transform(title, title.begin(), [](unsigned char c) { return std::toupper(c); });
    return usage_of<crds::Project>(reader, options.format, title, [&](const auto& projects) {
      if (by == "user") return usage_by_user(projects, span);
      if (by == "model") return usage_by_model(projects, span);
      return usage_by_project(projects, span);
    });
  });
}

int run_disruptions(const Options& options, const std::string& name) {
  if (!name.empty()) {
    return with_workload(options, name, [&](Reader& reader, const Workload& workload) {
      const auto* job = std::get_if<crds::TrainingJob>(&workload);
      const std::string who = name_of(meta_of(workload));
      if (job == nullptr)
        return fail(who + " is an InferenceService; its replicas are TrainingJobs, which have disruptions");
      return show_disruptions(reader, options, {*job}, who);
    });
  }
  return with_reader(options, [&](Reader& reader, const std::string& ns) {
    const std::string where = options.all_namespaces ? "" : ns;
    const auto jobs = reader.list<crds::TrainingJob>(where);
    if (!jobs) return fail(said(jobs.error(), where.empty() ? kLeaveOutAll : ""));
    return show_disruptions(reader, options, *jobs,
                            where.empty() ? "any job" : "a job in namespace " + where);
  });
}

}  // namespace muster::plugin
