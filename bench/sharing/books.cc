#include "sharing/books.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace muster::bench {

using nlohmann::json;

// Each part of a sum is told in whole seconds: useful time, and five causes of loss.
constexpr double kNumbersPerSum = 6;

// --- GPUs

GpuBook::GpuBook(const std::vector<TraceNode>& nodes) {
  for (const TraceNode& n : nodes) {
    names_[n.name] = nodes_.size();
    nodes_.emplace_back(static_cast<std::size_t>(n.gpus));
    free_of_.push_back(n.gpus);
    if (nodes_by_free_.size() <= static_cast<std::size_t>(n.gpus))
      nodes_by_free_.resize(static_cast<std::size_t>(n.gpus) + 1);
    ++nodes_by_free_[static_cast<std::size_t>(n.gpus)];
  }
}

std::optional<GpuBook::Gpu> GpuBook::find(const std::string& node, std::int64_t index) const {
  const auto found = names_.find(node);
  if (found == names_.end() || index < 0) return std::nullopt;
  const auto i = static_cast<std::size_t>(index);
  return i < nodes_[found->second].size() ? std::optional(Gpu{found->second, i}) : std::nullopt;
}

void GpuBook::set(Gpu gpu, State state) {
  One& one = nodes_[gpu.first][gpu.second];
  ++one.stamp;
  held_ += (state == State::kHeld ? 1 : 0) - (one.state == State::kHeld ? 1 : 0);
  leaving_count_ += (state == State::kLeaving ? 1 : 0) - (one.state == State::kLeaving ? 1 : 0);
  const int more_free = (state == State::kFree ? 1 : 0) - (one.state == State::kFree ? 1 : 0);
  one.state = state;
  std::int64_t& free = free_of_[gpu.first];
  --nodes_by_free_[static_cast<std::size_t>(free)];
  free += more_free;
  ++nodes_by_free_[static_cast<std::size_t>(free)];
}

bool GpuBook::take(Gpu gpu) {
  if (nodes_[gpu.first][gpu.second].state == State::kHeld) return false;
  set(gpu, State::kHeld);
  return true;
}
void GpuBook::give_back(Gpu gpu) {
  set(gpu, State::kFree);
}
void GpuBook::leave(Gpu gpu, std::int64_t until) {
  set(gpu, State::kLeaving);
  due_.emplace(until, std::pair(gpu, nodes_[gpu.first][gpu.second].stamp));
}
void GpuBook::pass(std::int64_t now) {
  while (!due_.empty() && due_.begin()->first <= now) {
    const auto [gpu, stamp] = due_.begin()->second;
    due_.erase(due_.begin());
    if (nodes_[gpu.first][gpu.second].stamp == stamp) set(gpu, State::kFree);
  }
}
std::optional<std::int64_t> GpuBook::next() const {
  return due_.empty() ? std::nullopt : std::optional(due_.begin()->first);
}

// --- jobs

DayBook::DayBook(const Day& day, Sharing policy, DayOutcome& out)
    : day_(day),
      policy_(policy),
      out_(out),
      gpus_(day.nodes),
      open_(day.projects.size()),
      used_(day.projects.size()),
      firm_(day.projects.size()) {
  for (const DayJob& job : day.jobs) {
    by_name_[job.name] = jobs_.size();
    jobs_.emplace_back().is = &job;
  }
}

void DayBook::wrong(const std::string& what) {
  if (out_.violations.size() < kMaxDayViolations)
    out_.violations.push_back("at " + std::to_string(at_) + "s: " + what);
  else if (out_.violations.size() == kMaxDayViolations)
    out_.violations.emplace_back("and more");
}

DayBook::Job* DayBook::find(const std::string& object) {
  const auto found = by_name_.find(object.substr(object.find('/') + 1));
  return found == by_name_.end() ? nullptr : &jobs_[found->second];
}

// --- time

void DayBook::account(std::int64_t to) {
  if (to <= at_) return;
  const auto seconds = static_cast<double>(to - at_);
  held_at_least_ += seconds * static_cast<double>(gpus_.held());
  held_at_most_ += seconds * static_cast<double>(gpus_.held() + gpus_.leaving());
  const IdleRoom idle = idle_room(gpus_.nodes_by_free(), waiting_, growth_);
  for (std::size_t i = 0; i < idle.size(); ++i) out_.idle[i] += seconds * idle[i];
  at_ = to;
}

void DayBook::submit_until(std::int64_t now) {
  for (; next_ < jobs_.size() && jobs_[next_].is->arrives <= now; ++next_) {
    Job& job = jobs_[next_];
    account(job.is->arrives);
    job.is_submitted = true;
    auto& open = open_[job.is->project];
    std::erase_if(open, [&](std::size_t i) { return jobs_[i].is_over; });
    open.push_back(next_);
    job.is_entitled = is_within_quota(job);
    for (const std::size_t i : open) {  // what comes later and goes first takes its quota
      Job& other = jobs_[i];
      if (!other.admitted && other.is->priority < job.is->priority)
        other.is_entitled = other.is_entitled && is_within_quota(other);
    }
    wait_as(job, "");
  }
}

// The minimums of all jobs of its project that go before it, and its own.
bool DayBook::is_within_quota(const Job& job) const {
  std::int64_t sum = 0;
  bool is_earlier = true;
  for (const std::size_t i : open_[job.is->project]) {
    const Job& other = jobs_[i];
    if (&other == &job) is_earlier = false;
    if (other.is_over) continue;
    const bool goes_first =
        other.is->priority > job.is->priority || (other.is->priority == job.is->priority && is_earlier);
    if (goes_first || &other == &job) sum += other.is->least();
  }
  return sum <= day_.projects[job.is->project].quota;
}

void DayBook::advance(std::int64_t to) {
  for (auto next = gpus_.next(); next && *next < to; next = gpus_.next()) {
    submit_until(*next - 1);
    account(*next);
    gpus_.pass(*next);
  }
  submit_until(to);
  account(to);
  gpus_.pass(to);
}

// --- waiting

void DayBook::wait_no_more(Job& job) {
  if (!job.wish) return;
  const auto found = waiting_.find(*job.wish);
  if (--found->second == 0) waiting_.erase(found);
  job.wish.reset();
}

void DayBook::wait_as(Job& job, const std::string& reason) {
  wait_no_more(job);
  job.wish = Wish{job.is->least_pods, job.is->gpus, reason};
  ++waiting_[*job.wish];
}

double DayBook::waited(const Job& job) const {
  return static_cast<double>(job.admitted.value_or(day_.window) - job.is->arrives);
}

// --- places

std::vector<GpuBook::Gpu> DayBook::gpus_of(const Job& job, const json& pods) {
  const DayJob& is = *job.is;
  const auto count = static_cast<std::int64_t>(pods.size());
  if (count < is.least_pods || count > is.pods) wrong(is.name + " has " + std::to_string(count) + " pods");
  std::vector<GpuBook::Gpu> gpus;
  for (const json& pod : pods) {
    const json& indexes = pod.at("gpus");
    if (indexes.size() != static_cast<std::size_t>(is.gpus))
      wrong("a pod of " + is.name + " has " + std::to_string(indexes.size()) + " GPUs");
    for (const json& index : indexes) {
      const auto gpu = gpus_.find(pod.at("node").get<std::string>(), index.get<std::int64_t>());
      if (gpu) {
        gpus.push_back(*gpu);
      } else {
        wrong(is.name + " has a GPU that there is not");
      }
    }
  }
  std::ranges::sort(gpus);
  return gpus;
}

// `gpus` more, or fewer.
void DayBook::charge(Job& job, std::int64_t gpus) {
  const std::size_t p = job.is->project;
  used_[p] += gpus;
  if (job.is->is_interactive) firm_[p] += gpus;
  if (gpus <= 0 || policy_ == Sharing::kFifo) return;
  const DayProject& project = day_.projects[p];
  if (job.is->is_interactive && firm_[p] > project.quota)
    wrong(project.name + " is above its quota with jobs that are not preemptible");
  if (policy_ == Sharing::kStaticQuotas && used_[p] > project.quota)
    wrong(project.name + " is above its limit");
}

void DayBook::take(Job& job, const json& pods) {
  const std::string& name = job.is->name;
  if (!job.is_submitted) wrong(name + " starts before it is submitted");
  if (!job.gpus.empty()) {
    wrong(name + " starts while it still has a place");
    give_back(job);
  }
  wait_no_more(job);
  if (!job.admitted) job.admitted = at_;
  job.gpus = gpus_of(job, pods);
  job.works = true;
  for (const GpuBook::Gpu gpu : job.gpus) {
    if (!gpus_.take(gpu)) wrong("a GPU is given twice, to " + name);
  }
  charge(job, static_cast<std::int64_t>(job.gpus.size()));
  growth_ += job.is->full() - static_cast<std::int64_t>(job.gpus.size());
}

void DayBook::resize(Job& job, const json& event) {
  if (job.gpus.empty()) return wrong(job.is->name + " is resized and does not run");
  if (job.is->resizing == Resizing::kNever) wrong(job.is->name + " is resized and not elastic");
  ++out_.resizes;
  auto now = gpus_of(job, event.at("pods"));
  std::vector<GpuBook::Gpu> gone, more;
  std::ranges::set_difference(job.gpus, now, std::back_inserter(gone));
  std::ranges::set_difference(now, job.gpus, std::back_inserter(more));
  const std::int64_t saves = job.is->saves_when_asked ? kSaveSeconds : kDayGraceSeconds;
  for (const GpuBook::Gpu gpu : gone) gpus_.leave(gpu, at_ + saves);
  for (const GpuBook::Gpu gpu : more) {
    if (!gpus_.take(gpu)) wrong("a GPU is given twice, to " + job.is->name);
  }
  if (job.is->resizing == Resizing::kRestart) {
    if (at_ >= job.unmade_until) job.unmade.clear();
    job.unmade.insert(job.unmade.end(), more.begin(), more.end());
    job.unmade_until = at_ + saves;
  }
  const auto grown = static_cast<std::int64_t>(now.size()) - static_cast<std::int64_t>(job.gpus.size());
  job.gpus = std::move(now);
  growth_ -= grown;
  charge(job, grown);
}

// Where it has no pods yet, nobody has to leave.
void DayBook::give_back_unmade(Job& job) {
  if (at_ >= job.unmade_until) return;
  for (const GpuBook::Gpu gpu : std::exchange(job.unmade, {})) {
    if (std::erase(job.gpus, gpu) == 0) continue;
    gpus_.give_back(gpu);
    charge(job, -1);
  }
}

void DayBook::give_back(Job& job) {
  if (job.gpus.empty()) return;
  for (const GpuBook::Gpu gpu : job.gpus) gpus_.give_back(gpu);
  charge(job, -static_cast<std::int64_t>(job.gpus.size()));
  if (job.works) growth_ -= job.is->full() - static_cast<std::int64_t>(job.gpus.size());
  job.gpus.clear();
  job.works = false;
}

// --- events

void DayBook::asked_to_give(Job& job, const json& event, const std::string& type) {
  const auto& beneficiary = event.at("for").get_ref<const std::string&>();
  if (job.is->is_interactive) wrong(job.is->name + " is not preemptible and has to give way (" + type + ")");
  if (beneficiary.empty()) wrong(job.is->name + " has to give way for nobody (" + type + ")");
  if (Job* const claimant = find(beneficiary); claimant != nullptr && !claimant->first_victim)
    claimant->first_victim = at_;
  if (type == "Shrunk") return;
  if (!job.works) return wrong(job.is->name + " is asked to go and does not run");
  job.works = false;
  growth_ -= job.is->full() - static_cast<std::int64_t>(job.gpus.size());
  give_back_unmade(job);
  ++(type == "Evicted" ? out_.preemptions : out_.moves);
  wait_as(job, type == "Evicted" ? "" : "WaitingForVictims");  // what moves has its place kept
}

void DayBook::play(const json& event) {
  const auto& type = event.at("type").get_ref<const std::string&>();
  const auto& object = event.at("object").get_ref<const std::string&>();
  advance(std::stoll(event.at("at").get_ref<const std::string&>()));  // "12s"
  Job* const found = find(object);
  if (found == nullptr) return wrong(type + " of " + object + ", which was never submitted");
  Job& job = *found;
  if (type == "Admitted" || type == "Restarted") {
    take(job, event.at("pods"));
  } else if (type == "Evicted" || type == "Moved") {
    asked_to_give(job, event, type);
  } else if (type == "Shrunk" || type == "Grown") {
    if (type == "Shrunk") asked_to_give(job, event, type);
    resize(job, event);
  } else if (type == "Released") {
    give_back(job);
  } else if (type == "Finished") {
    give_back(job);
    wait_no_more(job);
    job.is_over = true;
  } else if (type == "Waiting") {
    if (job.wish) wait_as(job, event.at("reason").get<std::string>());
  } else {
    wrong(type + " of " + object + ", which is not known");
  }
}

void DayBook::close() {
  advance(day_.window);
  out_.allocated = held_at_least_;
  for (Job& job : jobs_) {
    if (!job.is_submitted) continue;
    const double wait = waited(job);
    DayWaits& waits = out_.waits;
    (job.is->is_interactive ? waits.interactive
     : job.is_entitled      ? waits.entitled
                            : waits.beyond_quota)
        .push_back(wait);
    if (!job.admitted) ++out_.not_started;
    const std::int64_t until = job.admitted.value_or(day_.window);
    const bool had_victims = job.first_victim && *job.first_victim <= until;
    const auto saving = had_victims ? std::min(until - *job.first_victim, kDayGraceSeconds) : 0;
    const double beyond_grace = wait - static_cast<double>(saving);
    job.story = out_.stories.size();
    out_.stories.push_back({job.is->name, job.is_entitled, beyond_grace});
    if (job.is_entitled) waits.beyond_grace.push_back(beyond_grace);
  }
}

// --- sums

void DayBook::compare(const json& report) {
  const json& metrics = report.at("metrics");
  const auto differs = [&](const std::string& what, double told, double least, double most) {
    if (told < least || told > most)
      wrong(what + " is " + std::to_string(told) + ", counted " + std::to_string(least) + " to " +
            std::to_string(most));
  };
  out_.capacity = static_cast<double>(day_.gpus() * day_.window);
  const auto allocated = metrics.at("gpuSecondsAllocated").get<double>();
  differs("gpuSecondsCapacity", metrics.at("gpuSecondsCapacity").get<double>(), out_.capacity, out_.capacity);
  differs("gpuSecondsAllocated", allocated, held_at_least_ - 1, held_at_most_ + 1);
  out_.allocated = allocated;
  out_.useful = metrics.at("gpuSecondsUseful").get<double>();
  const json& lost = metrics.at("gpuSecondsLost");
  out_.lost_work = lost.at("work").get<double>();
  out_.stopping = lost.at("stopping").get<double>();
  out_.first_starts = lost.at("starting").get<double>();
  out_.restarting = lost.at("restarting").get<double>();
  out_.resizing = lost.at("resizing").get<double>();
  const double sum = out_.useful + out_.first_starts + out_.lost();
  differs("useful and lost GPU time", sum, allocated - kNumbersPerSum, allocated + kNumbersPerSum);
  double useful = 0;
  for (const json& entry : report.at("jobs")) {
    const Job* const job = find(entry.at("name").get<std::string>());
    if (job == nullptr) {
      wrong(entry.at("name").get<std::string>() + " was never submitted");
      continue;
    }
    useful += entry.at("gpuSecondsUseful").get<double>();
    out_.useful_of[job->is->project] +=
        entry.at("gpuSecondsUseful").get<double>() + entry.at("gpuSecondsLost").at("starting").get<double>();
    if (job->admitted) out_.attempts.push_back(entry.at("attempt").get<double>());
    if (job->story) out_.stories[*job->story].attempts = entry.at("attempt").get<double>();
    const double wait = waited(*job);
    differs("waitedSeconds of " + job->is->name, entry.at("waitedSeconds").get<double>(), wait, wait);
  }
  differs("gpuSecondsUseful", out_.useful, useful - 1, useful + static_cast<double>(jobs_.size()));
}

DayOutcome day_outcome(const json& report, const Day& day, Sharing policy) {
  DayOutcome out;
  out.useful_of.assign(day.projects.size(), 0);
  DayBook book(day, policy, out);
  for (const json& event : report.at("events")) book.play(event);
  book.close();
  book.compare(report);
  return out;
}

}  // namespace muster::bench
