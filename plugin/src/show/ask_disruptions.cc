// Reads what `kubectl muster disruptions` lists: jobs, and what is kept of those that are gone.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/reconcilers/pods/names.h"
#include "output/missing.h"
#include "show/disruptions.h"
#include "show/show.h"

namespace muster::plugin {
namespace {

struct Found {
  std::vector<crds::TrainingJob> jobs;
  std::vector<Taken> kept;
  bool kept_forbidden = false;
};

// `ns` empty: everywhere.
client::Result<void> add(Reader& reader, const std::string& ns, Found& found) {
  auto jobs = reader.list<crds::TrainingJob>(ns);
  if (!jobs) return std::unexpected(jobs.error());
  const auto files = reader.list_json(client::resources::kConfigMaps, ns,
                                      std::string(reconcilers::kDisruptionsLabel) + "=true");
  if (!files && !is_forbidden(files.error())) return std::unexpected(files.error());
  found.kept_forbidden = found.kept_forbidden || !files;
  std::ranges::move(*jobs, std::back_inserter(found.jobs));
  if (!files) return {};
  const auto lines = crds::Json::json_pointer("/data/" + std::string(reconcilers::kDisruptionsKey));
  for (const auto& file : *files) {
    const auto of = file.value("/metadata/namespace"_json_pointer, std::string());
    if (!file.contains(lines) || !file[lines].is_string()) continue;
    for (auto& one : reconcilers::parse_disruptions(file[lines].get_ref<const std::string&>()))
      found.kept.push_back({of, std::move(one)});
  }
  return {};
}

int print_found(Reader& reader, const DisruptionsAsked& asked, const Options& options, const Found& found,
                std::string of_what, const std::vector<std::string>& missing) {
  auto taken = taken_from(found.jobs, found.kept);
  if (asked.since)
    std::erase_if(taken, [&](const Taken& t) { return t.one.what.at < reader.now() - *asked.since; });
  if (!asked.name.empty()) std::erase_if(taken, [&](const Taken& t) { return t.one.job != asked.name; });
  auto listing = disruptions(taken, reader.now());
  const std::string since = asked.since ? " in the last " + crds::to_string(*asked.since) : "";
  listing.if_empty = "No disruption of " + of_what + since + " is remembered.\n";
  for (const auto& sentence : missing) note_missing(listing, sentence);
  if (found.kept_forbidden)
    note_missing(listing, "You may not list configmaps there: of jobs that are gone nothing is shown.");
  return show(listing, options.format);
}

int of_namespace(Reader& reader, const DisruptionsAsked& asked, const Options& options, const std::string& ns,
                 std::vector<std::string> missing = {}) {
  Found found;
  const auto read = add(reader, ns, found);
  if (!read) return fail(said(read.error()));
  return print_found(reader, asked, options, found, "a job in namespace " + ns, missing);
}

int everywhere(Reader& reader, const DisruptionsAsked& asked, const Options& options, const std::string& ns) {
  Found found;
  const auto read = add(reader, "", found);
  if (read) return print_found(reader, asked, options, found, "any job", {});
  if (!is_forbidden(read.error())) return fail(said(read.error()));
  return of_namespace(reader, asked, options, ns, {only_namespace("trainingjobs", ns)});
}

int of_project(Reader& reader, const DisruptionsAsked& asked, const Options& options) {
  const auto projects = reader.list<crds::Project>();
  if (!projects && !is_forbidden(projects.error())) return fail(said(projects.error()));
  // Usually its namespace has its name.
  if (!projects) {
    return of_namespace(
        reader, asked, options, asked.project,
        {fmt::format("You may not list projects: namespace {} is taken for that of Project {}.",
                     asked.project, asked.project)});
  }
  const auto project =
      std::ranges::find(*projects, asked.project, [](const auto& one) { return one.metadata.name; });
  if (project == projects->end()) return fail("there is no Project \"" + asked.project + "\"");
  return of_namespace(reader, asked, options, crds::namespace_of(*project));
}

// Everywhere at once where that is allowed: there may be hundreds of Projects.
int of_queue(Reader& reader, const DisruptionsAsked& asked, const Options& options) {
  const auto queues = reader.list<crds::Queue>();
  if (!queues) return fail(said(queues.error(), kAskForViewer));
  const auto projects = reader.list<crds::Project>();
  if (!projects) return fail(said(projects.error(), kAskForViewer));
  const auto below = projects_below(asked.queue, *queues, *projects);
  if (!below) return fail("there is no Queue \"" + asked.queue + "\"");
  std::vector<std::string> namespaces;
  for (const auto& project : *below) namespaces.push_back(crds::namespace_of(project));
  const auto is_below = [&](const std::string& ns) {
    return std::ranges::find(namespaces, ns) != namespaces.end();
  };
  Found found;
  std::string hidden;
  const auto all = add(reader, "", found);
  if (!all && !is_forbidden(all.error())) return fail(said(all.error()));
  std::erase_if(found.jobs, [&](const auto& job) { return !is_below(job.metadata.ns); });
  std::erase_if(found.kept, [&](const Taken& one) { return !is_below(one.ns); });
  for (std::size_t i = 0; i < namespaces.size() && !all; ++i) {
    const auto read = add(reader, namespaces[i], found);
    if (!read && !is_forbidden(read.error())) return fail(said(read.error()));
    if (!read) hidden += (hidden.empty() ? "" : ", ") + namespaces[i];
  }
  std::vector<std::string> missing;
  if (!hidden.empty())
    missing.push_back("You may not list trainingjobs in these namespaces, which are left out: " + hidden +
                      ".");
  return print_found(reader, asked, options, found, "a job below Queue " + asked.queue, missing);
}

// One that is gone has no object, and may have lines.
int of_job(Reader& reader, const DisruptionsAsked& asked, const Options& options, const std::string& ns) {
  const auto wanted = parse_workload_name(asked.name);
  if (!wanted) return wrong_use(wanted.error());
  const auto workload = find_workload(reader, ns, *wanted);
  if (workload && std::holds_alternative<crds::InferenceService>(*workload)) {
    return fail(name_of(meta_of(*workload)) +
                " is an InferenceService; its replicas are TrainingJobs, which have disruptions");
  }
  if (!workload && workload.error().code != client::ErrorCode::kNotFound) return fail(said(workload.error()));
  DisruptionsAsked of = asked;
  of.name = workload ? meta_of(*workload).name : wanted->name;
  if (!workload && wanted->index) of.name = reconcilers::index_job_name(wanted->name, *wanted->index);
  Found found;
  const auto read = add(reader, ns, found);
  if (!read) return fail(said(read.error()));
  const bool has_lines =
      std::ranges::any_of(found.kept, [&](const Taken& t) { return t.one.job == of.name; });
  if (!workload && !has_lines) return fail(said(workload.error()));
  return print_found(reader, of, options, found, ns + "/" + of.name, {});
}

}  // namespace

int run_disruptions(const Options& options, const DisruptionsAsked& asked) {
  const int ways = (asked.name.empty() ? 0 : 1) + (asked.project.empty() ? 0 : 1) +
                   (asked.queue.empty() ? 0 : 1) + (options.all_namespaces ? 1 : 0);
  if (ways > 1) return wrong_use("only one of NAME, --project, --queue and -A can be asked about");
  return with_reader(options, [&](Reader& reader, const std::string& ns) {
    if (!asked.queue.empty()) return of_queue(reader, asked, options);
    if (!asked.project.empty()) return of_project(reader, asked, options);
    if (!asked.name.empty()) return of_job(reader, asked, options, ns);
    return options.all_namespaces ? everywhere(reader, asked, options, ns)
                                  : of_namespace(reader, asked, options, ns);
  });
}

}  // namespace muster::plugin
