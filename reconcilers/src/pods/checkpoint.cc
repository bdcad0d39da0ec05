#include "muster/reconcilers/pods/checkpoint.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "muster/reconcilers/common/json_reader.h"
#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/pods/pod_identity.h"

namespace muster::reconcilers {
namespace {

using crds::Json;

constexpr std::size_t kMaxText = 4096;
constexpr std::size_t kMaxUri = 1024;
constexpr std::int32_t kKilled = 137;

// A line break or a NUL in a variable would keep the next attempt from starting.
bool is_plain(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

std::optional<crds::SavedStep> parse_line(std::string_view line) {
  const Json whole = Json::parse(line, nullptr, false);
  if (!whole.is_object()) return std::nullopt;
  const Json* step = find(&whole, "checkpoint", "step");
  if (step == nullptr || !step->is_number_integer()) return std::nullopt;
  const bool too_large = step->is_number_unsigned() &&
                         step->get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  if (too_large || step->get<std::int64_t>() < 0) return std::nullopt;
  crds::SavedStep saved{step->get<std::int64_t>(), {}};
  if (const Json* uri = find(&whole, "checkpoint", "uri"); uri != nullptr) {
    if (!uri->is_string()) return std::nullopt;
    saved.uri = uri->get<std::string>();
    if (saved.uri.size() > kMaxUri || !is_plain(saved.uri)) return std::nullopt;
  }
  return saved;
}

// Of its containers the one that has saved least.
std::optional<crds::SavedStep> last_words(const client::Pod& pod) {
  std::optional<crds::SavedStep> least;
  for (const auto& end : pod.ended) {
    auto saved = parse_report(end.message);
    if (saved && (!least || *saved->step < *least->step)) least = std::move(saved);
  }
  return least;
}

// How long the pod took to end when it was told to go. 0: it was not told, or that is not known. A pod that
// was killed would have needed longer than it had, so it counts as one second more. That holds only if it was
// ready when it was told: a program that still starts cannot hear yet.
std::int64_t saving_took(const client::Pod& pod, bool reported, bool told_ready) {
  if (!pod.deleting || pod.grace_seconds <= 0) return 0;
  std::int64_t ended = 0;
  bool killed = false;
  for (const auto& end : pod.ended) {
    ended = std::max(ended, end.finished_at);
    killed = killed || (end.exit_code == kKilled && end.reason != "OOMKilled");
  }
  if (ended == 0) return 0;
  // This holds for a pod with a report too: the report is then of a save before it was told to go.
  if (killed && ended >= pod.deleted_at) return told_ready ? pod.grace_seconds + 1 : 0;
  return reported ? std::max<std::int64_t>(1, ended - (pod.deleted_at - pod.grace_seconds)) : 0;
}

// After a restart of ours some pods of the attempt may be gone, and their words with them.
bool have_all_reported(const crds::CheckpointStatus& known, const GangReport& report,
                       std::int32_t gang_pods) {
  return report.reporters >= std::min(known.reporters, gang_pods);
}

}  // namespace

std::optional<crds::SavedStep> parse_report(std::string_view text) {
  if (text.size() > kMaxText) return std::nullopt;
  while (!text.empty()) {
    const std::size_t at = text.find_last_of('\n');
    const std::string_view line = at == std::string_view::npos ? text : text.substr(at + 1);
    if (line.find('{') != std::string_view::npos) {
      if (auto saved = parse_line(line)) return saved;
    }
    text = at == std::string_view::npos ? std::string_view() : text.substr(0, at);
  }
  return std::nullopt;
}

void CheckpointReports::note(const client::Pod& pod, crds::Time now) {
  if (departed_.contains(pod.meta.uid)) return;
  const bool told_ready = pod.deleting && pod.ready && pod.ended.empty();
  const std::string* annotation = client::find_value(pod.annotations, kCheckpointAnnotation);
  if (annotation == nullptr && pod.ended.empty() && !told_ready) return;
  const auto id = identity_of(pod);
  if (!id) return;
  if (told_ready) told_ready_.emplace(pod.meta.uid, id->attempt);
  auto saved = last_words(pod);
  const std::int64_t took = saving_took(pod, saved.has_value(), told_ready_.contains(pod.meta.uid));
  const bool in_time = saved && took > 0 && took <= pod.grace_seconds;
  if (!saved && annotation != nullptr) saved = parse_report(*annotation);
  if (!saved && took == 0) return;
  PodReport& report = attempts_[id->attempt][{id->role, id->index}];
  report.save_seconds = std::max(report.save_seconds, took);
  report.saved_when_told = report.saved_when_told || in_time;
  report.pod = pod.meta.name;
  if (!saved || report.saved == *saved) return;
  report.saved = std::move(*saved);
  report.at = now;
}

std::vector<GangReport> CheckpointReports::gangs() const {
  std::vector<GangReport> list;
  for (const auto& [attempt, pods] : attempts_) {
    GangReport gang;
    gang.attempt = attempt;
    for (const auto& [place, report] : pods) {
      gang.save_seconds = std::max(gang.save_seconds, report.save_seconds);
      if (!report.saved.step) continue;
      ++gang.reporters;
      gang.saved_when_told += report.saved_when_told ? 1 : 0;
      if (gang.saved.step && *gang.saved.step <= *report.saved.step) continue;
      gang.saved = report.saved;
      gang.at = report.at;
      gang.pod = report.pod;
    }
    list.push_back(std::move(gang));
  }
  return list;
}

void CheckpointReports::depart(const client::Pod& pod) {
  const auto id = identity_of(pod);
  if (!id || !departed_.emplace(pod.meta.uid, id->attempt).second) return;
  const auto attempt = attempts_.find(id->attempt);
  if (attempt == attempts_.end()) return;
  const auto report = attempt->second.find({id->role, id->index});
  if (report != attempt->second.end() && report->second.pod == pod.meta.name) attempt->second.erase(report);
}

void CheckpointReports::keep_members(const std::string& job, const crds::Assignment& gang) {
  const auto attempt = attempts_.find(gang.attempt);
  if (attempt == attempts_.end()) return;
  std::set<std::string> members;
  for (const auto& place : gang.pods)
    members.insert(pod_name(job, place.role, place.index, gang.attempt, place.tries));
  std::erase_if(attempt->second, [&](const auto& report) { return !members.contains(report.second.pod); });
}

void CheckpointReports::forget_before(std::int32_t attempt) {
  for (auto* list : {&departed_, &told_ready_})
    std::erase_if(*list, [&](const auto& pod) { return pod.second < attempt; });
  attempts_.erase(attempts_.begin(), attempts_.lower_bound(attempt));
}

void take_over(crds::CheckpointStatus& known, const GangReport& report, std::int32_t gang_pods) {
  known.save_seconds = std::max(known.save_seconds, report.save_seconds);
  if (!report.saved.step || report.attempt < known.attempt) return;
  const bool same_attempt = known.step && report.attempt == known.attempt;
  if (!have_all_reported(known, report, gang_pods)) return;
  const bool same = same_attempt && known.step == report.saved.step && known.uri == report.saved.uri;
  known.reporters = report.reporters;
  if (same) return;
  known.step = report.saved.step;
  known.uri = report.saved.uri;
  known.saved_at = report.at;
  known.reported_by = report.pod;
  known.attempt = report.attempt;
}

bool saved_when_told(const crds::CheckpointStatus& known, const GangReport& report, std::int32_t gang_pods) {
  return report.reporters > 0 && report.saved_when_told == report.reporters &&
         have_all_reported(known, report, gang_pods);
}

std::int64_t grace_seconds(const crds::TrainingJobSpec& spec) {
  if (spec.checkpoint) return spec.checkpoint->grace_period.count();
  std::optional<std::int64_t> least;
  for (const auto& role : spec.roles) {
    std::int64_t grace = kDefaultGraceSeconds;
    const Json* stated = find(role.pod_template.value.get(), "spec", "terminationGracePeriodSeconds");
    if (stated != nullptr && stated->is_number_integer()) grace = stated->get<std::int64_t>();
    if (!least || grace < *least) least = grace;
  }
  return least.value_or(kDefaultGraceSeconds);
}

}  // namespace muster::reconcilers
