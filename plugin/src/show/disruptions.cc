#include "show/disruptions.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "output/text.h"

namespace muster::plugin {

Listing disruptions(const std::vector<crds::TrainingJob>& jobs, crds::Time now) {
  std::vector<std::pair<const crds::TrainingJob*, const crds::Disruption*>> all;
  for (const auto& job : jobs) {
    for (const auto& one : job.status.disruptions) all.emplace_back(&job, &one);
  }
  std::ranges::stable_sort(all, std::ranges::greater{}, [](const auto& one) { return one.second->at; });
  Listing listing;
  listing.columns = {
      {"WHEN", "at"},        {"AGO", "", Shown::kTables}, {"NAMESPACE", "namespace"}, {"JOB", "job"},
      {"REASON", "reason"},  {"GPUS GIVEN", "gave"},      {"COST", "costSeconds"},    {"OWED", "owed"},
      {"MESSAGE", "message"}};
  for (const auto& [job, one] : all) {
    listing.rows.push_back({{cell(crds::to_string(one->at)),
                             cell(for_people(now - one->at)),
                             cell(job->metadata.ns),
                             cell(job->metadata.name),
                             cell(one->reason),
                             cell(crds::to_string(one->gave)),
                             {for_people(std::chrono::seconds(one->cost)), one->cost},
                             {one->owed ? "yes" : "no", one->owed},
                             cell(one->message)}});
  }
  listing.footer =
      "COST is GPU time: work done again, saving and starting. OWED: the others had a right to it.\n";
  return listing;
}

}  // namespace muster::plugin
