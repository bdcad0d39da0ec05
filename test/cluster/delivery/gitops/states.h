// What GitOps tools make of every kind in every state that a live Muster brings it into, as the tools compute
// it.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include "delivery.h"

namespace muster::test {

inline const std::string kApi = "/apis/muster.dev/v1alpha1/";

struct Verdict {
  std::string kstatus, flux, argo;
  bool operator==(const Verdict&) const = default;
};
inline std::ostream& operator<<(std::ostream& out, const Verdict& v) {
  return out << v.kstatus << " " << v.flux << " " << v.argo;
}
inline const Verdict kFine = {"Current", "Current", "Healthy"};
inline const Verdict kOnItsWay = {"InProgress", "InProgress", "Progressing"};
inline const Verdict kFailed = {"Failed", "Failed", "Degraded"};
// kstatus alone cannot know that somebody will still look at the object. Flux waits where it cannot tell.
inline const Verdict kUnseen = {"Current", "Unknown", "Progressing"};

// Every address of a simulated pod becomes this machine. False: it cannot be done here.
inline bool enter_own_network() {
  if (::geteuid() != 0 || ::unshare(CLONE_NEWNET) != 0) return false;
  for (const char* words : {"link set lo up", "route add local 10.64.0.0/12 dev lo"}) {
    testcluster::ProcessSpec spec;
    spec.arguments = {"sh", "-c", std::string("ip ") + words};
    const auto done = testcluster::run_command(spec);
    if (!done || !done->ok()) return false;
  }
  return true;
}

class GitOps : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    own_network_ = enter_own_network();
    cluster_ = Cluster::start(2, 8, {}, 16);
    const auto cm = cluster_->real().directory() / "argocd-cm.yaml";
    std::ofstream(cm) << kustomize(manifests("gitops/argocd"));
    judge_ = {built("health"), cm, manifests("gitops/samples/flux-kustomizations.yaml")};
    muster_ = cluster_->muster();
  }
  static void TearDownTestSuite() {
    compare_table();
    muster_.reset();
    cluster_.reset();
  }

  // As the tools compute it; the Lua and CEL are the shipped ones.
  static json judged(const json& object) {
    const json list = {{"apiVersion", "v1"}, {"kind", "List"}, {"items", {object}}};
    return json::parse(run(judge_, list.dump()));
  }
  static Verdict verdict(const json& object) {
    const json said = judged(object);
    return {said["kstatus"], said["flux"], said["argo"]};
  }
  // Waits until the object is in that state, and holds what is made of it against `wanted`.
  static void expect(const std::string& state, const std::string& path, const Verdict& wanted,
                     const std::function<bool(const json&)>& is_there) {
    SCOPED_TRACE(state);
    json object;
    const bool came = cluster_->wait(40s, [&] {
      object = cluster_->get(path);
      return !object.is_null() && is_there(object);
    });
    EXPECT_TRUE(came) << object.dump(1);
    if (!came) return;
    EXPECT_EQ(verdict(object), wanted) << object["status"].dump(1);
    rows_.push_back({object["kind"], state, wanted});
  }
  static std::function<bool(const json&)> phase(const std::string& wanted, const std::string& reason = "") {
    return [=](const json& job) {
      return job.value("/status/phase"_json_pointer, "") == wanted &&
             job.value("/status/queue/reason"_json_pointer, "") == reason;
    };
  }
  static std::function<bool(const json&)> condition(const std::string& type, const std::string& status,
                                                    const std::string& reason = "") {
    return [=](const json& object) {
      for (const auto& c : object.value("/status/conditions"_json_pointer, json::array()))
        if (c["type"] == type && c["status"] == status && (reason.empty() || c["reason"] == reason))
          return true;
      return false;
    };
  }
  // What a run of all states has found is what docs/gitops.md says. MUSTER_GITOPS_TABLES=FILE writes it.
  static void compare_table() {
    std::ostringstream table;
    table << kHeader << "|---|---|---|---|---|\n";
    std::ranges::stable_sort(rows_, {}, &Row::kind);
    for (const auto& r : rows_)
      table << fmt::format("| {} | {} | {} | {} | {} |\n", r.kind, r.state, r.is.kstatus, r.is.flux,
                           r.is.argo);
    if (const char* file = std::getenv("MUSTER_GITOPS_TABLES")) std::ofstream(file) << table.str();
    const auto& suite = *testing::UnitTest::GetInstance()->current_test_suite();
    if (!own_network_ || suite.test_to_run_count() != suite.total_test_count() || suite.Failed()) return;
    std::ifstream in(manifests("../docs/gitops.md"));
    const std::string docs(std::istreambuf_iterator<char>(in), {});
    const auto begin = docs.find(kHeader);
    ASSERT_NE(begin, std::string::npos);
    EXPECT_EQ(docs.substr(begin, docs.find("\n\n", begin) + 1 - begin), table.str())
        << "MUSTER_GITOPS_TABLES=FILE writes the table as it is";
  }

  static constexpr const char* kHeader = "| kind | state | kstatus | Flux | Argo CD |\n";
  struct Row {
    std::string kind, state;
    Verdict is;
  };
  static inline bool own_network_ = false;
  static inline std::vector<Row> rows_;
  static inline std::unique_ptr<Cluster> cluster_;
  static inline std::unique_ptr<MusterProcess> muster_;
  static inline std::vector<std::string> judge_;
};

}  // namespace muster::test
