#include "live.h"

#include <algorithm>
#include <csignal>
#include <stdexcept>
#include <thread>

#include "fixture.h"
#include "history.h"
#include "live_events.h"
#include "live_objects.h"
#include "muster/crds/duration.h"

namespace muster::test {
namespace {

using Clock = std::chrono::steady_clock;

const json::json_pointer kReservation("/spec/reservation/after");

// All objects of one instant are there before the operator decides anything.
class Frozen {
 public:
  explicit Frozen(const MusterProcess& process) : pid_(process.id().pid) {
    testcluster::stop_process(process.id());
  }
  ~Frozen() { ::kill(pid_, SIGCONT); }
  Frozen(const Frozen&) = delete;
  Frozen& operator=(const Frozen&) = delete;

 private:
  pid_t pid_;
};

class Player {
 public:
  Player(const Compressed& scenario, const Simulated& expected)
      : scenario_(scenario), expected_(expected), cluster_(Cluster::start_empty()), objects_(*cluster_) {}

  LiveRun run() {
    History history(*cluster_, {"trainingjobs"});
    set_up();
    const auto before = objects_.version();
    muster_ = cluster_->muster(arguments());
    begin_ = Clock::now();
    for (std::size_t i = 0; i < scenario_.instants.size(); ++i) play_instant(i);
    LiveRun result;
    const std::size_t due = expected_.events.size();
    const auto read = [&] {
      EventReader reader(before);
      history.replay([&](const Change& c) { reader.see(c); });
      return reader.events(cluster_->get("/apis/events.k8s.io/v1/events"));
    };
    if (!scenario_.is_proportional) cluster_->wait(20s, [&] { return read().size() >= due; });
    std::this_thread::sleep_for(2s);  // long enough for one too many to show
    result.events = read();
    result.differences = std::move(differences_);
    result.behind = behind_;
    Auditor auditor;
    history.replay([&](const Change& c) { auditor.see(c); });
    for (const auto& problem : auditor.problems()) result.differences.push_back("the auditor: " + problem);
    if (!muster_->alive()) {
      result.differences.emplace_back("the operator has ended");
    } else if (muster_->stop() != 0) {
      result.differences.emplace_back("the operator, asked to stop, did not end well");
    }
    if (const auto wrong = cluster_->audit_gpus(); !wrong.empty()) result.differences.push_back(wrong);
    result.log = muster_->log();
    return result;
  }

 private:
  std::vector<std::string> arguments() const {
    return {"--node-grace", std::to_string(scenario_.fault_after.count())};
  }

  // Everything of the beginning, and what runs already runs. All queues are held meanwhile: nothing
  // else happens.
  void set_up() {
    std::vector<const json*> first, workloads;
    for (const json& d : scenario_.documents) {
      if (is_kind(d, "Expectation") || annotation(d, "at").value_or(seconds{0}) > seconds{0}) continue;
      (is_kind(d, "TrainingJob") || is_kind(d, "InferenceService") ? workloads : first).push_back(&d);
    }
    objects_.make_namespaces(scenario_.documents);
    if (std::ranges::none_of(scenario_.documents, [](const json& d) { return is_kind(d, "NodePool"); }))
      objects_.apply({{"apiVersion", "muster.dev/v1alpha1"},
                      {"kind", "NodePool"},
                      {"metadata", {{"name", "default"}}},
                      {"spec", {{"nodeSelector", json::object()}, {"default", true}}}});
    for (const json* d : first) objects_.apply(is_kind(*d, "Queue") ? held(*d) : *d);
    objects_.wait_for_nodes();
    // The oldest first; of equal ones as the file has them.
    std::ranges::stable_sort(workloads, std::greater(),
                             [](const json* d) { return annotation(*d, "age").value_or(seconds{0}); });
    const auto starter = cluster_->muster(arguments());
    objects_.wait_for_projects();
    std::vector<const json*> assigned;
    {
      const Frozen frozen(*starter);
      for (const json* d : workloads) {
        objects_.apply(*d);
        if (!is_assigned(*d) && !waits_since_)
          waits_since_ = std::chrono::system_clock::now() - annotation(*d, "age").value_or(seconds{0});
        if (!is_assigned(*d)) continue;
        objects_.assign(*d, scenario_.documents);
        assigned.push_back(d);
      }
    }
    for (const json* d : assigned) {
      const json& meta = (*d)["metadata"];
      if (!cluster_->wait_phase(meta["name"], "Running", 60s, meta["namespace"]))
        throw std::runtime_error(key_of(*d) + " does not run:\n" +
                                 cluster_->job(meta["name"], meta["namespace"]).dump(1) + starter->log());
    }
    if (starter->stop() != 0) throw std::runtime_error("the operator did not stop:\n" + starter->log());
    const auto begin = std::chrono::ceil<seconds>(std::chrono::system_clock::now()) + 2s +
                       seconds{static_cast<std::int64_t>(assigned.size() / 10)};
    for (const json* d : assigned) objects_.date_back(*d, begin.time_since_epoch());
    for (const json* d : first) {
      if (is_kind(*d, "Queue")) objects_.apply(*d);
    }
    for (const json* d : first) {
      if (waits_since_ && d->contains(kReservation))
        objects_.apply(reserving_later(*d, begin - *waits_since_));
    }
    if (!assigned.empty()) std::this_thread::sleep_until(begin - 1s);  // it takes that long to start
  }
  // Who waits at the beginning was created while it was prepared: so much longer it has to wait.
  static json reserving_later(json pool, std::chrono::system_clock::duration by) {
    const auto after = crds::parse_duration(pool[kReservation].get<std::string>()).value();
    pool[kReservation] = crds::to_string(after + std::chrono::round<seconds>(by));
    return pool;
  }
  static json held(json queue) {
    queue["spec"]["admission"] = "Hold";
    return queue;
  }

  void play_instant(std::size_t i) {
    const seconds at = scenario_.instants[i];
    std::this_thread::sleep_until(begin_ + at);
    if (i > 0) act(at);
    behind_ = std::max(behind_, std::chrono::duration_cast<Milliseconds>(Clock::now() - (begin_ + at)));
    const auto state = expected_.states.find(at);
    if (state == expected_.states.end()) return;
    const bool is_last = i + 1 == scenario_.instants.size();
    const auto until = is_last ? begin_ + at + 20s : begin_ + scenario_.instants[i + 1] - 200ms;
    std::vector<std::string> wrong;
    do {
      wrong = scenario_.is_proportional ? unmet(at) : objects_.differences(state->second);
      if (wrong.empty()) return;
      std::this_thread::sleep_for(100ms);
    } while (Clock::now() < until);
    for (const auto& line : wrong) differences_.push_back("at " + std::to_string(at.count()) + "s: " + line);
  }

  std::vector<std::string> unmet(seconds at) const {
    std::vector<std::string> all;
    for (const json& d : scenario_.documents) {
      if (!is_kind(d, "Expectation") || crds::parse_duration(d["at"].get<std::string>()) != at) continue;
      const auto some = objects_.unmet(d);
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }

  // What the file says happens at this instant.
  void act(seconds at) {
    const Frozen frozen(*muster_);
    for (const json& d : scenario_.documents) {
      if (is_kind(d, "Expectation")) continue;
      if (annotation(d, "delete-at") == at) objects_.remove(d);
      if (annotation(d, "at") == at) objects_.apply(d);
      if (annotation(d, "fail-at") == at) objects_.set_down(d, true);
      if (annotation(d, "recover-at") == at) objects_.set_down(d, false);
    }
    objects_.wait_for_nodes();
  }

  const Compressed& scenario_;
  const Simulated& expected_;
  std::unique_ptr<Cluster> cluster_;
  LiveObjects objects_;
  std::unique_ptr<MusterProcess> muster_;
  Clock::time_point begin_;
  std::optional<std::chrono::system_clock::time_point> waits_since_;  // the first that does
  std::vector<std::string> differences_;
  Milliseconds behind_{0};
};

}  // namespace

LiveRun play(const Compressed& scenario, const Simulated& expected) {
  return Player(scenario, expected).run();
}

}  // namespace muster::test
