// manifests/monitoring against a real Prometheus that scrapes Muster while jobs run, wait and are preempted:
// every rule and every query of every panel is asked. Without the packages of Prometheus it is skipped.
#include <curl/curl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "fixture.h"
#include "muster/testcluster/loopback.h"
#include "muster/testcluster/process.h"

namespace muster::test {
namespace {

using testcluster::CommandResult;
using testcluster::ProcessId;
using testcluster::run_command;

const std::filesystem::path kMonitoring = MUSTER_MONITORING;

CommandResult promtool(std::vector<std::string> arguments, const std::string& input = {}) {
  arguments.insert(arguments.begin(), "promtool");
  return run_command({.arguments = std::move(arguments), .environment = {}, .log = {}}, input)
      .value_or(CommandResult{-1, "", "it could not be run"});
}
bool has_prometheus() {
  const auto server = run_command({.arguments = {"prometheus", "--version"}, .environment = {}, .log = {}});
  return server && server->ok() && promtool({"--version"}).ok();
}
constexpr const char* kNoPrometheus =
    "Prometheus is not installed, so its rules and dashboards are not tested: "
    "scripts/install-deps.sh --monitoring";

std::size_t append(const char* data, std::size_t size, std::size_t n, void* to) {
  static_cast<std::string*>(to)->append(data, size * n);
  return size * n;
}
// "": no answer.
std::string http_get(const std::string& url) {
  std::string body;
  CURL* handle = curl_easy_init();
  curl_easy_setopt(handle, CURLOPT_URL, url.c_str());
  curl_easy_setopt(handle, CURLOPT_PROXY, "");
  curl_easy_setopt(handle, CURLOPT_TIMEOUT, 10L);
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, append);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, &body);
  if (curl_easy_perform(handle) != CURLE_OK) body.clear();
  curl_easy_cleanup(handle);
  return body;
}

// As its log says; 0: it does not.
int metrics_port_of(const MusterProcess& muster) {
  static const std::regex kServing("serving.*metrics.*port[^0-9]*([0-9]+)");
  const std::string log = muster.log();
  std::smatch found;
  return std::regex_search(log, found, kServing) ? std::stoi(found[1]) : 0;
}

// A server that scrapes one Muster each second.
class Prometheus {
 public:
  Prometheus(const std::filesystem::path& directory, int target) : port_(testcluster::free_port({target})) {
    std::filesystem::create_directories(directory);
    std::ofstream(directory / "prometheus.yml")
        << "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n"
        << "rule_files: [" << (kMonitoring / "rules.yaml").string() << "]\n"
        << "scrape_configs:\n- job_name: muster-metrics\n  static_configs:\n"
        << "  - targets: ['127.0.0.1:" << target << "']\n";
    testcluster::ProcessSpec spec;
    spec.arguments = {"prometheus", "--config.file=" + (directory / "prometheus.yml").string(),
                      "--storage.tsdb.path=" + (directory / "data").string(),
                      "--web.listen-address=127.0.0.1:" + std::to_string(port_), "--log.level=warn"};
    spec.log = directory / "prometheus.log";
    const auto started = testcluster::spawn(spec);
    if (!started) throw std::runtime_error(started.error());
    id_ = *started;
  }
  ~Prometheus() { testcluster::end_process(id_, 5s); }
  Prometheus(const Prometheus&) = delete;
  Prometheus& operator=(const Prometheus&) = delete;

  json get(const std::string& path) const {
    const auto body = http_get("http://127.0.0.1:" + std::to_string(port_) + path);
    return json::parse(body, nullptr, false);
  }
  json query(const std::string& text) const {
    char* escaped = curl_easy_escape(nullptr, text.c_str(), static_cast<int>(text.size()));
    json answer = get(std::string("/api/v1/query?query=") + escaped);
    curl_free(escaped);
    return answer;
  }
  bool has(const std::string& text) const {
    const json answer = query(text);
    return answer.is_object() && answer.value("status", "") == "success" && !answer["data"]["result"].empty();
  }

 private:
  int port_;
  ProcessId id_;
};

json dashboard(const std::string& name) {
  std::ifstream in(kMonitoring / "dashboards" / ("muster-" + name + ".json"));
  return json::parse(in);
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}
// As Grafana asks it with all Projects and pools chosen.
std::string as_asked(std::string query) {
  query = replaced(std::move(query), "$__rate_interval", "1m");
  query = replaced(std::move(query), "$project", ".*");
  return replaced(std::move(query), "$pool", ".*");
}

// What has no series in this run, and why.
const std::map<std::string, std::string> kWithoutData = {
    {"controller_runtime_reconcile_errors_total", "no reconciliation has to fail here"},
    {"controller_runtime_reconcile_panics_total", "no bug shows"},
    {"workqueue_retries_total", "nothing is tried again where nothing fails"},
};
bool may_be_empty(const std::string& query) {
  return std::ranges::any_of(kWithoutData,
                             [&](const auto& one) { return query.find(one.first) != std::string::npos; });
}

// Names of metrics in a query: of Muster's process and of recording rules.
std::set<std::string> metrics_in(const std::string& query) {
  static const std::regex kName(
      "\\b(?:[a-z_]+:)?(?:muster|controller_runtime|rest_client|leader_election|workqueue|process)[:_][a-z_:"
      "0-9]+");
  std::set<std::string> names;
  for (std::sregex_iterator it(query.begin(), query.end(), kName), end; it != end; ++it)
    names.insert(it->str());
  return names;
}

// The metrics that operations.md lists in "Metrics of sharing", as queries; a histogram has data under two
// names.
std::set<std::string> documented_metrics() {
  std::ifstream in(MUSTER_OPERATIONS_DOC);
  const std::string doc{std::istreambuf_iterator<char>(in), {}};
  const auto begin = doc.find("\n## Metrics of sharing\n");
  if (begin == std::string::npos) return {};
  std::istringstream section(doc.substr(begin + 1, doc.find("\n## ", begin + 1) - begin));
  static const std::regex kName("`(muster_[a-z_]*[a-z])`");
  std::set<std::string> queries;
  for (std::string line; std::getline(section, line);) {
    if (!line.starts_with("| `")) continue;
    const std::string names = line.substr(0, line.find('|', 2));
    for (std::sregex_iterator it(names.begin(), names.end(), kName), end; it != end; ++it)
      queries.insert(fmt::format("{0} or {0}_count", (*it)[1].str()));
  }
  return queries;
}

// The numbers are those of the objects.
const std::set<std::string> kFacts = {
    R"(muster_project_allocated_gpus{project="team",queue="root",pool="default"} == 9)",
    R"(muster_project_pending_gpus{project="team"} == 24)",
    R"(muster_queue_allocated_gpus{queue="root",parent=""} == 9)",
    R"(muster_project_jobs{project="team",phase="Queued"} == 1)",
    R"(sum(muster_project_waiting_jobs{project="team"}) == 1)",
    R"(muster_pool_free_gpus{pool="default"} == 7)",
    R"(sum(muster_node_allocated_gpus) == 9)",
    R"(muster_project_service_desired_replicas{project="team"} == 1)",
    R"(muster_project_service_ready_replicas{project="team"} == 1)",
    R"(sum(muster_project_services_held{project="team"}) == 1)",
    R"(muster_job_disruptions_total{project="team",action=~"evict|move",cause="Preempted"} == 1)",
    R"(muster_job_admission_wait_seconds_count{project="team"} == 3)",
    R"(muster_job_run_seconds_count{project="team",result="Succeeded"} == 1)",
    R"(muster_job_start_estimate_error_seconds_count{project="team"} == 1)",
    R"(sum(leader_election_master_status) == 1)",
};

TEST(MonitoringRules, AreRulesAndEachAlertFiresWhenItShouldAndNotBefore) {
  if (!has_prometheus()) GTEST_SKIP() << kNoPrometheus;
  const auto checked = promtool({"check", "rules", (kMonitoring / "rules.yaml").string()});
  EXPECT_TRUE(checked.ok()) << checked.out << checked.err;
  const auto tested = promtool({"test", "rules", MUSTER_ALERT_TESTS});
  EXPECT_TRUE(tested.ok()) << tested.out << tested.err;
}

class Monitoring : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_prometheus()) GTEST_SKIP() << kNoPrometheus;
    cluster_ = Cluster::start(2, 8);
    muster_ = cluster_->muster({"--leader-elect"});
    metrics_port_ = metrics_port_of(*muster_);
    ASSERT_NE(metrics_port_, 0) << muster_->log();
    prometheus_ = std::make_unique<Prometheus>(cluster_->real().directory() / "prometheus", metrics_port_);
    // Rates of what happens once need a sample from before.
    ASSERT_TRUE(cluster_->wait(30s, [&] { return prometheus_->has("muster_job_run_seconds_count == 0"); }));
  }

  std::string estimate_of(const std::string& job) const {
    return cluster_->job(job).value("/status/queue/estimatedStart"_json_pointer, std::string());
  }
  void end_pods_of(const std::string& job) const {
    for (const auto& pod : cluster_->pods(job)) {
      cluster_->patch("/api/v1/namespaces/team/pods/" + pod["metadata"]["name"].get<std::string>(),
                      {{"metadata", {{"annotations", {{"test.muster.dev/exit-now", "0"}}}}}});
    }
  }
  // Something of everything: a service that cannot be read, a job that is preempted, is told when it may
  // start and starts sooner, one that ends, one that waits for good.
  void live() {
    cluster_->apply(
        R"({apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: low}, value: 10})");
    cluster_->patch("/apis/muster.dev/v1alpha1/projects/team", {{"spec", {{"limit", {{"gpu", "64"}}}}}});
    cluster_->create(service_object(
        "chat", 1,
        {{"autoscaling",
          {{"maxReplicas", 2}, {"metric", "RequestsRunning"}, {"target", "2"}, {"metricsPort", 1}}}}));
    ASSERT_TRUE(cluster_->wait(30s, [&] {
      return cluster_->get(path_of_service("chat")).value("/status/readyReplicas"_json_pointer, 0) == 1;
    })) << cluster_->get(path_of_service("chat")).dump(2);
    cluster_->create(job_object({.name = "low",
                                 .gpus = 8,
                                 .pod_annotations = {{"test.muster.dev/save-for", "1s"}},
                                 .spec = {{"priorityClassName", "low"}}}));
    ASSERT_TRUE(cluster_->wait_phase("low", "Running"));
    cluster_->create(job_object(
        {.name = "high", .gpus = 8, .spec = {{"priorityClassName", "training"}, {"maxRuntime", "1h"}}}));
    ASSERT_TRUE(cluster_->wait_phase("high", "Running")) << cluster_->job("high").dump(2);
    ASSERT_TRUE(cluster_->wait(30s, [&] { return !estimate_of("low").empty(); }))
        << cluster_->job("low").dump(2);
    end_pods_of("high");
    ASSERT_TRUE(cluster_->wait_phase("high", "Succeeded")) << cluster_->job("high").dump(2);
    ASSERT_TRUE(cluster_->wait_phase("low", "Running")) << cluster_->job("low").dump(2);
    cluster_->create(job_object({.name = "waits", .replicas = 3, .gpus = 8}));
    ASSERT_TRUE(cluster_->wait(30s, [&] { return !cluster_->reason("waits").empty(); }));
  }
  // Waits until all of them have data; those that have none at the end, with what was answered.
  std::string without_data(std::set<std::string> queries, Milliseconds patience = 20s) const {
    cluster_->wait(patience, [&] {
      std::erase_if(queries, [&](const auto& query) { return prometheus_->has(query); });
      return queries.empty();
    });
    std::string text;
    for (const auto& query : queries) text += query + "\n  " + prometheus_->query(query).dump() + "\n";
    return text;
  }

  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<MusterProcess> muster_;
  std::unique_ptr<Prometheus> prometheus_;
  int metrics_port_ = 0;
};

TEST_F(Monitoring, EveryPanelAndEveryRuleHasDataWhileJobsRunWaitAndArePreempted) {
  ASSERT_NO_FATAL_FAILURE(live());
  EXPECT_EQ(without_data(kFacts), "");
  std::set<std::string> queries;
  for (const char* name : {"cluster", "project", "operator"}) {
    for (const auto& panel : dashboard(name)["panels"]) {
      for (const auto& target : panel["targets"]) {
        const std::string query = as_asked(target["expr"]);
        const json answer = prometheus_->query(query);
        EXPECT_EQ(answer.value("status", ""), "success") << panel["title"] << ": " << answer.dump();
        if (!may_be_empty(query)) queries.insert(query);
      }
    }
  }
  EXPECT_GT(queries.size(), 50u);
  EXPECT_EQ(without_data(queries), "");
  // What has no data is found: a panel whose metric was renamed, or whose label has no such value.
  for (const char* query : {"muster_no_such_metric", "muster_project_jobs{phase=\"NoSuchPhase\"}"})
    EXPECT_THAT(without_data({query}, 1s), testing::StartsWith(query));
  const auto documented = documented_metrics();
  EXPECT_GT(documented.size(), 25u);
  EXPECT_EQ(without_data(documented), "") << "operations.md names it";

  std::set<std::string> metrics;
  int alerts = 0, recorded = 0;
  const json answer = prometheus_->get("/api/v1/rules");
  for (const auto& group : answer["data"]["groups"]) {
    for (const auto& rule : group["rules"]) {
      EXPECT_EQ(rule["health"], "ok") << rule.dump(2);
      ++(rule["type"] == "alerting" ? alerts : recorded);
      if (rule["type"] == "recording") metrics.insert(rule["name"].get<std::string>());
      if (rule["type"] == "alerting") EXPECT_NE(rule["state"], "firing") << rule.dump(2);
      for (const auto& name : metrics_in(rule["query"])) {
        if (!may_be_empty(name)) metrics.insert(name);
      }
    }
  }
  EXPECT_EQ(alerts, 10);
  EXPECT_EQ(recorded, 7);
  EXPECT_EQ(without_data(metrics), "") << "an alert on a metric that does not exist never fires";

  const std::string text = http_get("http://127.0.0.1:" + std::to_string(metrics_port_) + "/metrics");
  const auto lint = promtool({"check", "metrics"}, text);
  EXPECT_TRUE(lint.ok()) << lint.out << lint.err;
  EXPECT_EQ(muster_->stop(), 0);
}

}  // namespace
}  // namespace muster::test
