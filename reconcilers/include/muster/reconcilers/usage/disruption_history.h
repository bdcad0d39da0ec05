// The disturbances of the jobs of one namespace, also of jobs that are gone. A job's status has its latest
// ones (status.disruptions); here they are kept when it goes.
//
// They are kept in several small files, of which a new line changes one. So a write is small however much is
// remembered. When the last file is full, the one with the oldest lines is begun anew. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "muster/crds/training_job.h"

namespace muster::reconcilers {

// The ConfigMaps that have the files, in the namespace of the jobs: "muster-disruptions-0" and on. Each has
// the label, with the value "true", and one JSON object a line under this key.
std::string disruptions_name(std::size_t file);
inline constexpr std::string_view kDisruptionsLabel = "muster.dev/disruptions";
inline constexpr std::string_view kDisruptionsKey = "lines";

struct PastDisruption {
  std::string job;   // its name
  std::string user;  // label muster.dev/user; "": not said
  crds::Disruption what;
  bool operator==(const PastDisruption&) const = default;
};
// One line, without its end.
std::string line_of(const PastDisruption& one);
// nullopt: that is no such line.
std::optional<PastDisruption> parse_disruption(std::string_view line);
std::vector<PastDisruption> parse_disruptions(std::string_view text);

class DisruptionHistory {
 public:
  static constexpr std::size_t kFiles = 11;
  static constexpr std::size_t kMaxLines = 100;         // of a file: so the latest 1,000 are always there
  static constexpr std::size_t kMaxBytes = 128 * 1024;  // of a file

  // What was written into this file. A line that cannot be read is left out: people may have edited it.
  void load(std::size_t file, std::string_view text);
  // Adds it, or corrects what is known of the same one: its cost may only be known when the job has left. One
  // that is older than all that is remembered, where all files are in use, was dropped before: it is not
  // taken up again. Complexity: O(lines of a file) where a file is begun anew, else O(log lines).
  void note(PastDisruption one);

  // Files that are other than they were last written or loaded. Whoever writes one takes it out first.
  std::set<std::size_t>& changed() { return changed_; }
  // Oldest first.
  std::string text_of(std::size_t file) const;
  std::size_t size() const { return lines_.size(); }

 private:
  using Key = std::tuple<crds::Time, std::string, std::string>;  // when, job and reason
  static Key key_of(const PastDisruption& one) { return {one.what.at, one.job, one.what.reason}; }
  struct Line {
    PastDisruption one;
    std::size_t file = 0, bytes = 0;
  };
  struct File {
    std::size_t lines = 0, bytes = 0;
  };
  void put(PastDisruption one, std::size_t file);
  void begin_next_file();

  std::map<Key, Line> lines_;
  std::vector<File> files_ = std::vector<File>(kFiles);
  std::size_t current_ = 0;
  std::set<std::size_t> changed_;
};

}  // namespace muster::reconcilers
