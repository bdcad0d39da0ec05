#include "act/act.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>

namespace muster::plugin {
namespace {

// As kubectl names an object that it has changed.
std::string full_name(const std::string& kind, const std::string& name) {
  std::string small = kind;
  std::ranges::transform(small, small.begin(), [](unsigned char c) { return std::tolower(c); });
  return small + "." + std::string(crds::kGroup) + "/" + name;
}
std::string full_name(const Workload& workload) {
  return std::visit(
      []<class Kind>(const Kind& w) { return full_name(std::string(Kind::kKind), w.metadata.name); },
      workload);
}

client::ObjectRef ref_of(const Workload& workload) {
  return {meta_of(workload).ns, meta_of(workload).name};
}

bool has_ended(const crds::TrainingJob& job) {
  return job.status.phase == crds::Phase::kSucceeded || job.status.phase == crds::Phase::kFailed;
}

// Why its size cannot be changed; "": it can.
std::string fixed_size(const Workload& workload) {
  const auto* job = std::get_if<crds::TrainingJob>(&workload);
  if (job == nullptr || crds::is_elastic(job->spec)) return {};
  return fmt::format(
      "{} is not elastic: no role of it states minReplicas and maxReplicas. It has {} pods; to change that, "
      "edit spec.roles",
      name_of(job->metadata), crds::replicas_of(job->spec));
}

}  // namespace

int run_suspend(const Options& options, const std::string& name, bool suspend) {
  return with_workload(options, name, [&](Reader& reader, const Workload& workload) {
    const auto* job = std::get_if<crds::TrainingJob>(&workload);
    const std::string who = name_of(meta_of(workload));
    if (job == nullptr)
      return fail(who + " is an InferenceService, which has no spec.suspend; `kubectl muster scale " +
                  meta_of(workload).name + " 0` takes its replicas away");
    if (has_ended(*job)) return fail(who + " has ended");
    if (job->spec.suspend == suspend) {
      std::cout << full_name(workload) << (suspend ? " is suspended already\n" : " is not suspended\n");
      return 0;
    }
    const auto done =
        reader.patch(resource_of(workload), ref_of(workload), {{"spec", {{"suspend", suspend}}}});
    if (!done) return fail(said(done.error()));
    std::cout << full_name(workload)
              << (suspend ? " suspended: it saves, and gives its place back\n"
                          : " resumed: it is queued again, at its old place in the order\n");
    return 0;
  });
}

int run_scale(const Options& options, const std::string& name, std::int32_t replicas) {
  return with_workload(options, name, [&](Reader& reader, const Workload& workload) {
    const auto* job = std::get_if<crds::TrainingJob>(&workload);
    if (job != nullptr && job->spec.array) {  // whose scale subresource is about one index
      const auto done = reader.patch(resource_of(workload), ref_of(workload),
                                     {{"spec", {{"array", {{"parallelism", replicas}}}}}});
      if (!done) return fail(said(done.error()));
      std::cout << full_name(workload) << ": at most " << replicas << " of its indexes wait or run at once\n";
      return 0;
    }
    if (const auto why_not = fixed_size(workload); !why_not.empty()) return fail(why_not);
    const auto done =
        reader.patch(resource_of(workload), ref_of(workload), {{"spec", {{"replicas", replicas}}}}, "scale");
    if (!done) return fail(said(done.error()));
    std::cout << full_name(workload) << " scaled to " << replicas << '\n';
    const auto* service = std::get_if<crds::InferenceService>(&workload);
    if (service != nullptr && service->spec.autoscaling)
      std::cerr
          << "warning: its spec.autoscaling decides how many replicas it has, and this number does not\n";
    return 0;
  });
}

int run_retry(const Options& options, const std::string& name) {
  return with_workload(options, name, [&](Reader& reader, const Workload& workload) {
    const auto* job = std::get_if<crds::TrainingJob>(&workload);
    const std::string who = name_of(meta_of(workload));
    if (job == nullptr || !job->spec.array)
      return fail(who + " is no array: only the indexes of an array are run again");
    if (job->status.phase == crds::Phase::kSucceeded)
      return fail(who + " is Complete, and stays so: none of its indexes is run again");
    const auto status = job->status.array.value_or(crds::ArrayStatus{});
    if (status.failed == 0) return fail(who + " has no index that has failed");
    const std::int32_t next = std::max(job->spec.array->retry_failed.value_or(0), status.retried) + 1;
    // Two people who say it at once mean one retry: the second one is told that somebody was faster.
    const auto done = reader.patch(resource_of(workload), ref_of(workload),
                                   {{"metadata", {{"resourceVersion", job->metadata.resource_version}}},
                                    {"spec", {{"array", {{"retryFailed", next}}}}}});
    if (!done) return fail(said(done.error()));
    std::cout << full_name(workload) << ": indexes " << status.failed_indexes << " are run again\n";
    return 0;
  });
}

int run_submit(const Options& options, const Submission& submission, bool only_print) {
  const auto print_object = [&](const Data& object) {
    std::cout << (options.format == Format::kJson ? object.dump(2) + '\n' : to_yaml(object));
    return 0;
  };
  if (only_print && !options.ns.empty()) return print_object(job_of(submission, options.ns));
  return with_reader(options, [&](Reader& reader, const std::string& ns) {
    const Data job = job_of(submission, ns);
    if (only_print) return print_object(job);
    const auto made = reader.create(resource_of<crds::TrainingJob>(), ns, crds::Json::parse(job.dump()));
    if (!made) return fail(said(made.error()));
    if (options.format != Format::kTable) return print_object(Data::parse(made->dump()));
    const auto name = made->at("metadata").at("name").get<std::string>();
    std::cout << full_name(std::string(crds::TrainingJob::kKind), name) << " created\n"
              << "`kubectl muster why -n " << ns << ' ' << name << "` says what becomes of it.\n";
    return 0;
  });
}

}  // namespace muster::plugin
