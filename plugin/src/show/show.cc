#include "show/show.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <utility>

#include "capacity/ask.h"
#include "output/missing.h"
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

// Everywhere if that is asked for and allowed, else in the namespace. `missing`: what could not be seen.
client::Result<std::vector<crds::TrainingJob>> jobs_of(Reader& reader, const Options& options,
                                                       const std::string& ns, std::string& missing) {
  if (!options.all_namespaces) return reader.list<crds::TrainingJob>(ns);
  auto jobs = reader.list<crds::TrainingJob>();
  if (jobs || !is_forbidden(jobs.error())) return jobs;
  missing = only_namespace("trainingjobs", ns);
  return reader.list<crds::TrainingJob>(ns);
}

// `instead_of`: what was asked for and may not be seen; "": this.
int usage_of_jobs(Reader& reader, const Options& options, const std::string& ns,
                  const std::string& instead_of = {}) {
  std::string missing = instead_of;
  const auto jobs = jobs_of(reader, options, ns, missing);
  if (!jobs) return fail(said(jobs.error()));
  auto listing = usage(usage_by_job(*jobs, reader.now()), "JOB", reader.now());
  listing.if_empty = "There are no jobs with GPUs.\n";
  if (!missing.empty()) note_missing(listing, missing);
  return show(listing, options.format);
}

template <class Kind, class Lines>
int usage_of(Reader& reader, const Options& options, const std::string& ns, const std::string& title,
             Lines lines) {
  const auto objects = reader.list<Kind>();
  if (!objects && is_forbidden(objects.error())) {
    return usage_of_jobs(
        reader, options, ns,
        fmt::format("You may not list {}: this is what jobs of namespace {} that are still there "
                    "have used. {}.",
                    Kind::kPlural, ns, kAskForViewer));
  }
  if (!objects) return fail(said(objects.error()));
  return show(usage(lines(*objects), title, reader.now()), options.format);
}

int usage_of_pools(Reader& reader, const Options& options, const std::string& ns, Since span) {
  const auto pools = reader.list<crds::NodePool>();
  if (!pools && !is_forbidden(pools.error())) return fail(said(pools.error()));
  const auto known = pools ? *pools : std::vector<crds::NodePool>{};
  return usage_of<crds::Project>(reader, options, ns, "POOL",
                                 [&](const auto& projects) { return usage_by_pool(projects, span, known); });
}

// Who may not list jobs is told the rest all the same.
std::vector<Ahead> find_ahead(Reader& reader, const Workload& workload, bool in_all_namespaces) {
  const auto* job = std::get_if<crds::TrainingJob>(&workload);
  if (job == nullptr || job->status.phase != crds::Phase::kQueued || job->status.queue.position <= 1)
    return {};
  const auto jobs = reader.list<crds::TrainingJob>(in_all_namespaces ? "" : job->metadata.ns);
  return jobs ? ahead_of(*job, *jobs) : std::vector<Ahead>{};
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
  return with_reader(options, [&](Reader& reader, const std::string& ns) {
    const auto listing = tree_for(reader, ns, pool);
    return listing ? show(*listing, options.format) : fail(listing.error());
  });
}

int run_queue(const Options& options) {
  return with_reader(options, [&](Reader& reader, const std::string& ns) {
    std::string missing;
    const auto jobs = jobs_of(reader, options, ns, missing);
    if (!jobs) return fail(said(jobs.error()));
    auto listing = queue(*jobs, reader.now());
    const bool is_everywhere = options.all_namespaces && missing.empty();
    listing.if_empty = is_everywhere ? "Nothing waits.\n" : "Nothing waits in namespace " + ns + ".\n";
    if (!missing.empty()) note_missing(listing, missing);
    return show(listing, options.format);
  });
}

int run_nodes(const Options& options) {
  return with_reader(options, [&](Reader& reader, const std::string& ns) {
    const auto listing = nodes_for(reader, ns);
    return listing ? show(*listing, options.format) : fail(listing.error());
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
      return usage_of<crds::Queue>(reader, options, ns, "QUEUE",
                                   [&](const auto& queues) { return usage_by_queue(queues, span); });
    }
    if (by == "pool") return usage_of_pools(reader, options, ns, span);
    std::string title = by;
    std::ranges::transform(title, title.begin(), [](unsigned char c) { return std::toupper(c); });
    return usage_of<crds::Project>(reader, options, ns, title, [&](const auto& projects) {
      if (by == "user") return usage_by_user(projects, span);
      if (by == "model") return usage_by_model(projects, span);
      return usage_by_project(projects, span);
    });
  });
}

}  // namespace muster::plugin
