// Who may do what: every line of the tables in docs/access.md, asked of the real API server by impersonation.
// Requests are dry runs on objects that do not exist: whoever is let through gets any answer but Forbidden.
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "fixture.h"

namespace muster::test {
namespace {

using testing::HasSubstr;

struct Person {
  std::string user;
  std::string group;    // empty: none
  std::string project;  // empty: of none
  int column = -1;      // of the tables: Admin 0, Researcher 1, Viewer 2
};
const std::vector<Person> kPeople = {
    {"nina", "", "nlp", 0},      {"rosa", "nlp-team", "nlp", 1}, {"vera", "", "nlp", 2},
    {"victor", "", "vision", 0}, {"robin", "", "vision", 1},     {"vic", "vision-guests", "vision", 2},
    {"stranger", "", "", -1},
};

struct Rule {
  std::string resource, group, subresource, verb;
  bool cluster_scoped = false;
  bool allowed[3] = {};

  std::string in_words() const { return resource + (subresource.empty() ? "" : "/" + subresource); }
};

std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream in(line.substr(1));
  for (std::string cell; std::getline(in, cell, '|');) {
    const auto first = cell.find_first_not_of(' '), last = cell.find_last_not_of(' ');
    cells.push_back(first == std::string::npos ? "" : cell.substr(first, last - first + 1));
  }
  return cells;
}

std::vector<Rule> matrix() {
  std::ifstream in(MUSTER_ACCESS_DOC);
  std::vector<Rule> rules;
  bool cluster_scoped = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("## ")) cluster_scoped = line == "## In the whole cluster";
    if (!line.starts_with("| ")) continue;
    const auto row = cells(line);
    if (row.size() != 5 || row[0] == "resource") continue;
    Rule rule;
    rule.cluster_scoped = cluster_scoped;
    std::string whole = row[0];
    if (const auto slash = whole.find('/'); slash != std::string::npos) {
      rule.subresource = whole.substr(slash + 1);
      whole.resize(slash);
    }
    const auto dot = whole.find('.');
    rule.resource = whole.substr(0, dot);
    if (dot != std::string::npos) rule.group = whole.substr(dot + 1);
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(row[2 + i] == "yes" || row[2 + i] == "no") << line;
      rule.allowed[i] = row[2 + i] == "yes";
    }
    std::istringstream verbs(row[1]);
    while (verbs >> rule.verb) rules.push_back(rule);
  }
  return rules;
}

class Access : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    cluster_ = Cluster::start(1, 8);
    muster_ = cluster_->muster();
    cluster_->apply(R"(
apiVersion: muster.dev/v1alpha1
kind: Project
metadata: {name: nlp}
spec:
  queue: root
  members:
  - {kind: User, name: nina, role: Admin}
  - {kind: Group, name: nlp-team, role: Researcher}
  - {kind: User, name: vera, role: Viewer}
---
apiVersion: muster.dev/v1alpha1
kind: Project
metadata: {name: vision}
spec:
  queue: root
  members:
  - {kind: User, name: victor, role: Admin}
  - {kind: User, name: robin, role: Researcher}
  - {kind: Group, name: vision-guests, role: Viewer}
)");
    for (const char* name : {"nlp", "vision"}) {
      ASSERT_TRUE(cluster_->wait_namespace(name, 20s))
          << cluster_->get(std::string("/apis/muster.dev/v1alpha1/projects/") + name).dump(2);
    }
    // The aggregated roles are filled, and the authorizer has heard of the bindings.
    for (const auto& person : kPeople) {
      if (person.column < 0) continue;
      ASSERT_TRUE(cluster_->wait(20s, [&] {
        const std::string path = "/apis/batch/v1/namespaces/" + person.project + "/jobs";
        return ask(person, "GET", path).status == 200;
      })) << person.user;
    }
  }
  static void TearDownTestSuite() {
    muster_.reset();
    cluster_.reset();
  }
  void TearDown() override {
    if (HasFailure() && muster_) std::cerr << muster_->log().substr(0, 20000);
  }

  static testcluster::HttpResponse ask(const Person& who, const std::string& method, const std::string& path,
                                       const std::string& body = {},
                                       const std::string& type = "application/json") {
    std::vector<std::string> headers = {"Impersonate-User: " + who.user};
    if (!who.group.empty()) headers.push_back("Impersonate-Group: " + who.group);
    headers.push_back("Impersonate-Group: system:authenticated");
    const auto answer = cluster_->real().request(method, path, body, type, 30s, headers);
    if (!answer) throw std::runtime_error(answer.error());
    return *answer;
  }

  static testcluster::HttpResponse ask(const Person& who, const Rule& rule, const std::string& ns) {
    std::string path = rule.group.empty() ? "/api/v1" : "/apis/" + rule.group + "/" + version_of(rule.group);
    if (!ns.empty()) path += "/namespaces/" + ns;
    path += "/" + rule.resource;
    if (rule.verb == "list") return ask(who, "GET", path);
    // Whoever may watch is told at once that this is no version.
    if (rule.verb == "watch")
      return ask(who, "GET", path + "?watch=true&timeoutSeconds=1&resourceVersion=none");
    if (rule.verb == "deletecollection")
      return ask(who, "DELETE", path + "?dryRun=All&labelSelector=no%3Dsuch");
    if (rule.verb != "create" || !rule.subresource.empty()) path += "/no-such-object";
    if (!rule.subresource.empty()) path += "/" + rule.subresource;
    if (rule.verb == "get") return ask(who, "GET", path);
    path += "?dryRun=All";
    if (rule.verb == "create") return ask(who, "POST", path, "{}");
    if (rule.verb == "update") return ask(who, "PUT", path, "{}");
    if (rule.verb == "patch") return ask(who, "PATCH", path, "{}", "application/merge-patch+json");
    if (rule.verb == "delete") return ask(who, "DELETE", path);
    throw std::runtime_error("no such verb: " + rule.verb);
  }
  static std::string version_of(const std::string& group) {
    return group == "muster.dev" ? "v1alpha1" : "v1";
  }

  // The API server's words for a refusal.
  static std::string refusal(const Person& who, const Rule& rule, const std::string& ns) {
    // A Namespace is asked about as if it were in itself.
    const bool is_in_itself = rule.resource == "namespaces" && rule.verb != "list" && rule.verb != "create";
    const std::string where = is_in_itself ? "no-such-object" : ns;
    return "User \\\"" + who.user + "\\\" cannot " + rule.verb + " resource \\\"" + rule.in_words() +
           "\\\" in API group \\\"" + rule.group + "\\\" " +
           (where.empty() ? "at the cluster scope" : "in the namespace \\\"" + where + "\\\"");
  }

  static void expect(const Person& who, const Rule& rule, const std::string& ns, bool allowed) {
    const auto answer = ask(who, rule, ns);
    const std::string what =
        who.user + ": " + rule.verb + " " + rule.in_words() + (ns.empty() ? "" : " in " + ns);
    if (allowed) {
      EXPECT_NE(answer.status, 403) << what << "\n" << answer.body;
      EXPECT_NE(answer.status, 401) << what << "\n" << answer.body;
    } else {
      EXPECT_EQ(answer.status, 403) << what << "\n" << answer.body;
      EXPECT_THAT(answer.body, HasSubstr(refusal(who, rule, ns))) << what;
    }
  }

  static inline std::unique_ptr<Cluster> cluster_;
  static inline std::unique_ptr<MusterProcess> muster_;
};

TEST_F(Access, IsAsTheMatrixSays) {
  const auto rules = matrix();
  ASSERT_GT(rules.size(), 100u) << "the tables of " MUSTER_ACCESS_DOC " were not found";
  int asked = 0;
  for (const auto& person : kPeople) {
    for (const auto& rule : rules) {
      if (rule.cluster_scoped) {
        expect(person, rule, "", person.column >= 0 && rule.allowed[person.column]);
        ++asked;
        continue;
      }
      for (const char* ns : {"nlp", "vision"}) {
        const bool is_own = person.project == ns;
        expect(person, rule, ns, is_own && rule.allowed[person.column]);
        ++asked;
      }
    }
  }
  std::cout << asked << " questions\n";
}

// Not only dry runs: five lines run in the own project, and are refused in the other.
TEST_F(Access, AResearcherRunsFiveLinesInHerProjectAndIsRefusedInTheOther) {
  const auto yaml = [](const std::string& ns) {
    return R"(apiVersion: muster.dev/v1alpha1
kind: TrainingJob
metadata: {name: hello, namespace: )" +
           ns + R"(}
spec:
  roles: [{name: main, gpus: {count: 1}, template: {spec: {containers: [{name: main, image: registry.example/hello, command: [hello]}]}}}]
)";
  };
  const auto as_rosa = [&](const std::string& ns) {
    return cluster_->real().kubectl({"apply", "--as=rosa", "--as-group=nlp-team", "-f", "-"}, yaml(ns));
  };
  const auto own = as_rosa("nlp");
  ASSERT_TRUE(own && own->ok()) << (own ? own->err : own.error());
  ASSERT_TRUE(cluster_->wait_phase("hello", "Running", 30s, "nlp")) << cluster_->job("hello", "nlp").dump(2);
  const auto pods = cluster_->pods("hello", "nlp");
  ASSERT_EQ(pods.size(), 1u);
  EXPECT_EQ(pods[0]["spec"]["serviceAccountName"], "muster-job");
  for (const auto& volume : pods[0]["spec"]["volumes"])
    EXPECT_FALSE(volume.contains("projected")) << "a token is mounted: " << volume.dump();
  const auto other = as_rosa("vision");
  ASSERT_TRUE(other);
  EXPECT_FALSE(other->ok());
  EXPECT_THAT(other->err,
              HasSubstr("trainingjobs.muster.dev \"hello\" is forbidden: User \"rosa\" cannot get "
                        "resource \"trainingjobs\" in API group \"muster.dev\" in the namespace "
                        "\"vision\""));
  EXPECT_TRUE(cluster_->job("hello", "vision").is_null());
  cluster_->remove_all_jobs();
}

// The account that jobs run as may do nothing at all.
TEST_F(Access, TheAccountOfJobsHasNoRights) {
  const Person account{"system:serviceaccount:nlp:muster-job", "system:serviceaccounts:nlp", "", -1};
  for (const auto& rule : matrix()) expect(account, rule, rule.cluster_scoped ? "" : "nlp", false);
}

TEST_F(Access, WhoLeavesTheMembersIsOutAndWhoComesIsIn) {
  const Rule list{"trainingjobs", "muster.dev", "", "list", false, {}};
  const Person nora{"nora", "", "", -1};
  const Person& vera = kPeople[2];
  EXPECT_EQ(ask(nora, list, "nlp").status, 403);
  const std::string path = "/apis/muster.dev/v1alpha1/projects/nlp";
  const json before = cluster_->get(path)["spec"]["members"];
  json members = before;
  members[2]["name"] = "nora";
  cluster_->patch(path, {{"spec", {{"members", members}}}});
  EXPECT_TRUE(cluster_->wait(10s, [&] { return ask(nora, list, "nlp").status == 200; }));
  EXPECT_TRUE(cluster_->wait(10s, [&] { return ask(vera, list, "nlp").status == 403; }));
  cluster_->patch(path, {{"spec", {{"members", before}}}});
  EXPECT_TRUE(cluster_->wait(10s, [&] { return ask(vera, list, "nlp").status == 200; }));
}

}  // namespace
}  // namespace muster::test
