#include "muster/simulate/simulation.h"

#include <algorithm>
#include <stdexcept>

#include "muster/reconcilers/placement/placement_specs.h"
#include "report/expectations.h"
#include "world/world.h"

namespace muster::simulate {
namespace {

// Decisions of one instant follow from each other; so many can only go round in circles.
constexpr int kMaxRounds = 10'000;
// When nothing but time is left to wait for, and so many wake-ups have changed nothing, nothing will.
constexpr int kMaxIdleWakes = 1000;
// A schedule never ends. When all that is stated has been, and it has changed something so often (two changes
// a day are more than a year), it is over.
constexpr int kMaxScheduled = 1000;

pl::Time whole_seconds(pl::Time t) {
  return {(t.ms + 999) / 1000 * 1000};
}

}  // namespace

bool World::happens_by_itself(Due due) {
  switch (due) {
    case Due::kLook:
    case Due::kReading:
    case Due::kServe:
    case Due::kRound:
    case Due::kWake:
      return false;
    default:
      return true;
  }
}

void World::agenda_add(pl::Time at, Due due, Gang* gang, std::size_t index, std::uint32_t version,
                       std::string node) {
  agenda_.push({at, order_++, due, gang, index, version, std::move(node)});
  if (happens_by_itself(due)) ++to_come_;
}

void World::run_to(std::optional<pl::Time> until,
                   const std::function<void(const simulate::Progress&)>& tell_progress) {
  std::vector<Entry> due;
  const auto goes_on = [this] {
    return errors.empty() && (to_come_ > 0 || (idle_ < kMaxIdleWakes && !is_left_to_schedules_)) &&
           scheduled_alone_ < kMaxScheduled;
  };
  while (!agenda_.empty() && goes_on()) {
    const pl::Time at = agenda_.top().at;
    if (until && at > *until) break;
    due.clear();
    while (!agenda_.empty() && agenda_.top().at == at) {
      due.push_back(agenda_.top());
      agenda_.pop();
      if (happens_by_itself(due.back().due)) --to_come_;
    }
    account(at);
    const std::size_t events_before = events.size();
    play_instant(due);
    const bool is_quiet = events.size() == events_before;
    const auto all_are = [&](std::initializer_list<Due> kinds) {
      return std::ranges::all_of(due, [&](const Entry& e) { return std::ranges::count(kinds, e.due) > 0; });
    };
    const bool only_looked = is_quiet && all_are({Due::kWake, Due::kReading, Due::kRound, Due::kServe});
    if (!only_looked) idle_ = 0, last_ = now, last_metrics_ = metrics;
    if (is_quiet && all_are({Due::kWake})) ++idle_;
    if (tell_progress) tell_progress({to_instant(now), jobs_, finished_jobs_, events.size()});
  }
  if (until) account(*until);
}

void World::end() {
  // Without an end it is over when the last thing has happened, not when all was waited for.
  if (!options_.until) now = last_, metrics = last_metrics_;
  // What comes later than the end was not looked at.
  while (!agenda_.empty()) {
    const Entry& e = agenda_.top();
    if (e.due == Due::kExpectation && errors.empty()) {
      const Expectation& x = input_.expectations[e.index];
      failures.push_back(x.source.location("at") + ": at " + crds::to_string(x.at) +
                         ": was not checked: the simulation ends at " + crds::to_string(to_instant(now)) +
                         " (--until)");
    }
    agenda_.pop();
  }
}

void World::play_instant(std::vector<Entry>& due) {
  std::vector<std::size_t> changes, expected;
  for (const Entry& e : due) {
    switch (e.due) {
      case Due::kWorkDone:
        if (e.version != e.gang->ends_version) break;
        end_programs(*e.gang);
        reconcile(*e.gang);
        break;
      case Due::kPodsReady:
        pods_ready(*e.gang);
        break;
      case Due::kPodsGone:
        pods_gone(*e.gang);
        break;
      case Due::kLook:
        if (e.version == e.gang->look_version) reconcile(*e.gang);
        break;
      case Due::kProgramFails:
        program_fails(e.index);
        break;
      case Due::kReading:
        if (e.version == e.gang->idle_watch.version) read_gpus(*e.gang);
        break;
      case Due::kServe:
        to_serve_.insert(e.node);
        break;
      case Due::kRound:
        if (const auto w = workloads_.find(e.node);
            w != workloads_.end() && w->second->scaling.version == e.version)
          read_load(*w->second);
        break;
      case Due::kNodeFails:
        node_fails(e.node);
        break;
      case Due::kNodeCounts:
        if (const auto n = nodes.find(e.node); n != nodes.end() && n->second.version == e.version)
          node_counts(e.node);
        break;
      case Due::kNodeRecovers:
        node_recovers(e.node);
        break;
      case Due::kInput:
        changes.push_back(e.index);
        break;
      case Due::kWake:
        if (wake_ && *wake_ <= now) {
          wake_.reset();
          changed_ = true;
        }
        break;
      case Due::kExpectation:
        expected.push_back(e.index);
        break;
    }
  }
  if (!changes.empty()) apply(changes);
  if ((changed_ || !to_serve_.empty()) && errors.empty()) decide();
  if (!errors.empty()) return;
  for (const std::size_t i : expected) check(input_.expectations[i]);
}

void World::decide() {
  for (int round = 0; changed_ || !to_serve_.empty(); ++round) {
    if (round == kMaxRounds)
      throw std::logic_error("the decisions at " + crds::to_string(to_instant(now)) + " do not come to rest");
    serve_all();
    if (!changed_) continue;
    changed_ = false;
    follow_schedules();
    const pl::Plan plan = pl::plan(cluster, now);
    for (const pl::Decision& d : plan.decisions) carry_out(d);
    tell_verdicts(plan.pending_reasons);
    auto again = next_by_schedule();
    if (plan.wake) again = again ? std::min(*again, *plan.wake) : plan.wake;
    if (!again) continue;
    const pl::Time wake = std::max(whole_seconds(*again), now + pl::seconds(1));
    if (wake_ && *wake_ <= wake) continue;
    wake_ = wake;
    agenda_add(wake, Due::kWake, nullptr, 0, 0);
  }
}

crds::Time World::wall() const {
  return to_stamp(now) + (input_.begin - kUsualBegin);
}

// What holds from now on by the schedules of Queues and Projects.
void World::follow_schedules() {
  for (auto& spec : scheduled_.due(wall())) {
    if (now > last_stated_) ++scheduled_alone_, is_left_to_schedules_ = !anything_waits();
    upsert_queue(spec, created_.at((spec.is_project ? "Project " : "Queue ") + spec.name));
  }
}

// What schedules say of times to come is by the calendar of the simulation.
void World::upsert_queue(pl::QueueSpec spec, pl::Time created) {
  spec.created = created;
  const auto ahead = reconcilers::to_duration(input_.begin - kUsualBegin);
  if (auto& drain = spec.coming_drain) drain->at = drain->at - ahead, drain->until = drain->until - ahead;
  if (spec.opens) spec.opens = *spec.opens - ahead;
  if (auto& coming = spec.coming_share) coming->at = coming->at - ahead;
  cluster.upsert_queue(spec);
}

bool World::anything_waits() const {
  return std::ranges::any_of(gangs_, [](const auto& g) { return g.second->state == Gang::State::kWaiting; });
}

std::optional<pl::Time> World::next_by_schedule() const {
  const auto next = scheduled_.next();
  return next ? std::optional(reconcilers::to_time(*next - (input_.begin - kUsualBegin))) : std::nullopt;
}

void World::carry_out(const pl::Decision& d) {
  const auto found = gangs_.find(d.job);
  if (found == gangs_.end() || placed_.note(d) == nullptr)
    throw std::logic_error("a decision about " + d.job + ", which is not there");
  reconcile(*found->second, d.beneficiary);
}

// A reason is told once, and again when it has changed.
void World::tell_verdicts(const std::vector<std::string>& jobs) {
  for (const std::string& id : jobs) {
    const auto found = gangs_.find(id);
    const pl::PendingReason* verdict = found == gangs_.end() ? nullptr : cluster.pending_reason(id);
    if (verdict == nullptr || found->second->state != Gang::State::kWaiting) continue;
    Gang& g = *found->second;
    if (g.owner->is_service) reconcile(g);  // its service has to know
    if (verdict->reason == g.waits_for || verdict->reason == pl::Reason::kNone) continue;
    g.waits_for = verdict->reason;
    tell(EventType::kWaiting, *g.owner, std::string(pl::to_string(verdict->reason)));
  }
}

void World::check(const Expectation& expectation) {
  auto wrong = differences(*this, expectation);
  if (wrong.empty()) ++held;
  for (std::string& line : wrong) failures.push_back(std::move(line));
}

// --- answers

std::vector<Workload*> World::in_order() const {
  std::vector<Workload*> all;
  for (const auto& [key, w] : workloads_) all.push_back(w.get());
  std::ranges::sort(all, [](const Workload* a, const Workload* b) {
    return std::tie(a->is_service, a->ns, a->name) < std::tie(b->is_service, b->ns, b->name);
  });
  return all;
}

const Gang* World::gang_of(const std::string& id) const {
  const auto found = gangs_.find(id);
  return found == gangs_.end() ? nullptr : found->second;
}

std::vector<std::int64_t> World::waits_ms() const {
  auto sorted = waits_;
  std::ranges::sort(sorted);
  return sorted;
}

// --- the interface

Simulation::Simulation(const Input& input, const Options& options, std::function<void(const Progress&)> tell)
    : options_(options), world_(std::make_unique<World>(input, options)), tell_(std::move(tell)) {}
Simulation::~Simulation() = default;

std::vector<crds::FieldError> Simulation::run() {
  world_->run_to(options_.until ? std::optional(to_time(*options_.until)) : std::nullopt, tell_);
  world_->end();
  return world_->errors;
}
void Simulation::run_to(Instant until) {
  world_->run_to(to_time(until), tell_);
}
const std::vector<std::string>& Simulation::failures() const {
  return world_->failures;
}
std::size_t Simulation::expectations_held() const {
  return world_->held;
}

}  // namespace muster::simulate
