#include "history.h"

#include <algorithm>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <unordered_map>
#include <utility>

namespace muster::test {
namespace {

constexpr auto kWatchFor = 2s;  // so long the server keeps its answer open

// Of each of its GPUs, as a role asks for them.
int milli_of(const json& gpus) {
  if (gpus.contains("memory")) return 1;  // how much that is, its node knows
  const std::string text = gpus.contains("fraction") ? gpus["fraction"].get<std::string>() : "1000m";
  return text.ends_with('m') ? std::stoi(text) : 1000 * std::stoi(text);
}

std::uint64_t version_of(const json& object) {
  return std::stoull(object["metadata"]["resourceVersion"].get<std::string>());
}

}  // namespace

// The objects of one list, watched by a thread over a connection of its own.
class History::Stream {
 public:
  Stream(const std::filesystem::path& cluster, std::string list) : list_(std::move(list)) {
    auto attached = testcluster::TestCluster::attach(cluster);
    if (!attached) throw std::runtime_error(attached.error());
    api_ = std::make_unique<testcluster::TestCluster>(std::move(*attached));
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) watch();
    });
  }

  // True: everything that is there now has been shown.
  bool is_complete(const Cluster& cluster) {
    const json list = cluster.get(list_);
    const std::lock_guard lock(mutex_);
    if (!problem_.empty()) throw std::runtime_error(problem_);
    return !list.is_null() && list["items"].size() == there_.size() &&
           std::ranges::all_of(list["items"], [&](const json& object) {
             const auto seen = there_.find(object["metadata"]["uid"].get<std::string>());
             return seen != there_.end() && seen->second >= version_of(object);
           });
  }
  const std::string& list() const { return list_; }
  void copy(std::multimap<std::uint64_t, std::string>& into) const {
    const std::lock_guard lock(mutex_);
    into.insert(events_.begin(), events_.end());
  }

 private:
  // One answer: whatever comes until the server ends it. One that breaks off is taken up after its last line.
  void watch() {
    const std::string from = last_ == 0 ? "" : "&resourceVersion=" + std::to_string(last_);
    const auto answer =
        api_->request("GET", list_ + "?watch=1&timeoutSeconds=" + std::to_string(kWatchFor.count()) + from);
    if (!answer || !answer->ok()) {
      std::this_thread::sleep_for(100ms);
      return;
    }
    std::istringstream lines(answer->body);
    const std::lock_guard lock(mutex_);
    for (std::string line; std::getline(lines, line) && !lines.eof();) note(line);
  }
  void note(const std::string& line) {
    const json event = json::parse(line);
    const json& object = event["object"];
    if (event["type"] == "ERROR") {
      problem_ = "the watch of " + list_ + " has a gap: " + line;
      return;
    }
    const auto version = version_of(object);
    const std::string uid = object["metadata"]["uid"];
    last_ = std::max(last_, version);
    events_.emplace(version, line);
    if (event["type"] == "DELETED") {
      there_.erase(uid);
    } else {
      there_[uid] = version;
    }
  }

  const std::string list_;  // path
  std::unique_ptr<testcluster::TestCluster> api_;
  std::uint64_t last_ = 0;  // the thread's
  mutable std::mutex mutex_;
  std::multimap<std::uint64_t, std::string> events_;      // by version
  std::unordered_map<std::string, std::uint64_t> there_;  // uid: version seen last
  std::string problem_;
  std::jthread thread_;
};

History::History(Cluster& cluster, const std::vector<std::string>& plurals) : cluster_(cluster) {
  const auto directory = cluster.real().directory();
  streams_.push_back(std::make_unique<Stream>(directory, "/api/v1/pods"));
  for (const auto& plural : plurals)
    streams_.push_back(std::make_unique<Stream>(directory, "/apis/muster.dev/v1alpha1/" + plural));
}
History::~History() = default;

void History::replay(const std::function<void(const Change&)>& visit) {
  std::multimap<std::uint64_t, std::string> events;
  for (const auto& stream : streams_) {
    if (!cluster_.wait(60s, [&] { return stream->is_complete(cluster_); }))
      throw std::runtime_error("the watch of " + stream->list() + " has not shown everything");
    stream->copy(events);
  }
  for (const auto& [version, line] : events) {
    json event = json::parse(line);
    visit({version, event["type"] == "DELETED", std::move(event["object"])});
  }
}

std::set<std::string> pods_ever(History& history, const std::string& label, const std::string& value) {
  std::set<std::string> uids;
  history.replay([&](const Change& change) {
    const json& meta = change.object["metadata"];
    if (change.object.value("kind", "") == "Pod" &&
        meta.value("labels", json::object()).value(label, "") == value)
      uids.insert(meta["uid"].get<std::string>());
  });
  return uids;
}

// --- the auditor

void Auditor::see(const Change& change) {
  now_ = change.version;
  const std::string kind = change.object.value("kind", "");
  if (kind == "Pod") see_pod(change.object, change.is_gone);
  if (kind == "TrainingJob") see_job(change.object, change.is_gone);
}

void Auditor::see_pod(const json& object, bool is_gone) {
  const json& meta = object["metadata"];
  const json labels = meta.value("labels", json::object());
  if (!labels.contains("muster.dev/job")) return;
  const std::string owner = meta.value("/ownerReferences/0/uid"_json_pointer, std::string());
  const auto found = jobs_.find(owner);
  if (found == jobs_.end()) return wrong("pod " + meta["name"].get<std::string>() + " belongs to no job");
  Job& job = found->second;
  const auto [it, is_new] = job.pods.try_emplace(meta["uid"].get<std::string>());
  Pod& pod = it->second;
  if (is_new) {
    ++pods_made_;
    const std::string node = object["spec"].value("nodeName", "");
    pod.name = meta["name"];
    pod.attempt = labels.value("muster.dev/attempt", "");
    std::istringstream list(meta.value("/annotations/muster.dev~1gpus"_json_pointer, std::string()));
    for (std::string gpu; std::getline(list, gpu, ',');) pod.gpus.emplace(node, gpu);
    check_new_pod(job, pod,
                  labels.value("muster.dev/role", "") + "/" + labels.value("muster.dev/index", "") + "/" +
                      pod.attempt + "/" + node);
  }
  const std::string phase = object["status"].value("phase", "");
  pod.lives = !is_gone && phase != "Succeeded" && phase != "Failed";
  pod.leaves = meta.contains("deletionTimestamp");
  if (is_gone) job.pods.erase(it);
  claim(owner, job);
}

void Auditor::check_new_pod(const Job& job, const Pod& pod, const std::string& place) {
  const auto due = job.places.find(place);
  if (due == job.places.end()) {
    wrong("pod " + pod.name + " was made at " + place + ", where its job had no place");
  } else if (due->second != pod.gpus) {
    wrong("pod " + pod.name + " was made with other GPUs than its place has");
  }
  for (const auto& [uid, other] : job.pods) {
    if (&other == &pod || !other.lives) continue;
    const bool meets = job.milli == 1000 && std::ranges::any_of(pod.gpus, [&](const Gpu& gpu) {
                         return other.gpus.contains(gpu);
                       });
    if (meets || (other.attempt != pod.attempt && !other.leaves))
      wrong("pod " + pod.name + " was made while " + other.name + " still ran");
  }
}

void Auditor::see_job(const json& object, bool is_gone) {
  const std::string uid = object["metadata"]["uid"];
  Job& job = jobs_[uid];
  job.name = object["metadata"]["name"];
  job.milli = milli_of(object["spec"]["roles"][0].value("gpus", json::object()));
  const json status = object.value("status", json::object());
  const int preemptions = status.value("preemptions", 0);
  if (preemptions > job.preemptions && !is_gone) evict(uid, job, object);
  job.preemptions = preemptions;
  job.is_gone = is_gone;
  if (!is_gone) job.places.clear();
  job.promised.clear();
  const json no_pods = json::array();
  const std::string phase = status.value("phase", "");
  const json assignment = status.value("assignment", json::object());
  const auto gpus_of = [](const json& pod) {
    Gpus gpus;
    for (const auto& gpu : pod.value("gpus", json::array()))
      gpus.emplace(pod["node"].get<std::string>(), std::to_string(gpu.get<int>()));
    return gpus;
  };
  if (!is_gone && phase != "Succeeded" && phase != "Failed") {
    for (const auto& pod : assignment.value("pods", no_pods)) {
      job.places[pod["role"].get<std::string>() + "/" + std::to_string(pod.value("index", 0)) + "/" +
                 std::to_string(assignment["attempt"].get<int>()) + "/" + pod["node"].get<std::string>()] =
          gpus_of(pod);
    }
    for (const auto& pod : status.value("/nominated/pods"_json_pointer, no_pods))
      job.promised.merge(gpus_of(pod));
    check_whole(job, object);
  }
  claim(uid, job);
  if (is_gone) return;
  Gpus wanted = job.promised;
  for (const auto& [place, gpus] : job.places) wanted.insert(gpus.begin(), gpus.end());
  justify(uid, wanted);
}

void Auditor::check_whole(const Job& job, const json& object) {
  const json& status = object["status"];
  if (job.places.empty() ||
      status["assignment"].value("generation", 0) != object["metadata"]["generation"].get<int>())
    return;
  std::size_t least = 0, most = 0;
  for (const auto& role : object["spec"]["roles"]) {
    least +=
        role.contains("minReplicas") ? role["minReplicas"].get<std::size_t>() : role.value("replicas", 1);
    most += role.contains("maxReplicas") ? role["maxReplicas"].get<std::size_t>() : role.value("replicas", 1);
  }
  const std::size_t n = job.places.size();
  if (n < least || n > most)
    wrong("job " + job.name + " was given " + std::to_string(n) + " places, not " + std::to_string(least) +
          " to " + std::to_string(most));
}

// Its claims, as they are now.
void Auditor::claim(const std::string& uid, Job& job) {
  std::map<Gpu, int> claimed, by_pods;
  const auto add = [&](std::map<Gpu, int>& sum, const Gpus& gpus) {
    for (const Gpu& gpu : gpus) sum[gpu] = job.milli == 1000 ? 1000 : sum[gpu] + job.milli;
  };
  if (rules_.assignments && !job.is_gone) {
    for (const auto& [place, gpus] : job.places) add(claimed, gpus);
  }
  for (const auto& [pod_uid, pod] : job.pods) {
    if (pod.lives) add(by_pods, pod.gpus);
  }
  for (const auto& [gpu, milli] : by_pods) claimed[gpu] = std::max(claimed[gpu], milli);
  for (const auto& [gpu, milli] : job.claimed) {
    if (!claimed.contains(gpu)) holders_[gpu].erase(uid);
  }
  for (const auto& [gpu, milli] : claimed) {
    auto& holders = holders_[gpu];
    const int before = std::exchange(holders[uid], milli);
    int sum = 0;
    for (const auto& [holder, part] : holders) sum += part;
    if (milli > before && sum > 1000 && holders.size() > 1) {
      const std::string& other =
          std::ranges::find_if(holders, [&](const auto& h) { return h.first != uid; })->first;
      wrong("GPU " + gpu.second + " of " + gpu.first + " was given to " + job.name + " while " +
            jobs_[other].name + " had it");
    }
  }
  job.claimed = std::move(claimed);
}

void Auditor::evict(const std::string& uid, const Job& job, const json& object) {
  ++evictions_[job.name];
  if (!rules_.evictions) return;
  const json& spec = object["spec"];
  if (!spec.value("preemptible", spec.value("mode", "Batch") == "Batch"))
    wrong("job " + job.name + " is not preemptible, and was withdrawn for others");
  Gpus held;
  for (const auto& [gpu, milli] : job.claimed) held.insert(gpu);
  open_.push_back({uid, std::move(held)});
  for (const auto& [other, claimant] : jobs_) {
    if (!claimant.promised.empty()) justify(other, claimant.promised);
  }
}

void Auditor::justify(const std::string& claimant, const Gpus& gpus) {
  if (gpus.empty()) return;
  std::erase_if(open_, [&](const Eviction& e) {
    if (std::ranges::none_of(e.held, [&](const Gpu& gpu) { return gpus.contains(gpu); })) return false;
    if (e.job == claimant)
      wrong("job " + jobs_[claimant].name + " was withdrawn, and then got its places back");
    return true;
  });
}

void Auditor::wrong(const std::string& sentence) {
  if (problems_.size() < 20) problems_.push_back("at " + std::to_string(now_) + ": " + sentence);
}

std::vector<std::string> Auditor::problems() const {
  auto all = problems_;
  for (const auto& e : open_)
    all.push_back("job " + jobs_.at(e.job).name + " was withdrawn, and nobody has got its places");
  if (all.size() > 20) all.resize(20);
  return all;
}

}  // namespace muster::test
