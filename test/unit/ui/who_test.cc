// Who sees what of the model: rights, what a browser is told when they change, and the door of the page in a
// cluster with a scripted API server. The real one: test/cluster/muster/tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <nlohmann/json.hpp>

#include "model.h"
#include "muster/client/testing/fake_transport.h"
#include "who/access.h"

namespace muster::ui {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using namespace std::chrono_literals;

Text text(const std::string& row) {
  return std::make_shared<const std::string>(row);
}

std::shared_ptr<const Rights> jobs_of(std::set<std::string, std::less<>> namespaces) {
  Rights rights;
  rights.of(Kind::kJobs).namespaces = std::move(namespaces);
  return std::make_shared<const Rights>(rights);
}

void fill(Model& model) {
  model.set(Table::kAbout, "jobs", text(R"({"state":"read"})"));
  model.set(Table::kAbout, "queues", text(R"({"state":"read"})"));
  model.set(Table::kQueues, "root", text(R"({"quota":1})"));
  model.set(Table::kProjects, "p", text(R"({"namespace":"ns-of-p"})"));
  model.set(Table::kUsage, "project/p", text("{}"));
  model.set(Table::kNodes, "node-0", text("{}"));
  for (const char* key : {"mine/a", "mine-too/b", "other/c"}) {
    model.set(Table::kJobs, key, text("{}"));
    model.set(Table::kPlaces, key, text("[]"));
    model.set(Table::kServices, key, text("{}"));
  }
}

TEST(AReaderWithRights, SeesNothingElseAndNotThatThereIsAny) {
  Model model;
  fill(model);
  int told = 0;
  Model::Reader reader(model, [&] { ++told; }, jobs_of({"mine"}));
  const json all = json::parse(reader.snapshot());
  EXPECT_EQ(all["jobs"], json::parse(R"({"mine/a":{}})"));
  EXPECT_EQ(all["places"], json::parse(R"({"mine/a":[]})"));
  for (const char* table : {"queues", "projects", "usage", "nodes", "services"})
    EXPECT_EQ(all[table], json::object()) << table;
  EXPECT_EQ(all["about"]["jobs"], json::parse(R"({"state":"read","namespaces":["mine"]})"));
  EXPECT_EQ(all["about"]["queues"]["state"], "forbidden");

  model.set(Table::kJobs, "other/d", text("{}"));
  model.erase(Table::kJobs, "other/c");
  model.set(Table::kNodes, "node-0", text(R"({"gpus":1})"));
  EXPECT_EQ(told, 0);
  EXPECT_FALSE(reader.has_changes());
  model.set(Table::kJobs, "mine/a", text(R"({"gpus":1})"));
  EXPECT_EQ(reader.changes(), R"({"jobs":{"mine/a":{"gpus":1}}})");
}

TEST(AReaderWithRights, IsToldWhatAChangeOfThemMeans) {
  Model model;
  fill(model);
  Model::Reader reader(model, [] {}, jobs_of({"mine"}));
  reader.snapshot();
  reader.set_rights(jobs_of({"mine"}));
  EXPECT_FALSE(reader.has_changes());
  reader.set_rights(jobs_of({"other"}));
  const json change = json::parse(reader.changes());
  EXPECT_EQ(change["jobs"], json::parse(R"({"mine/a":null,"other/c":{}})"));
  EXPECT_EQ(change["about"]["jobs"]["namespaces"], json({"other"}));
  EXPECT_FALSE(change.contains("queues"));
}

TEST(Namespaces, AreThoseOfJobsServicesAndProjects) {
  Model model;
  fill(model);
  EXPECT_THAT(model.namespaces(), ElementsAre("mine", "mine-too", "ns-of-p", "other"));
  for (const Table table : {Table::kJobs, Table::kServices}) model.erase(table, "other/c");
  model.set(Table::kServices, "new/x", text("{}"));
  EXPECT_THAT(model.namespaces(), ElementsAre("mine", "mine-too", "new", "ns-of-p"));
}

class AClusterDoor : public testing::Test {
 protected:
  AClusterDoor() {
    fill(model_);
    transport_.set_handler([this](const client::HttpRequest& request) {
      const json spec = json::parse(request.body)["spec"];
      json said{{"spec", spec}};
      if (request.target.ends_with("/tokenreviews")) {
        ++token_reviews_;
        said["status"] = {{"authenticated", is_good_}, {"user", {{"username", spec["token"]}}}};
      } else {
        ++access_reviews_;
        const json& asked = spec["resourceAttributes"];
        said["status"]["allowed"] = allowed_.contains(asked["resource"].get<std::string>() + "/" +
                                                      asked["namespace"].get<std::string>());
      }
      client::HttpResponse response;
      response.status = status_;
      response.body = said.dump();
      return response;
    });
  }
  // "": they are in, and visitor_ is who. Else the status and what is said.
  std::string come(const std::string& authorization, const std::string& origin = {}) {
    return play(admit(*this, {"GET", "page:8443", origin, authorization}));
  }
  std::string look_again() { return play(look(*this)); }

  std::set<std::string> allowed_;  // "trainingjobs/ns"; "queues/": everywhere
  bool is_good_ = true;
  int status_ = 201, token_reviews_ = 0, access_reviews_ = 0;
  boost::asio::io_context loop_{1};
  client::VirtualClock clock_;
  client::RandomSource random_{1};
  client::Environment env_{loop_.get_executor(), clock_, random_};
  client::testing::FakeTransport transport_{env_};
  client::ApiClient api_{env_, transport_, {.max_repeats = 0}};
  client::ClientConfig config_;
  Model model_;
  ClusterDoor door_{api_, model_, config_};
  std::unique_ptr<Visitor> visitor_;

 private:
  static client::Task<std::string> admit(AClusterDoor& self, Asked asked) {
    auto visitor = co_await self.door_.admit(asked);
    if (!visitor) co_return std::to_string(visitor.error().status) + " " + visitor.error().message;
    self.visitor_ = std::move(*visitor);
    co_return "";
  }
  static client::Task<std::string> look(AClusterDoor& self) {
    const auto refusal = co_await self.visitor_->look_again();
    co_return refusal ? std::to_string(refusal->status) : "";
  }
  static client::Task<void> to_end(client::Task<std::string> task, std::optional<std::string>& result) {
    result = co_await std::move(task);
  }
  std::string play(client::Task<std::string> task) {
    std::optional<std::string> result;
    client::spawn(env_.executor, to_end(std::move(task), result));
    while (!result) {
      loop_.restart();
      while (loop_.poll() > 0) {
      }
      if (!result) clock_.advance_to_next();
    }
    return *result;
  }
};

TEST_F(AClusterDoor, LetsInWhomTheClusterKnows) {
  EXPECT_THAT(come(""), testing::StartsWith("401 "));
  EXPECT_EQ(token_reviews_, 0);
  EXPECT_EQ(come("Bearer anna"), "");
  EXPECT_THAT(come("Bearer anna", "https://evil.example"), testing::StartsWith("403 "));
  EXPECT_EQ(come("Bearer anna", "https://page:8443"), "");
  is_good_ = false;
  EXPECT_THAT(come("Bearer guessed"), testing::StartsWith("401 "));
}

TEST_F(AClusterDoor, FindsOutWhatTheyMayListAndAsksOnlyWhatIsNew) {
  allowed_ = {"trainingjobs/mine", "queues/", "inferenceservices/other"};
  ASSERT_EQ(come("Bearer anna"), "");
  const auto rights = visitor_->rights();
  EXPECT_TRUE(rights->of(Kind::kQueues).everywhere);
  EXPECT_FALSE(rights->of(Kind::kProjects).everywhere);
  EXPECT_THAT(rights->of(Kind::kJobs).namespaces, ElementsAre("mine"));
  EXPECT_THAT(rights->of(Kind::kServices).namespaces, ElementsAre("other"));
  EXPECT_EQ(access_reviews_, 6 + 2 * 4);  // each kind everywhere, then jobs and services in each namespace
  EXPECT_EQ(look_again(), "");
  EXPECT_EQ(access_reviews_, 14);
  model_.set(Table::kJobs, "new/x", text("{}"));
  allowed_.insert("trainingjobs/new");
  EXPECT_EQ(look_again(), "");
  EXPECT_EQ(access_reviews_, 16);
  EXPECT_THAT(visitor_->rights()->of(Kind::kJobs).namespaces, ElementsAre("mine", "new"));
  EXPECT_EQ(token_reviews_, 1);
}

TEST_F(AClusterDoor, TakesBackWhatWasTakenBack) {
  allowed_ = {"trainingjobs/mine"};
  ASSERT_EQ(come("Bearer anna"), "");
  allowed_.clear();
  clock_.advance_to(clock_.now() + kRightsGoodFor);
  EXPECT_EQ(look_again(), "");
  EXPECT_THAT(visitor_->rights()->of(Kind::kJobs).namespaces, testing::IsEmpty());
  is_good_ = false;
  clock_.advance_to(clock_.now() + kTokenGoodFor);
  EXPECT_EQ(look_again(), "401");
}

TEST_F(AClusterDoor, LetsNobodyInWhereTheApiServerCannotBeAsked) {
  status_ = 500;
  EXPECT_THAT(come("Bearer anna"), testing::StartsWith("503 "));
}

TEST(AsUser, KeepsNothingOfOurs) {
  client::ClientConfig config;
  config.server = "https://api";
  config.ca.data = client::Secret("ca");
  config.token.file = "/var/run/token";
  config.client_key.data = client::Secret("key");
  config.username = "u";
  config.impersonate = {{"Impersonate-User", "x"}};
  config.exec = client::ExecPlugin{};
  const auto user = as_user(config, "theirs");
  EXPECT_EQ(user.server, "https://api");
  EXPECT_EQ(user.ca.data.reveal(), "ca");
  EXPECT_EQ(user.token.data.reveal(), "theirs");
  EXPECT_TRUE(user.token.file.empty());
  EXPECT_FALSE(user.client_key.configured());
  EXPECT_TRUE(user.username.empty());
  EXPECT_TRUE(user.impersonate.empty());
  EXPECT_FALSE(user.exec.has_value());
}

}  // namespace
}  // namespace muster::ui
