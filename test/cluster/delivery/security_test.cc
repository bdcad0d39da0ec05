// What docs/security.md says of accounts, line by line: what each may and what it may not, as the API server
// has it.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "delivery.h"

namespace muster::test {
namespace {

using testing::HasSubstr;

const std::string kController = "system:serviceaccount:muster-system:muster";
const std::string kPage = "system:serviceaccount:muster-system:muster-ui";

struct Right {
  std::string verb, resource;  // resource: "pods/exec", "trainingjobs.muster.dev"
};

class Security : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    cluster_ = Cluster::start_with([](testcluster::TestCluster& real) {
      return real.apply_without_deployments(
          write_overlay(real.directory() / "overlay", {.resources = {"ui"}}));
    });
    cluster_->add_team(1, 8);
    muster_ = cluster_->muster();
  }
  static void TearDownTestSuite() {
    muster_.reset();
    cluster_.reset();
  }
  static bool may(const std::string& account, const Right& right, const std::string& ns = "team") {
    std::string whole = right.resource, group, sub;
    if (const auto dot = whole.find('.'); dot != std::string::npos) {
      group = whole.substr(dot + 1);
      whole.resize(dot);
    }
    if (const auto slash = whole.find('/'); slash != std::string::npos) {
      sub = whole.substr(slash + 1);
      whole.resize(slash);
    }
    const json review = {{"apiVersion", "authorization.k8s.io/v1"},
                         {"kind", "SubjectAccessReview"},
                         {"spec",
                          {{"user", account},
                           {"groups", {"system:serviceaccounts", "system:authenticated"}},
                           {"resourceAttributes",
                            {{"namespace", ns},
                             {"verb", right.verb},
                             {"group", group},
                             {"resource", whole},
                             {"subresource", sub}}}}}};
    const auto answer =
        cluster_->real().request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review.dump());
    if (!answer || !answer->ok()) throw std::runtime_error(answer ? answer->body : answer.error());
    return json::parse(answer->body)["status"]["allowed"];
  }
  static void expect(const std::string& account, const std::vector<Right>& rights, bool allowed) {
    for (const auto& right : rights)
      EXPECT_EQ(may(account, right), allowed) << right.verb << " " << right.resource;
  }
  static testcluster::HttpResponse as(const std::string& account, const std::string& method,
                                      const std::string& path, const json& body) {
    const auto answer = cluster_->real().request(
        method, path, body.dump(), method == "PATCH" ? "application/merge-patch+json" : "application/json",
        30s, {"Impersonate-User: " + account, "Impersonate-Group: system:authenticated"});
    if (!answer) throw std::runtime_error(answer.error());
    return *answer;
  }
  static json binding(const std::string& role) {
    return {{"apiVersion", "rbac.authorization.k8s.io/v1"},
            {"kind", "RoleBinding"},
            {"metadata", {{"name", role}, {"namespace", "team"}}},
            {"roleRef", {{"apiGroup", "rbac.authorization.k8s.io"}, {"kind", "ClusterRole"}, {"name", role}}},
            {"subjects", {{{"kind", "ServiceAccount"}, {"name", "muster"}, {"namespace", "muster-system"}}}}};
  }
  static json privileged_pod(const std::string& ns) {
    return {{"apiVersion", "v1"},
            {"kind", "Pod"},
            {"metadata", {{"name", "strong"}, {"namespace", ns}}},
            {"spec",
             {{"containers",
               {{{"name", "main"}, {"image", "i"}, {"securityContext", {{"privileged", true}}}}}}}}};
  }

  static inline std::unique_ptr<Cluster> cluster_;
  static inline std::unique_ptr<MusterProcess> muster_;
};

TEST_F(Security, WhoTakesOverTheControllerMayThisAndNoMore) {
  const std::string rbac = ".rbac.authorization.k8s.io", own = ".muster.dev";
  expect(kController,
         {{"create", "pods"},
          {"delete", "pods"},
          {"list", "pods"},
          {"patch", "namespaces"},
          {"delete", "namespaces"},
          {"create", "rolebindings" + rbac},
          {"patch", "projects" + own},
          {"delete", "trainingjobs" + own},
          {"delete", "inferenceservices" + own},
          {"list", "nodes"},
          {"list", "persistentvolumes"},
          {"list", "persistentvolumeclaims"}},
         true);
  expect(kController,
         {{"get", "secrets"},
          {"list", "secrets"},
          {"create", "pods/exec"},
          {"create", "pods/attach"},
          {"create", "pods/portforward"},
          {"create", "pods/ephemeralcontainers"},
          {"get", "pods/log"},
          {"patch", "pods"},
          {"patch", "nodes"},
          {"delete", "nodes"},
          {"get", "nodes/proxy"},
          {"create", "serviceaccounts/token"},
          {"impersonate", "users"},
          {"create", "roles" + rbac},
          {"patch", "roles" + rbac},
          {"create", "clusterroles" + rbac},
          {"patch", "clusterroles" + rbac},
          {"bind", "clusterroles" + rbac},
          {"escalate", "clusterroles" + rbac},
          {"create", "clusterrolebindings" + rbac},
          {"patch", "customresourcedefinitions.apiextensions.k8s.io"},
          {"patch", "validatingadmissionpolicies.admissionregistration.k8s.io"},
          {"patch", "queues" + own},
          {"patch", "nodepools" + own},
          {"patch", "trainingjobs" + own},
          {"update", "trainingjobs" + own},
          {"patch", "inferenceservices" + own},
          {"create", "projects" + own}},
         false);
  // It binds the three roles of projects, also to itself, and no other.
  const std::string bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/team/rolebindings";
  for (const char* other : {"cluster-admin", "admin", "edit", "system:node"})
    EXPECT_EQ(as(kController, "POST", bindings, binding(other)).status, 403) << other;
  EXPECT_EQ(as(kController, "POST", bindings, binding("muster-project-admin")).status, 201);
  EXPECT_TRUE(cluster_->wait(10s, [] { return may(kController, {"get", "secrets"}); }));
  EXPECT_FALSE(may(kController, {"get", "secrets"}, "kube-system"));
  cluster_->remove(bindings + "/muster-project-admin");
  // Pod Security holds for it as for others, until it takes the label away.
  cluster_->make_namespace("strict");
  cluster_->patch("/api/v1/namespaces/strict",
                  {{"metadata", {{"labels", {{"pod-security.kubernetes.io/enforce", "baseline"}}}}}});
  const auto strong = as(kController, "POST", "/api/v1/namespaces/strict/pods", privileged_pod("strict"));
  EXPECT_EQ(strong.status, 403);
  EXPECT_THAT(strong.body, HasSubstr("violates PodSecurity"));
}

// RBAC knows no right to finalizers alone, nor to some namespaces: the policy muster-own-writes does.
TEST_F(Security, TheControllerChangesNoProjectAndDeletesOnlyNamespacesThatMusterMade) {
  const std::string projects = "/apis/muster.dev/v1alpha1/projects/team";
  const auto spec = [&] {
    return as(kController, "PATCH", projects + "?dryRun=All", {{"spec", {{"weight", 7}}}});
  };
  // A new API server takes a moment until it has read its policies.
  ASSERT_TRUE(cluster_->wait(10s, [&] { return spec().status == 403; }));
  EXPECT_THAT(spec().body, HasSubstr("changes no spec of a Project"));
  const auto finalizer =
      as(kController, "PATCH", projects, {{"metadata", {{"finalizers", {"muster.dev/x"}}}}});
  EXPECT_EQ(finalizer.status, 200) << finalizer.body;
  EXPECT_EQ(as(kController, "PATCH", projects, {{"metadata", {{"finalizers", nullptr}}}}).status, 200);

  cluster_->make_namespace("theirs");
  const std::string theirs = "/api/v1/namespaces/theirs";
  const auto gone = as(kController, "DELETE", theirs, json::object());
  EXPECT_EQ(gone.status, 403);
  EXPECT_THAT(gone.body, HasSubstr("only namespaces that it has made"));
  const json mark = {{"metadata", {{"annotations", {{"muster.dev/made-for", "team"}}}}}};
  EXPECT_EQ(as(kController, "PATCH", theirs, mark).status, 403);
  const json label = {{"metadata", {{"labels", {{"team", "x"}}}}}};
  EXPECT_EQ(as(kController, "PATCH", theirs, label).status, 200);
  cluster_->patch(theirs, mark);  // an administrator may
  EXPECT_EQ(as(kController, "DELETE", theirs, json::object()).status, 200);
}

TEST_F(Security, WhoTakesOverThePageMayOnlyLookAndAskWhoSomebodyIs) {
  const std::vector<Right> reads = {{"list", "queues.muster.dev"},
                                    {"watch", "trainingjobs.muster.dev"},
                                    {"list", "inferenceservices.muster.dev"},
                                    {"list", "nodes"},
                                    {"create", "tokenreviews.authentication.k8s.io"},
                                    {"create", "subjectaccessreviews.authorization.k8s.io"}};
  expect(kPage, reads, true);
  std::vector<Right> others = {
      {"list", "pods"},       {"get", "pods/log"},      {"list", "secrets"},
      {"list", "configmaps"}, {"list", "events"},       {"list", "events.events.k8s.io"},
      {"list", "namespaces"}, {"impersonate", "users"}, {"create", "serviceaccounts/token"},
      {"create", "pods"},     {"patch", "nodes"}};
  for (const char* verb : {"create", "update", "patch", "delete"})
    for (const char* kind : {"queues", "projects", "nodepools", "trainingjobs", "trainingjobs/status",
                             "inferenceservices", "inferenceservices/scale"})
      others.push_back({verb, kind + std::string(".muster.dev")});
  expect(kPage, others, false);
}

TEST_F(Security, AJobsPodHasNoTokenAndMayNotBeStrongerThanItsNamespaceAllows) {
  cluster_->apply(R"(
apiVersion: muster.dev/v1alpha1
kind: Project
metadata: {name: firm}
spec: {queue: root, namespace: {name: firm, podSecurity: baseline}}
)");
  ASSERT_TRUE(cluster_->wait_namespace("firm"));
  cluster_->create(job_object({.name = "plain", .ns = "firm"}));
  ASSERT_TRUE(cluster_->wait_phase("plain", "Running", 30s, "firm"));
  const json pod = cluster_->pods("plain", "firm")[0];
  EXPECT_EQ(pod["spec"]["serviceAccountName"], "muster-job");
  EXPECT_FALSE(cluster_->get("/api/v1/namespaces/firm/serviceaccounts/muster-job")
                   .value("automountServiceAccountToken", true));
  for (const auto& volume : pod["spec"].value("volumes", json::array()))
    EXPECT_FALSE(volume.contains("projected")) << "a token is mounted: " << volume.dump();

  json strong = job_object({.name = "strong", .ns = "firm"});
  strong["spec"]["roles"][0]["template"]["spec"]["containers"][0]["securityContext"] = {{"privileged", true}};
  cluster_->create(strong);
  EXPECT_TRUE(cluster_->wait(30s, [] {
    return cluster_->job("strong", "firm").dump().find("violates PodSecurity") != std::string::npos;
  })) << cluster_->job("strong", "firm").dump(1);
  EXPECT_TRUE(cluster_->pods("strong", "firm").empty());
}

}  // namespace
}  // namespace muster::test
