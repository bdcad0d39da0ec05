// Two hundred Projects of ten members and many services in them: what it takes to settle, and that a cluster
// at rest is left at rest. Counted from the API server's audit log, which tells who wrote what.
//
// CI makes 100 services and looks at the rest for 20 s; MUSTER_FULL_SIZE=1: 500 services, and 5 minutes.
#include <gmock/gmock.h>

#include <iostream>
#include <thread>

#include "fixture.h"
#include "write_log.h"

namespace muster::test {
namespace {

constexpr int kProjects = 200;
// Of each: Namespace, ServiceAccount, NetworkPolicy, a RoleBinding for each of three roles, and
// its own status.
constexpr int kWritesOfProject = 7;
constexpr int kReplicas = 2;
// Of each service: Service, PodDisruptionBudget, and its status when its replicas are made and when
// they serve. Of each replica: itself, its pod, the ConfigMap with the pod's peers, its place, and that
// it is ready.
constexpr int kWritesOfService = 4 + 5 * kReplicas;

std::string project(int i) {
  const std::string name = "team-" + std::to_string(i);
  std::string yaml = "---\napiVersion: muster.dev/v1alpha1\nkind: Project\nmetadata: {name: " + name +
                     "}\nspec:\n  queue: root\n  quota: {gpu: 8}\n  namespace: {name: " + name +
                     ", podSecurity: baseline, isolateNetwork: true}\n  members:\n";
  for (int m = 0; m < 10; ++m) {
    yaml += "  - {kind: User, name: user-" + std::to_string(i) + "-" + std::to_string(m) + ", role: " +
            (m == 0  ? "Admin"
             : m < 8 ? "Researcher"
                     : "Viewer") +
            "}\n";
  }
  return yaml;
}

std::string project_of(int service) {
  return "team-" + std::to_string(service % kProjects);
}

class Scale {
 public:
  explicit Scale(int services) : services_(services) {
    testcluster::Options options;
    options.audit = true;
    cluster_ = Cluster::start(std::max(1, services * kReplicas / 8), 8, options, kProjects * 8);
    writes_ = std::make_unique<WriteLog>(cluster_->real().audit_log());
    muster_ = cluster_->muster({"--leader-elect", "--lease-namespace", "muster-system"});
  }

  Cluster& cluster() { return *cluster_; }
  std::string log() const { return muster_->log().substr(0, 20000); }
  int services() const { return services_; }

  // How many of all objects of this kind have this condition True.
  int count(const std::string& plural, const std::string& condition) const {
    const json list = cluster_->get("/apis/muster.dev/v1alpha1/" + plural);
    int n = 0;
    for (const auto& object : list["items"]) {
      for (const auto& c : object.value("/status/conditions"_json_pointer, json::array()))
        n += c["type"] == condition && c["status"] == "True" ? 1 : 0;
    }
    return n;
  }
  bool wait_count(const std::string& plural, const std::string& condition, int n,
                  Milliseconds timeout) const {
    return testcluster::wait_until(timeout, [&] { return count(plural, condition) == n; }, 500ms);
  }

  // From now on; what came before has had its time.
  void begin() {
    rest();
    before_ = writes_->kinds();
    began_ = std::chrono::steady_clock::now();
  }
  // Muster's writes since then, when it is at rest; told as `what`.
  int settled(const std::string& what, int needed) {
    const auto took =
        std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - began_).count();
    rest();
    int written = 0, events = 0;
    for (const auto& [kind, n] : writes_->kinds()) {
      const int more = n - (before_.contains(kind) ? before_.at(kind) : 0);
      (kind.find(" events") == std::string::npos ? written : events) += more;
    }
    std::cout << what << " settled " << took << " ms after the first was applied, with " << written
              << " writes (" << needed << " needed) and " << events << " events:\n"
              << tell(writes_->kinds(), before_);
    return written;
  }

  // Who has written anything but a lease in so much time; KWOK's word that its nodes live is left out.
  std::string written_within(Milliseconds time) const {
    WriteLog everybody(cluster_->real().audit_log(), "");
    std::this_thread::sleep_for(time);
    auto kinds = everybody.kinds();
    std::erase_if(kinds, [](const auto& kind) {
      return kind.first.find(kMusterUser) == std::string::npos && kind.first.ends_with("patch nodes/status");
    });
    return tell(kinds);
  }

 private:
  // Nothing was written for five seconds; what a status interval (1 s here) puts off is in.
  void rest() {
    int quiet = 0;
    for (int tries = 0, before = -1; quiet < 5 && tries < 120; ++tries) {
      const int now = writes_->all();
      quiet = now == before ? quiet + 1 : 0;
      before = now;
      std::this_thread::sleep_for(1s);
    }
    EXPECT_EQ(quiet, 5) << "it does not come to rest:\n" << tell(writes_->kinds(), before_);
  }

  int services_;
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<WriteLog> writes_;
  std::unique_ptr<MusterProcess> muster_;
  std::map<std::string, int> before_;
  std::chrono::steady_clock::time_point began_;
};

TEST(ProjectScale, ProjectsAndServicesSettleWithTheWritesThatTheirObjectsNeed) {
  Scale scale(full_size() ? 500 : 100);
  ASSERT_TRUE(scale.wait_count("projects", "NamespaceReady", 1, 30s)) << "team";

  scale.begin();
  std::string all;
  for (int i = 0; i < kProjects; ++i) all += project(i);
  const auto applied = scale.cluster().real().kubectl({"apply", "--server-side", "-f", "-"}, all, 300s);
  ASSERT_TRUE(applied && applied->ok()) << (applied ? applied->err : applied.error());
  ASSERT_TRUE(scale.wait_count("projects", "NamespaceReady", kProjects + 1, 120s)) << scale.log();
  const int of_projects =
      scale.settled(std::to_string(kProjects) + " projects", kProjects * kWritesOfProject);
  EXPECT_GE(of_projects, kProjects * kWritesOfProject) << "not all was counted";
  EXPECT_LE(of_projects, kProjects * kWritesOfProject * 13 / 10);

  scale.begin();
  for (int i = 0; i < scale.services(); ++i) {
    json service = service_object("chat-" + std::to_string(i), kReplicas);
    service["metadata"]["namespace"] = project_of(i);
    scale.cluster().create(service);
  }
  ASSERT_TRUE(scale.wait_count("inferenceservices", "RolledOut", scale.services(), 900s)) << scale.log();
  const int needed = scale.services() * kWritesOfService;
  const int of_services =
      scale.settled(std::to_string(scale.services()) + " services of " + std::to_string(kReplicas), needed);
  EXPECT_GE(of_services, needed) << "not all was counted";
  EXPECT_LE(of_services, needed * 13 / 10);
  EXPECT_EQ(scale.cluster().all_pods().size(), static_cast<std::size_t>(scale.services() * kReplicas));
  EXPECT_EQ(scale.cluster().audit_gpus(), "");

  EXPECT_EQ(scale.written_within(full_size() ? 300s : 20s), "") << "a cluster at rest was written to";
}

}  // namespace
}  // namespace muster::test
