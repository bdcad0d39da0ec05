// `kubectl muster ui` as people use it: the real program on a real control plane, asked by hand and by a real
// browser.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <sstream>

#include "browse.h"
#include "fixture.h"
#include "muster/testcluster/process.h"

namespace muster::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string read_file(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// A page that runs as a process of its own, until the object goes.
class Page {
 public:
  Page(const Cluster& cluster, const std::filesystem::path& kubeconfig, std::vector<std::string> more = {})
      : log_(kubeconfig.string() + ".page.log") {
    std::filesystem::remove(log_);
    testcluster::ProcessSpec spec;
    spec.arguments = {MUSTER_PLUGIN, "--kubeconfig", kubeconfig.string(), "ui"};
    spec.arguments.insert(spec.arguments.end(), more.begin(), more.end());
    spec.log = log_;
    const auto id = testcluster::spawn(spec);
    if (!id) throw std::runtime_error(id.error());
    id_ = *id;
    if (!cluster.wait(20s, [&] { return read_file(log_).find('\n') != std::string::npos; }))
      throw std::runtime_error("the page has printed no URL: " + read_file(log_));
    const std::string text = read_file(log_);
    url_ = text.substr(0, text.find('\n'));
  }
  ~Page() { testcluster::end_process(id_, 5s); }
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;

  const std::string& url() const { return url_; }
  std::string token() const { return url_.substr(url_.find("#token=") + 7); }
  int port() const { return std::stoi(url_.substr(url_.rfind(':') + 1)); }
  bool end() { return testcluster::end_process(id_, 5s); }

  // Sends `request` as it is, and reads until `enough` holds, the other side has closed, or 20 s have passed.
  std::string say(const std::string& request,
                  const std::function<bool(const std::string&)>& enough = {}) const {
    const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(port()));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{1, 0};
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    std::string answer;
    if (connect(s, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 &&
        send(s, request.data(), request.size(), MSG_NOSIGNAL) == std::ssize(request)) {
      const auto deadline = std::chrono::steady_clock::now() + 20s;
      while (!(enough && enough(answer)) && std::chrono::steady_clock::now() < deadline) {
        char buffer[65536];
        const ssize_t got = recv(s, buffer, sizeof buffer, 0);
        if (got == 0) break;
        if (got > 0) answer.append(buffer, static_cast<std::size_t>(got));
      }
    }
    close(s);
    return answer;
  }
  // A GET; "\r\n" after each of `headers`. The connection is closed after the answer.
  std::string get(const std::string& target, const std::string& headers) const {
    return say("GET " + target + " HTTP/1.1\r\nConnection: close\r\n" + headers + "\r\n");
  }
  std::string host() const { return "Host: 127.0.0.1:" + std::to_string(port()) + "\r\n"; }
  std::string bearer() const { return "Authorization: Bearer " + token() + "\r\n"; }
  // What it tells of changes until `enough` holds.
  std::string changes(const std::function<bool(const std::string&)>& enough) const {
    return say("GET /api/changes HTTP/1.1\r\n" + host() + bearer() + "\r\n", enough);
  }

 private:
  std::filesystem::path log_;
  testcluster::ProcessId id_;
  std::string url_;
};

std::function<bool(const std::string&)> has(const std::string& part) {
  return [part](const std::string& text) { return text.find(part) != std::string::npos; };
}

class Ui : public OneCluster {
 protected:
  static void SetUpTestSuite() {
    cluster_ = Cluster::start(2, 8, {}, 8);
    muster_ = cluster_->muster();
  }
  static std::filesystem::path admin() { return cluster_->real().kubeconfig(); }
};

TEST_F(Ui, AnswersOnlyWhoHasItsUrl) {
  Page page(*cluster_, admin());
  EXPECT_THAT(page.url(), testing::MatchesRegex("http://127\\.0\\.0\\.1:[0-9]+/#token=[0-9a-f]{32}"));
  EXPECT_THAT(page.get("/", page.host()),
              AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("Content-Security-Policy: default-src 'self';"),
                    HasSubstr("<title>Muster</title>")));
  const std::string job = "/api/job?namespace=team&name=x";
  EXPECT_THAT(page.get(job, page.host()), StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(page.get("/api/changes", page.host()), StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(page.get("/api/changes", page.host() + "Authorization: Bearer 0123\r\n"),
              StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(page.get("/api/changes", "Host: evil.example\r\n" + page.bearer()), StartsWith("HTTP/1.1 421"));
  EXPECT_THAT(page.get("/", "Host: evil.example\r\n"), StartsWith("HTTP/1.1 421"));
  EXPECT_THAT(page.get(job, page.host() + page.bearer() + "Origin: http://evil.example\r\n"),
              StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(page.say("POST /api/job HTTP/1.1\r\nContent-Length: 0\r\nConnection: close\r\n" + page.host() +
                       page.bearer() + "\r\n"),
              StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(page.get(job, page.host() + page.bearer()),
              AllOf(StartsWith("HTTP/1.1 404"), HasSubstr("not found")));
  EXPECT_THAT(page.get("/api/job", page.host() + page.bearer()), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(page.get("/nothing", page.host()), StartsWith("HTTP/1.1 404"));
  EXPECT_TRUE(page.end());
}

TEST_F(Ui, TellsAllOnceAndThenOnlyWhatHasChanged) {
  cluster_->create(job_object({.name = "first", .replicas = 2, .gpus = 8}));
  ASSERT_TRUE(cluster_->wait_phase("first", "Running"));
  Page page(*cluster_, admin());
  // Another connection makes the change, when the first has heard everything.
  bool is_created = false;
  const std::string told = page.changes([&](const std::string& text) {
    if (!is_created && has("\"team/first\"")(text) && has("\"nodes\":{\"node-0\"")(text)) {
      cluster_->create(job_object({.name = "second", .replicas = 2, .gpus = 8}));
      is_created = true;
    }
    return is_created && has("InsufficientCapacity")(text);
  });
  ASSERT_TRUE(is_created) << told;
  EXPECT_THAT(told, HasSubstr("event: snapshot"));
  EXPECT_THAT(told, HasSubstr(R"("team/first":[["node-0",[0,1,2,3,4,5,6,7]],["node-1",[0,1,2,3,4,5,6,7]]])"));
  const std::size_t at = told.find("\"team/second\"");
  ASSERT_NE(at, std::string::npos) << told;
  const std::string news = told.substr(told.rfind("event: change", at));
  EXPECT_THAT(news, HasSubstr("InsufficientCapacity"));
  EXPECT_THAT(news, AllOf(Not(HasSubstr("team/first\":{")), Not(HasSubstr("node-0\":{"))));
}

TEST_F(Ui, ShowsWhatItsUserMayReadAndSaysWhatIsLeftOut) {
  cluster_->apply(R"(
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: uma, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: User, name: uma, apiGroup: rbac.authorization.k8s.io}]
)");
  const auto uma = cluster_->real().certificate_kubeconfig("uma.kubeconfig", "uma", {});
  ASSERT_TRUE(uma) << uma.error();
  // Kubernetes puts the roles that are added to `view` together a moment later.
  ASSERT_TRUE(cluster_->wait(20s, [&] {
    const auto may = cluster_->real().kubectl(
        {"auth", "can-i", "list", "trainingjobs.muster.dev", "-n", "team", "--as", "uma"});
    return may && may->ok();
  }));
  cluster_->create(job_object({.name = "mine"}));
  ASSERT_TRUE(cluster_->wait_phase("mine", "Running"));
  Page page(*cluster_, *uma, {"--namespace", "default,team"});
  const std::string told = page.changes([](const std::string& text) {
    return has("\"team/mine\"")(text) && has(R"("jobs":{"namespaces":["team"],"state":"read")")(text) &&
           has(R"("nodes":{"message")")(text) && has(R"("queues":{"message")")(text);
  });
  EXPECT_THAT(told, HasSubstr("\"team/mine\""));
  EXPECT_THAT(told, HasSubstr(R"("jobs":{"namespaces":["team"],"state":"read"})"));
  EXPECT_THAT(told, HasSubstr(R"("state":"forbidden")"));
  EXPECT_THAT(told, Not(HasSubstr("\"node-0\":{")));
  EXPECT_THAT(page.get("/api/job?namespace=default&name=x", page.host() + page.bearer()),
              StartsWith("HTTP/1.1 403"));
  const auto problems =
      browse(page.url(),
             {{{"hash", "#/now"},
               {"name", "Now"},
               {"expects", {"You may not read Queues, Projects, NodePools and Nodes", "only of team"}}}});
  if (problems) EXPECT_EQ(*problems, "");
}

constexpr const char* kEvil = "<img src=x onerror=alert(1)>";

std::string today() {
  const std::chrono::year_month_day day{
      std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now())};
  char text[32];
  std::snprintf(text, sizeof text, "%04d-%02u-%02u", static_cast<int>(day.year()),
                static_cast<unsigned>(day.month()), static_cast<unsigned>(day.day()));
  return text;
}

// 100 GPU-hours, 89 of them useful; two jobs waited 90 s on average.
json usage() {
  return {{"until", today() + "T00:00:01Z"},
          {"days",
           {{{"date", today()},
             {"sum", {{"gpuSeconds", 360000}, {"idle", 36000}, {"lost", 3600}}},
             {"waits", {{"starts", 2}, {"seconds", 180}, {"longest", 130}}}}}}};
}

// As the operator keeps it (docs/decisions/0104).
json lost_by_a_ghost() {
  const json line = {{"at", today() + "T00:00:01Z"},
                     {"job", "ghost"},
                     {"reason", "Reclaimed"},
                     {"message", kEvil},
                     {"gave", "8"},
                     {"cost", 3600},
                     {"owed", true}};
  return {{"apiVersion", "v1"},
          {"kind", "ConfigMap"},
          {"metadata",
           {{"name", "muster-disruptions-0"},
            {"namespace", "team"},
            {"labels", {{"muster.dev/disruptions", "true"}}}}},
          {"data", {{"lines", line.dump()}}}};
}

json every_view() {
  json nodes = view("#/nodes", "Nodes", {"jobs hold 7 of 16 GPUs", "1 failing", "team 7"});
  nodes["keys"] = {{"of", "canvas"}, {"press", {"ArrowRight"}}, {"says", "node-0, GPU 0"}};
  return {
      view("#/now", "Now", {"GPUs allocated", "starting 2", "team"}, {"You may not"}),
      view("#/queue", "Queue", {"team/waits", "InsufficientCapacity", "1 job"}, {"team/done"}),
      nodes,
      view("#/job", "Jobs",
           {"team/halted", "Suspended", "team/done", "Succeeded", "team/broken", "Failed", "Starting"}),
      view("#/job/team/waits", "Jobs",
           {"Why it waits", "InsufficientCapacity", "What would help", "It has no pods now."}),
      view("#/job/team/runs", "Jobs", {"runs-worker-0-1", "Running, ready", "Admitted, attempt 1", kEvil}),
      view("#/job/team/broken", "Jobs", {"exit code 1"}),
      view("#/history", "History",
           {"Projects, in the last 30 days", "89 %", "1m 30s", "2m 10s", "Pools, in the last 30 days",
            "25 %"}),
      view("#/history/project/team", "History",
           {"Days of project team", "What its jobs had to give", "ghost (gone)", kEvil, "1h"}),
      view("#/services", "Services", {"team/serves", "Ready."}),
      view("#/services/team/serves", "Services", {"Ready.", "Replicas, for", "the latest 500 changes"})};
}

// Jobs of every phase, and what the page says of each.
TEST_F(Ui, IsRightInABrowser) {
  cluster_->create(job_object({.name = "runs", .gpus = 4, .spec = {{"maxRuntime", "2h"}}}));
  ASSERT_TRUE(cluster_->wait_phase("runs", "Running"));
  cluster_->create(
      job_object({.name = "starts", .gpus = 2, .pod_annotations = {{"test.muster.dev/start-after", "1h"}}}));
  cluster_->create(job_object({.name = "waits", .replicas = 2, .gpus = 8}));
  cluster_->create(job_object({.name = "done", .pod_annotations = {{"test.muster.dev/runs-for", "1s"}}}));
  cluster_->create(
      job_object({.name = "broken",
                  .pod_annotations = {{"test.muster.dev/runs-for", "1s"}, {"test.muster.dev/exit-code", "1"}},
                  .spec = {{"restart", {{"limit", 0}}}}}));
  cluster_->create(job_object({.name = "halted", .spec = {{"suspend", true}}}));
  cluster_->create(service_object("serves", 1));
  for (const auto& [name, phase] : std::map<std::string, std::string>{{"starts", "Starting"},
                                                                      {"waits", "Queued"},
                                                                      {"done", "Succeeded"},
                                                                      {"broken", "Failed"},
                                                                      {"halted", "Suspended"}})
    ASSERT_TRUE(cluster_->wait_phase(name, phase)) << name;
  // Text of others stays text, whatever is in it.
  const auto event = cluster_->real().request(
      "POST", "/api/v1/namespaces/team/events",
      json{{"metadata", {{"name", "evil"}}},
           {"involvedObject", {{"kind", "TrainingJob"}, {"name", "runs"}, {"namespace", "team"}}},
           {"type", "Normal"},
           {"reason", "Evil"},
           {"message", kEvil},
           {"lastTimestamp", today() + "T00:00:01Z"}}
          .dump());
  ASSERT_TRUE(event && event->ok()) << event->body;
  // Nobody else writes what History shows.
  EXPECT_EQ(muster_->stop(), 0);
  cluster_->patch("/apis/muster.dev/v1alpha1/projects/team/status", {{"status", {{"usage", usage()}}}});
  cluster_->patch("/apis/muster.dev/v1alpha1/nodepools/default/status",
                  {{"status",
                    {{"usage",
                      {{"until", today() + "T00:00:01Z"},
                       {"days", {{{"date", today()}, {"gpuSeconds", 400000}, {"unallocated", 100000}}}}}}}}});
  cluster_->patch("/api/v1/nodes/node-1",
                  {{"metadata", {{"annotations", {{"muster.dev/gpu-unhealthy", "7"}}}}}});
  cluster_->apply(lost_by_a_ghost().dump());
  Page page(*cluster_, admin());
  const auto problems = browse(page.url(), every_view());
  muster_ = cluster_->muster();
  cluster_->remove(path_of_service("serves"));
  if (!problems) GTEST_SKIP() << "no browser: scripts/install-page.sh gets what this test needs";
  EXPECT_EQ(*problems, "");
}

// load_time.mjs; "": there is no browser here.
std::string load_time(const std::filesystem::path& kubeconfig, int jobs) {
  const auto modules = page_modules();
  if (!modules) return "";
  const auto result = testcluster::run_command(
      {.arguments = {"node", MUSTER_LOAD_TIME, MUSTER_PLUGIN, kubeconfig.string(), std::to_string(jobs)},
       .environment = {{"MUSTER_PAGE_MODULES", *modules}},
       .log = {}},
      {}, 120s);
  if (!result || !result->ok()) throw std::runtime_error(result ? result->out + result->err : result.error());
  return result->out;
}

// docs/page.md, "How large": with MUSTER_FULL_SIZE=1 1,000 nodes, 5,000 jobs and 200 projects. It prints how
// long a page takes until it has told everything, what that is in bytes, and what a browser and `kubectl
// muster why` take.
TEST(UiAtScale, TellsEverything) {
  const int nodes = full_size() ? 1000 : 20, projects = full_size() ? 200 : 10,
            jobs = full_size() ? 5000 : 100;
  auto cluster = Cluster::start(1, 8);
  testcluster::NodeTemplate others;
  others.first = 1;
  others.count = nodes - 1;
  const auto added = cluster->real().add_nodes(others, 300s);
  ASSERT_TRUE(added) << added.error();
  const auto post = [&](const std::string& path, const json& object) {
    const auto answer = cluster->real().request("POST", path, object.dump());
    if (!answer || !answer->ok()) throw std::runtime_error(answer ? answer->body : answer.error());
  };
  const auto set_status = [&](const std::string& path, const json& status) {
    cluster->patch(path + "/status", {{"status", status}});
  };
  json days = json::array();
  for (int day = 1; day <= 23; ++day) {
    char date[16];
    std::snprintf(date, sizeof date, "2026-10-%02d", day);
    days.push_back({{"date", date}, {"sum", {{"gpuSeconds", 360000 + day}, {"idle", 3600}, {"lost", 360}}}});
  }
  for (int p = 0; p < projects; ++p) {
    const std::string name = "p" + std::to_string(p);
    cluster->make_namespace(name, name);
    post("/apis/muster.dev/v1alpha1/projects", {{"apiVersion", "muster.dev/v1alpha1"},
                                                {"kind", "Project"},
                                                {"metadata", {{"name", name}}},
                                                {"spec", {{"queue", "root"}, {"quota", {{"gpu", "8"}}}}}});
    set_status("/apis/muster.dev/v1alpha1/projects/" + name,
               {{"usage", {{"until", "2026-10-23T12:00:00Z"}, {"days", days}}}});
  }
  for (int j = 0; j < jobs; ++j) {
    const std::string name = "j" + std::to_string(j), ns = "p" + std::to_string(j % projects);
    post("/apis/muster.dev/v1alpha1/namespaces/" + ns + "/trainingjobs",
         job_object({.name = name, .ns = ns}));
    set_status(
        path_of_job(name, ns),
        j < 8 * nodes * 3 / 5
            ? json{{"phase", "Running"},
                   {"pods", "1/1"},
                   {"allocated", {{"gpu", "1"}}},
                   {"attempt", 1},
                   {"assignment",
                    {{"attempt", 1},
                     {"pool", "default"},
                     {"admittedAt", "2026-10-23T12:00:00Z"},
                     {"pods",
                      {{{"role", "worker"},
                        {"index", 0},
                        {"node", "node-" + std::to_string(j / 8)},
                        {"gpus", {j % 8}}}}}}}}
            : json{{"phase", "Queued"},
                   {"queue", {{"reason", "InsufficientCapacity"}, {"message", "needs 1"}, {"position", j}}}});
  }
  const auto began = std::chrono::steady_clock::now();
  const auto took = [&] {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - began)
        .count();
  };
  Page page(*cluster, cluster->real().kubeconfig());
  std::cout << "until it has printed its URL: " << took() << " ms\n";
  std::size_t looked = 0, phases = 0;
  long first = 0;
  const auto knows_all = [&](const std::string& text) {
    for (auto at = text.find("\"phase\":", looked); at != std::string::npos;
         at = text.find("\"phase\":", looked)) {
      if (phases++ == 0) first = took();
      looked = at + 8;
    }
    return phases >= static_cast<std::size_t>(jobs) &&
           has("\"project/p" + std::to_string(projects - 1) + "\"")(text) &&
           has("\"node-" + std::to_string(nodes - 1) + "\":{")(text);
  };
  const std::string told = page.changes(knows_all);
  EXPECT_TRUE(knows_all(told));
  std::cout << "until the first jobs are told: " << first << " ms; until all is told: " << took() << " ms, "
            << told.size() << " bytes\n";
  const auto opened = took();
  EXPECT_TRUE(has("\"node-0\":{")(page.changes(has("\n\n"))));
  std::cout << "a page that is opened later: " << took() - opened << " ms\n";
  for (int i = 0; i < 3; ++i) std::cout << load_time(cluster->real().kubeconfig(), jobs);
  const auto asked = took();
  const auto why = testcluster::run_command(
      {.arguments = {MUSTER_PLUGIN, "--kubeconfig", cluster->real().kubeconfig().string(), "why", "-n",
                     "p" + std::to_string((jobs - 1) % projects), "j" + std::to_string(jobs - 1)},
       .environment = {},
       .log = {}});
  EXPECT_TRUE(why && why->ok());
  std::cout << "kubectl muster why: " << took() - asked << " ms\n";
}

}  // namespace
}  // namespace muster::test
