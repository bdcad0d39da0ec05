// `muster ui` with the rights of manifests/ui on a real control plane, asked by users with bearer tokens.
#include <gmock/gmock.h>

#include "browse.h"
#include "https.h"

namespace muster::test {
namespace {

using testcluster::ProcessId;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ClusterPage : public OneCluster {
 protected:
  static void SetUpTestSuite() {
    cluster_ = Cluster::start(2, 8);
    auto& real = cluster_->real();
    const auto applied = real.apply_without_deployments(std::filesystem::path(MUSTER_MANIFESTS) / "ui");
    if (!applied) throw std::runtime_error(applied.error());
    muster_ = cluster_->muster();
    cluster_->apply(R"(
apiVersion: muster.dev/v1alpha1
kind: Project
metadata: {name: other}
spec: {queue: root, quota: {gpu: "4"}}
)");
    if (!cluster_->wait(20s, [] { return !cluster_->get("/api/v1/namespaces/other").is_null(); }))
      throw std::runtime_error("no namespace other");
    rosa_ = account(*cluster_, "rosa");
    stranger_ = account(*cluster_, "stranger");
    cluster_->apply(R"(
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: rosa, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: muster-project-researcher}
subjects: [{kind: ServiceAccount, name: rosa, namespace: team}]
)");
    const auto kubeconfig = real.service_account_kubeconfig("muster-system", "muster-ui");
    if (!kubeconfig) throw std::runtime_error(kubeconfig.error());
    certificate_ = std::make_unique<ServingCertificate>(real.directory());
    log_ = real.directory() / "muster-ui.log";
    testcluster::ProcessSpec spec;
    spec.arguments = {MUSTER_PROGRAM,
                      "ui",
                      "--kubeconfig",
                      kubeconfig->string(),
                      "--address",
                      "127.0.0.1:0",
                      "--tls-cert-file",
                      certificate_->certificate(),
                      "--tls-private-key-file",
                      certificate_->key()};
    spec.log = log_;
    const auto started = testcluster::spawn(spec);
    if (!started) throw std::runtime_error(started.error());
    page_ = *started;
    if (!cluster_->wait(20s, [] { return port_in(log(), "page") != 0; })) throw std::runtime_error(log());
  }
  static void TearDownTestSuite() {
    EXPECT_TRUE(testcluster::end_process(page_, 5s)) << log();
    certificate_.reset();
    OneCluster::TearDownTestSuite();
  }
  static std::string log() {
    std::ostringstream text;
    text << std::ifstream(log_).rdbuf();
    return text.str();
  }
  static HttpsAnswer get(const std::string& path, const std::string& token,
                         const std::function<bool(const std::string&)>& enough = {},
                         const std::string& more_header = {}, const std::string& method = "GET") {
    return https_get("https://127.0.0.1:" + std::to_string(port_in(log(), "page")) + path,
                     certificate_->pem(), token, enough, more_header, method);
  }
  static std::string changes(const std::string& token,
                             const std::function<bool(const std::string&)>& enough) {
    return get("/api/changes", token, enough).body;
  }
  static void run_two() {
    cluster_->create(job_object({.name = "mine"}));
    cluster_->create(job_object({.name = "theirs-only", .ns = "other"}));
    ASSERT_TRUE(cluster_->wait_phase("mine", "Running"));
    ASSERT_TRUE(cluster_->wait_phase("theirs-only", "Running", 30s, "other"));
  }

  static inline std::string rosa_, stranger_;
  static inline std::unique_ptr<ServingCertificate> certificate_;
  static inline std::filesystem::path log_;
  static inline ProcessId page_;
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(ClusterPage, TellsNothingWithoutAToken) {
  EXPECT_EQ(get("/", "").status, 200);
  EXPECT_EQ(get("/healthz", "").status, 200);
  for (const char* path : {"/api/changes", "/api/job?namespace=team&name=x",
                           "/api/disruptions?namespace=team", "/api/nothing"}) {
    const auto answer = get(path, "");
    EXPECT_EQ(answer.status, 401) << path;
    EXPECT_THAT(answer.body, HasSubstr("asksToken")) << path;
    EXPECT_EQ(get(path, "guessed").status, 401) << path;
  }
  EXPECT_EQ(get("/api/changes", rosa_, {}, "Origin: https://evil.example").status, 403);
  EXPECT_EQ(get("/api/changes", rosa_, {}, {}, "POST").status, 405);
  EXPECT_EQ(get("/api/nothing", rosa_).status, 404);
}

TEST_F(ClusterPage, ShowsAResearcherTheirProjectAndNothingOfOthers) {
  run_two();
  // A job of the other project comes while she looks, and then one of her own.
  bool is_created = false;
  const std::string told = changes(rosa_, [&](const std::string& text) {
    if (!is_created && has(text, "\"team/mine\"")) {
      is_created = true;
      cluster_->create(job_object({.name = "theirs-later", .ns = "other"}));
      EXPECT_TRUE(cluster_->wait_phase("theirs-later", "Running", 30s, "other"));
      cluster_->create(job_object({.name = "mine-later"}));
    }
    return has(text, "\"team/mine-later\":{") && has(text, "\"Running\"");
  });
  EXPECT_THAT(told, AllOf(HasSubstr("\"team/mine\""), HasSubstr("\"team/mine-later\"")));
  EXPECT_THAT(told, Not(HasSubstr("theirs")));
  EXPECT_THAT(told, AllOf(HasSubstr(R"("queues":{"message":"You may not list queues.","state":"forbidden"})"),
                          HasSubstr(R"("nodes":{"message":"You may not list nodes.","state":"forbidden"})"),
                          HasSubstr(R"("namespaces":["team"])")));
  EXPECT_THAT(told, AllOf(Not(HasSubstr("\"root\":{")), Not(HasSubstr("\"node-0\":{"))));

  const auto mine = get("/api/job?namespace=team&name=mine", rosa_);
  EXPECT_EQ(mine.status, 200);
  EXPECT_THAT(mine.body,
              AllOf(HasSubstr("mine-worker-0-1"), HasSubstr("Admitted"), Not(HasSubstr("Problem"))));
  const auto theirs = get("/api/job?namespace=other&name=theirs-only", rosa_);
  EXPECT_EQ(theirs.status, 403);
  EXPECT_THAT(theirs.body, AllOf(HasSubstr("system:serviceaccount:team:rosa"), HasSubstr("forbidden")));
  EXPECT_EQ(get("/api/disruptions?namespace=team", rosa_).body, R"({"disruptions":[]})");
  EXPECT_EQ(get("/api/disruptions?namespace=other", rosa_).status, 403);
  EXPECT_EQ(get("/api/disruptions", rosa_).status, 400);
  EXPECT_EQ(get("/api/service?namespace=team&name=any", rosa_).body, R"({"samples":[]})");
  EXPECT_EQ(get("/api/service?namespace=other&name=any", rosa_).status, 403);
}

TEST_F(ClusterPage, ShowsAStrangerNothing) {
  run_two();
  // Everything is known to the page when the last kind is: what it leaves out is left out on purpose.
  const std::string told = changes(stranger_, [](const std::string& text) {
    return has(text, "event: snapshot") && has(text, "\n\n:\n\n");  // and a first heartbeat
  });
  EXPECT_THAT(told, HasSubstr("event: snapshot"));
  for (const char* word : {"mine", "theirs", "node-0", "\"root\"", "\"team\"", "\"other\"", "\"read\""})
    EXPECT_THAT(told, Not(HasSubstr(word)));
  EXPECT_EQ(get("/api/job?namespace=team&name=mine", stranger_).status, 403);
  EXPECT_EQ(get("/api/job?namespace=other&name=theirs-only", stranger_).status, 403);
  EXPECT_EQ(get("/api/disruptions?namespace=team", stranger_).status, 403);
}

TEST_F(ClusterPage, ShowsTheTreeToWhoMayReadIt) {
  run_two();
  const std::string token = account(*cluster_, "tom");
  bind_everywhere(*cluster_, "tom", "muster-viewer");
  ASSERT_TRUE(cluster_->wait(20s, [&] {
    const auto may = cluster_->real().kubectl(
        {"auth", "can-i", "list", "queues.muster.dev", "--as", "system:serviceaccount:team:tom"});
    return may && may->ok();
  }));
  const std::string told = changes(token, [](const std::string& text) {
    return has(text, "\"other\":{") && has(text, "\"root\":{") && has(text, "\"default\":{");
  });
  EXPECT_THAT(told, AllOf(HasSubstr("\"root\":{"), HasSubstr("\"other\":{"), HasSubstr("\"default\":{")));
  for (const char* word : {"mine", "theirs", "node-0"}) EXPECT_THAT(told, Not(HasSubstr(word)));
}

// It asks for the token, shows what rosa may see, and forgets her when told to.
TEST_F(ClusterPage, AsksForATokenInABrowser) {
  run_two();
  json form = view("#/now", "Now", {"Who are you?", "Show the cluster"}, {"team/mine"});
  json jobs = view("#/job", "Jobs", {"team/mine", "Forget my token", "only of team"}, {"theirs"});
  jobs["fill"] = {{"of", "#token"}, {"text", rosa_}};
  const auto problems =
      browse("https://127.0.0.1:" + std::to_string(port_in(log(), "page")) + "/",
             {form, jobs, view("#/job/team/mine", "Jobs", {"mine-worker-0-1"}, {"theirs"})});
  if (!problems) GTEST_SKIP() << "no browser: scripts/install-page.sh gets what this test needs";
  EXPECT_EQ(*problems, "");
}

}  // namespace
}  // namespace muster::test
