// A cluster as it is lived in, by lot: users submit, edit, suspend, scale and delete jobs and services of
// every kind, pods take up to three seconds to save, nodes go and come back, quotas move, queues are held and
// drained, and two controllers are killed, told to end, stopped and continued beyond their lease. Every write
// that the API server has shown is judged. Then peace comes: everything finite must end.
//
// A minute by default; MUSTER_MINUTES=30 plays rounds for so long. MUSTER_SEED=N begins with the seed that a
// run has printed: the same lots, though not the same instants. MUSTER_KEEP_LOGS=FOLDER keeps there, when
// something is found, the logs of all processes and all that the API server has shown.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <thread>

#include "fixture.h"
#include "history.h"
#include "random_objects.h"

namespace muster::test {
namespace {

using Clock = std::chrono::steady_clock;
using testing::IsEmpty;

constexpr int kNodes = 5, kGpus = 8;
constexpr auto kStorm = 40s;
constexpr std::size_t kMaxJobs = 14, kMaxServices = 3;
// A leader that does not renew is followed after 15 s; what it sent before must be over by then.
constexpr auto kBeyondTheLease = 18s;
constexpr Milliseconds kPeace = 240s;

std::string pod_path(const json& pod) {
  return "/api/v1/namespaces/" + pod["metadata"]["namespace"].get<std::string>() + "/pods/" +
         pod["metadata"]["name"].get<std::string>();
}
std::string node_path(int n) {
  return "/api/v1/nodes/node-" + std::to_string(n);
}
bool has_ended(const json& object) {
  const std::string phase = object.value("/status/phase"_json_pointer, std::string());
  return phase == "Succeeded" || phase == "Failed";
}

class RandomLife : public testing::Test, protected Lots {
 protected:
  void SetUp() override {
    testcluster::Options options;
    if (std::getenv("MUSTER_KEEP_LOGS") != nullptr) options.kwok_flags = {"--v=DEBUG"};
    cluster_ = Cluster::start(kNodes, kGpus, options, kNodes * kGpus);
    cluster_->make_namespace("guests", "guests");
    cluster_->apply(R"(
apiVersion: muster.dev/v1alpha1
kind: Queue
metadata: {name: lab}
spec: {parent: root, quota: {gpu: 8}}
---
apiVersion: muster.dev/v1alpha1
kind: Project
metadata: {name: guests}
spec: {queue: lab}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: low}
value: 10
---
apiVersion: muster.dev/v1alpha1
kind: NodePool
metadata: {name: default}
spec: {nodeSelector: {}, default: true, sharing: {mode: Fraction}}
)");
    for (auto& one : controllers_) start(one);
  }
  void TearDown() override {
    if (!HasFailure()) return;
    for (const auto& line : told_) std::cout << line << "\n";
    if (const char* folder = std::getenv("MUSTER_KEEP_LOGS")) keep_logs(folder);
  }
  // The log of every process that there was, and all that the API server has shown, a change a line.
  void keep_logs(const std::filesystem::path& folder) {
    std::filesystem::create_directories(folder);
    for (const auto& file : std::filesystem::recursive_directory_iterator(cluster_->real().directory())) {
      if (file.path().extension() == ".log")
        std::filesystem::copy(file, folder, std::filesystem::copy_options::overwrite_existing);
    }
    if (!history_) return;
    std::ofstream changes(folder / "changes.jsonl");
    history_->replay([&](const Change& change) {
      changes << json({{"gone", change.is_gone}, {"object", change.object}}).dump() << "\n";
    });
  }

  struct Controller {
    std::string name;  // in the lease
    std::unique_ptr<MusterProcess> process;
  };
  void start(Controller& one) {
    one.name = "controller-" + std::to_string(next_controller_++);
    one.process = cluster_->muster({"--leader-elect", "--identity", one.name, "--node-grace", "4"});
  }

  void tell(const std::string& what) {
    const auto at = std::chrono::duration_cast<Milliseconds>(Clock::now() - began_).count();
    told_.push_back(std::to_string(at) + " ms: " + what);
  }

  // --- what is there

  std::vector<json> list(const std::string& path) const {
    const json all = cluster_->get(path);
    return all.is_null() ? std::vector<json>{} : all["items"].get<std::vector<json>>();
  }
  // Those that no service owns.
  std::vector<json> jobs() const {
    auto all = list("/apis/muster.dev/v1alpha1/trainingjobs");
    std::erase_if(all, [](const json& j) { return j["metadata"].contains("ownerReferences"); });
    return all;
  }
  std::vector<json> services() const { return list("/apis/muster.dev/v1alpha1/inferenceservices"); }
  static std::string path_of(const json& object) {
    const json& meta = object["metadata"];
    if (object["kind"] == "InferenceService") return path_of_service(meta["name"]);
    return path_of_job(meta["name"], meta["namespace"]);
  }
  // What lost its object meanwhile, or what the API server does not take, does not happen.
  void try_patch(const std::string& path, const json& merge) {
    cluster_->real().request("PATCH", path, merge.dump(), "application/merge-patch+json");
  }
  void try_remove(const std::string& path) { cluster_->real().request("DELETE", path); }

  // --- users

  void submit() {
    if (jobs().size() >= kMaxJobs) return delete_job();
    // Names come again, while pods of those that had them may still be there.
    const json job = random_job(*this, "job-" + std::to_string(pick(20)));
    const auto answer = cluster_->try_create(job);
    tell("submit " + job["metadata"]["name"].get<std::string>() + " (" + std::to_string(answer.status) +
         ") " + job["spec"].dump());
  }
  void delete_job() {
    const auto all = jobs();
    if (all.empty()) return;
    const json& job = one_of(all);
    tell("delete " + path_of(job));
    try_remove(path_of(job));
    if (!chance(40)) return;
    json again = random_job(*this, job["metadata"]["name"]);
    again["metadata"]["namespace"] = job["metadata"]["namespace"];
    const auto answer = cluster_->try_create(again);
    tell("make it anew (" + std::to_string(answer.status) + ") " + again["spec"].dump());
  }
  void edit_job() {
    const auto all = jobs();
    if (all.empty()) return;
    const json& job = one_of(all);
    json roles = job["spec"]["roles"];
    json& role = roles[0];
    json spec;
    switch (pick(6)) {
      case 0:
        if (role.value("gpus", json::object()).contains("fraction"))
          return;  // the auditor takes all its pods for alike
        role["gpus"] = {{"count", 1 << pick(3)}};
        break;
      case 1:
        role["template"]["spec"]["containers"][0]["image"] =
            "registry.example/train:" + std::to_string(pick(99));
        break;
      case 2:
        role[role.contains("replicas") ? "replicas" : "maxReplicas"] = role.value("minReplicas", 1) + pick(5);
        break;
      case 3:
        spec["priorityClassName"] = "no-such-class";
        break;
      case 4:
        spec["priorityClassName"] = chance(50) ? "low" : "training";
        break;
      default:
        spec["maxRuntime"] = seconds(2, 30);
    }
    if (spec.is_null()) spec["roles"] = roles;
    tell("edit " + path_of(job) + " " + spec.dump());
    try_patch(path_of(job), {{"spec", spec}});
  }
  void suspend_or_resume() {
    const auto all = jobs();
    if (all.empty()) return;
    const json& job = one_of(all);
    const bool suspend = !job["spec"].value("suspend", false);
    tell((suspend ? "suspend " : "resume ") + path_of(job));
    try_patch(path_of(job), {{"spec", {{"suspend", suspend}}}});
  }
  void change_a_service() {
    const auto all = services();
    if (all.size() < kMaxServices && chance(40)) {
      const json service = random_service(*this, "serve-" + std::to_string(pick(9)));
      const auto answer = cluster_->try_create(service);
      return tell("serve " + service["metadata"]["name"].get<std::string>() + " (" +
                  std::to_string(answer.status) + ")");
    }
    if (all.empty()) return;
    const json& service = one_of(all);
    if (chance(20)) {
      tell("delete " + path_of(service));
      return try_remove(path_of(service));
    }
    if (chance(30)) {
      json containers = service["spec"]["template"]["spec"]["containers"];
      containers[0]["image"] = "registry.example/serve:" + std::to_string(pick(99));
      tell("roll " + path_of(service));
      return try_patch(path_of(service),
                       {{"spec", {{"template", {{"spec", {{"containers", containers}}}}}}}});
    }
    const int replicas = pick(5);
    tell("scale " + path_of(service) + " to " + std::to_string(replicas));
    try_patch(path_of(service), {{"spec", {{"replicas", replicas}}}});
  }

  // --- administrators

  void change_a_share() {
    const bool is_queue = chance(50);
    const std::string path = std::string("/apis/muster.dev/v1alpha1/") + (is_queue     ? "queues/lab"
                                                                          : chance(50) ? "projects/team"
                                                                                       : "projects/guests");
    json spec = {{"quota", {{"gpu", pick(kNodes * kGpus + 1)}}}};
    if (is_queue && chance(60))
      spec = {{"admission", one_of(std::vector<std::string>{"Open", "Hold", "Drain"})}};
    tell("share " + path + " " + spec.dump());
    try_patch(path, {{"spec", spec}});
  }
  void disturb_a_node() {
    const int n = pick(kNodes);
    const json node = cluster_->get(node_path(n));
    if (node.is_null() || chance(45)) return restore_node(n);
    switch (pick(4)) {
      case 0:
        tell("node down: " + node_path(n));
        return try_patch(node_path(n), {{"metadata", {{"annotations", {{"test.muster.dev/down", "true"}}}}}});
      case 1:
        tell("node deleted: " + node_path(n));
        return try_remove(node_path(n));
      case 2:
        tell("node has bad GPUs: " + node_path(n));
        return try_patch(
            node_path(n),
            {{"metadata", {{"annotations", {{"muster.dev/gpu-unhealthy", chance(50) ? "0" : "2,5"}}}}}});
      default:
        tell("node cordoned: " + node_path(n));
        return try_patch(node_path(n), {{"spec", {{"unschedulable", true}}}});
    }
  }
  void restore_node(int n) {
    if (cluster_->get(node_path(n)).is_null()) {
      tell("node made anew: " + node_path(n));
      testcluster::NodeTemplate node;
      node.first = n;
      node.gpus = kGpus;
      const auto added = cluster_->real().add_nodes(node);
      if (!added) tell(added.error());
      return;
    }
    tell("node well: " + node_path(n));
    try_patch(
        node_path(n),
        {{"metadata",
          {{"annotations", {{"test.muster.dev/down", nullptr}, {"muster.dev/gpu-unhealthy", nullptr}}}}},
         {"spec", {{"unschedulable", nullptr}}}});
  }

  // --- pods and controllers

  void disturb_a_pod() {
    auto all = cluster_->all_pods();
    std::erase_if(all, has_ended);
    if (all.empty()) return;
    const json& pod = one_of(all);
    if (chance(40)) {
      tell("pod deleted: " + pod_path(pod));
      return try_remove(pod_path(pod));
    }
    const std::string code = chance(60) ? "0" : "1";
    tell("pod ends with " + code + ": " + pod_path(pod));
    try_patch(pod_path(pod), {{"metadata", {{"annotations", {{"test.muster.dev/exit-now", code}}}}}});
  }
  void disturb_a_controller() {
    Controller& one = controllers_[static_cast<std::size_t>(pick(2))];
    if (chance(70)) {
      tell(one.name + " is killed");
      if (stopped_ == &one) stopped_ = nullptr;
      one.process.reset();
      if (chance(60)) free_lease_of(one.name);
      return start(one);
    }
    if (chance(50)) {
      tell(one.name + " is told to end");
      ::kill(one.process->id().pid, SIGTERM);
      return;  // look_after_controllers() starts another when it has ended
    }
    if (stopped_ != nullptr) return;
    tell(one.name + " is stopped");
    testcluster::stop_process(one.process->id());
    stopped_ = &one;
    continue_at_ = Clock::now() + kBeyondTheLease + Milliseconds{pick(6000)};
  }
  // The next one leads at once, and not when the lease of the one that is dead has run out.
  void free_lease_of(const std::string& dead) {
    const std::string path = "/apis/coordination.k8s.io/v1/namespaces/muster-system/leases/muster-controller";
    const json lease = cluster_->get(path);
    if (lease.is_null() || lease.value("/spec/holderIdentity"_json_pointer, std::string()) != dead) return;
    tell("its lease is deleted");
    try_remove(path);
  }
  // Whoever lost its lease, or was told to, has ended, as it should.
  void look_after_controllers() {
    if (stopped_ != nullptr && Clock::now() >= continue_at_) {
      tell(stopped_->name + " is continued");
      ::kill(stopped_->process->id().pid, SIGCONT);
      stopped_ = nullptr;
    }
    for (auto& one : controllers_) {
      if (!one.process->alive()) start(one);
    }
  }

  // --- a round

  void something_happens() {
    const int dice = pick(100);
    if (dice < 32) return submit();
    if (dice < 40) return delete_job();
    if (dice < 50) return edit_job();
    if (dice < 60) return suspend_or_resume();
    if (dice < 70) return change_a_service();
    if (dice < 76) return change_a_share();
    if (dice < 86) return disturb_a_node();
    if (dice < 98) return disturb_a_pod();
    disturb_a_controller();
  }
  void storm() {
    const auto end = Clock::now() + kStorm;
    while (Clock::now() < end) {
      something_happens();
      look_after_controllers();
      std::this_thread::sleep_for(Milliseconds{pick(400)});
    }
  }
  // All that was taken away is given back, and what is not finite is made so.
  void make_peace() {
    tell("peace");
    if (stopped_ != nullptr) continue_at_ = Clock::now();
    look_after_controllers();
    for (int n = 0; n < kNodes; ++n) restore_node(n);
    const std::string muster = "/apis/muster.dev/v1alpha1/";
    for (const char* share : {"queues/lab", "projects/team", "projects/guests"})
      try_patch(muster + share, {{"spec", {{"quota", {{"gpu", kNodes * kGpus}}}}}});
    try_patch(muster + "queues/lab", {{"spec", {{"admission", "Open"}}}});
    for (const auto& service : services()) try_patch(path_of(service), {{"spec", {{"replicas", 1}}}});
    for (const auto& job : jobs()) {
      json roles = job["spec"]["roles"];
      roles[0][roles[0].contains("replicas") ? "replicas" : "minReplicas"] = 1;  // so that it fits
      try_patch(path_of(job), {{"spec",
                                {{"roles", roles},
                                 {"suspend", false},
                                 {"priorityClassName", "training"},
                                 {"maxRuntime", "20s"}}}});
    }
  }
  void expect_rest() {
    EXPECT_TRUE(cluster_->wait(kPeace,
                               [&] {
                                 look_after_controllers();
                                 return std::ranges::all_of(jobs(), has_ended);
                               }))
        << "jobs that do not end:\n"
        << say_jobs();
    EXPECT_TRUE(cluster_->wait(kPeace,
                               [&] {
                                 return std::ranges::all_of(services(), [](const json& s) {
                                   return s.value("/status/readyReplicas"_json_pointer, 0) == 1;
                                 });
                               }))
        << "services that do not serve:\n"
        << say_jobs();
    EXPECT_EQ(cluster_->audit_gpus(), "");
    for (const auto& service : services()) try_remove(path_of(service));
    for (const auto& job : jobs()) try_remove(path_of(job));
    EXPECT_TRUE(cluster_->wait(kPeace,
                               [&] {
                                 auto pods = cluster_->all_pods();
                                 return pods.empty() &&
                                        list("/apis/muster.dev/v1alpha1/trainingjobs").empty();
                               }))
        << "pods that do not go:\n"
        << say_jobs();
  }
  std::string say_jobs() const {
    std::string text;
    for (const auto& j : list("/apis/muster.dev/v1alpha1/trainingjobs")) {
      if (!has_ended(j))
        text += j["metadata"]["name"].get<std::string>() + " " + j["spec"].dump() + "\n  " +
                j.value("status", json()).dump() + "\n";
    }
    for (const auto& p : cluster_->all_pods())
      text += pod_path(p) + " " + p["status"].value("phase", "") + " on " + p["spec"].value("nodeName", "") +
              "\n";
    return text;
  }
  void play(unsigned seed) {
    std::cout << "MUSTER_SEED=" << seed << std::endl;
    Lots::seed(seed);
    told_.clear();
    began_ = Clock::now();
    history_ = std::make_unique<History>(*cluster_, std::vector<std::string>{"trainingjobs"});
    storm();
    make_peace();
    expect_rest();
    Auditor auditor({.evictions = false, .assignments = false});
    int changes = 0;
    history_->replay([&](const Change& change) {
      ++changes;
      auditor.see(change);
    });
    std::cout << "audited " << changes << " states of the API server, " << auditor.pods_made() << " pods"
              << std::endl;
    EXPECT_THAT(auditor.problems(), IsEmpty());
  }

  std::unique_ptr<Cluster> cluster_;
  std::array<Controller, 2> controllers_;
  int next_controller_ = 0;
  const Controller* stopped_ = nullptr;
  std::unique_ptr<History> history_;
  Clock::time_point began_, continue_at_;
  std::vector<std::string> told_;
};

TEST_F(RandomLife, NoGpuIsGivenOutTwiceAndInPeaceAllThatIsFiniteEnds) {
  unsigned seed = seed_of_run();
  RecordProperty("seed", static_cast<int>(seed));
  const auto end = Clock::now() + std::chrono::minutes{number_from_environment("MUSTER_MINUTES", 1)};
  do {
    play(seed++);
  } while (!HasFailure() && Clock::now() + kStorm < end);
}

}  // namespace
}  // namespace muster::test
