#include "show/disruptions.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "muster/reconcilers/usage/run_times.h"
#include "output/text.h"

namespace muster::plugin {

std::vector<Taken> taken_from(const std::vector<crds::TrainingJob>& jobs, const std::vector<Taken>& kept) {
  using Key = std::tuple<std::string, std::string, crds::Time, std::string>;
  const auto key_of = [](const Taken& t) { return Key{t.ns, t.one.job, t.one.what.at, t.one.what.reason}; };
  std::vector<Taken> all;
  std::set<Key> known;
  std::map<std::pair<std::string, std::string>, crds::Time> made;  // the jobs that are there
  for (const auto& job : jobs) {
    made[{job.metadata.ns, job.metadata.name}] = job.metadata.creation_timestamp.value_or(crds::Time{});
    for (const auto& one : job.status.disruptions) {
      all.push_back({job.metadata.ns, {job.metadata.name, reconcilers::user_of(job), one}});
      known.insert(key_of(all.back()));
    }
  }
  for (Taken one : kept) {
    if (known.contains(key_of(one))) continue;
    const auto job = made.find({one.ns, one.one.job});
    one.is_gone = job == made.end() || job->second > one.one.what.at;  // then it is another one of that name
    all.push_back(std::move(one));
  }
  std::ranges::stable_sort(all, std::ranges::greater{}, [](const Taken& t) { return t.one.what.at; });
  return all;
}

std::optional<std::vector<crds::Project>> projects_below(const std::string& queue,
                                                         const std::vector<crds::Queue>& queues,
                                                         const std::vector<crds::Project>& projects) {
  std::set<std::string> below;
  for (const auto& q : queues) {
    if (q.metadata.name == queue) below.insert(queue);
  }
  if (below.empty()) return std::nullopt;
  // Parents may form a circle: it ends when nothing is added.
  for (std::size_t before = 0; before != below.size();) {
    before = below.size();
    for (const auto& q : queues) {
      if (below.contains(q.spec.parent)) below.insert(q.metadata.name);
    }
  }
  std::vector<crds::Project> found;
  for (const auto& project : projects) {
    if (below.contains(project.spec.queue)) found.push_back(project);
  }
  std::ranges::sort(found, {}, [](const auto& project) { return project.metadata.name; });
  return found;
}

Listing disruptions(const std::vector<Taken>& taken, crds::Time now) {
  Listing listing;
  listing.columns = {{"WHEN", "at"},       {"AGO", "", Shown::kTables}, {"NAMESPACE", "namespace"},
                     {"JOB", "job"},       {"", "gone", Shown::kData},  {"USER", "user", Shown::kWideAndData},
                     {"REASON", "reason"}, {"GPUS GIVEN", "gave"},      {"COST", "costSeconds"},
                     {"OWED", "owed"},     {"MESSAGE", "message"}};
  for (const auto& [ns, one, is_gone] : taken) {
    listing.rows.push_back({{cell(crds::to_string(one.what.at)),
                             cell(for_people(now - one.what.at)),
                             cell(ns),
                             {one.job + (is_gone ? " (gone)" : ""), one.job},
                             {"", is_gone},
                             cell(one.user),
                             cell(one.what.reason),
                             cell(crds::to_string(one.what.gave)),
                             {for_people(std::chrono::seconds(one.what.cost)), one.what.cost},
                             {one.what.owed ? "yes" : "no", one.what.owed},
                             cell(one.what.message)}});
  }
  listing.footer =
      "COST is GPU time: work done again, saving and starting. OWED: the others had a right to it.\n";
  return listing;
}

}  // namespace muster::plugin
