// What manifests/ promises and no control plane checks: about Muster's own pods, and about its monitoring.
#include <gmock/gmock.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace muster::test {
namespace {

using ::testing::Contains;

YAML::Node manifest(const std::string& file) {
  return YAML::LoadFile(MUSTER_MANIFESTS "/base/" + file);
}
YAML::Node monitoring(const std::string& file) {
  return YAML::LoadFile(MUSTER_MANIFESTS "/monitoring/" + file);
}
std::string text_of(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(Manifests, MetricsAreReachedOnlyFromNamespacesThatSayTheyScrape) {
  EXPECT_THAT(manifest("kustomization.yaml")["resources"].as<std::vector<std::string>>(),
              Contains("network-policy.yaml"));
  const YAML::Node policy = manifest("network-policy.yaml");
  const YAML::Node deployment = manifest("deployment.yaml");
  EXPECT_EQ(policy["metadata"]["namespace"].as<std::string>(),
            deployment["metadata"]["namespace"].as<std::string>());
  for (const auto& label : policy["spec"]["podSelector"]["matchLabels"]) {
    const auto key = label.first.as<std::string>();
    EXPECT_EQ(deployment["spec"]["template"]["metadata"]["labels"][key].as<std::string>(),
              label.second.as<std::string>());
  }
  ASSERT_EQ(policy["spec"]["ingress"].size(), 1u);
  const YAML::Node rule = policy["spec"]["ingress"][0];
  ASSERT_EQ(rule["from"].size(), 1u) << "an empty list would let everybody in";
  EXPECT_EQ(rule["from"][0]["namespaceSelector"]["matchLabels"]["metrics"].as<std::string>(), "enabled");
  ASSERT_EQ(rule["ports"].size(), 1u);
  EXPECT_EQ(rule["ports"][0]["port"].as<std::string>(),
            deployment["spec"]["template"]["spec"]["containers"][0]["ports"][0]["name"].as<std::string>());
}

// What krew asks of a manifest (its docs: "Developing plugins", "Plugin manifest").
TEST(Manifests, KrewTakesThePlugin) {
  const YAML::Node krew = YAML::LoadFile(MUSTER_MANIFESTS "/krew/muster.yaml");
  EXPECT_EQ(krew["apiVersion"].as<std::string>(), "krew.googlecontainertools.github.com/v1alpha2");
  EXPECT_EQ(krew["kind"].as<std::string>(), "Plugin");
  EXPECT_EQ(krew["metadata"]["name"].as<std::string>(), "muster") << "kubectl muster, and the file's name";
  const YAML::Node spec = krew["spec"];
  EXPECT_THAT(spec["version"].as<std::string>(), ::testing::MatchesRegex("v[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_THAT(spec["homepage"].as<std::string>(), ::testing::StartsWith("https://"));
  const auto short_one = spec["shortDescription"].as<std::string>();
  EXPECT_LE(short_one.size(), 50U);
  EXPECT_THAT(short_one, ::testing::Not(::testing::EndsWith(".")));
  std::istringstream description(spec["description"].as<std::string>());
  for (std::string line; std::getline(description, line);) EXPECT_LE(line.size(), 80U) << line;
  ASSERT_GT(spec["platforms"].size(), 0U);
  for (const auto& platform : spec["platforms"]) {
    EXPECT_TRUE(platform["selector"]["matchLabels"]["os"]);
    EXPECT_TRUE(platform["selector"]["matchLabels"]["arch"]);
    EXPECT_THAT(platform["uri"].as<std::string>(), ::testing::MatchesRegex("https://.*\\.tar\\.gz"));
    EXPECT_THAT(platform["sha256"].as<std::string>(), ::testing::MatchesRegex("[0-9a-f]{64}"));
    EXPECT_EQ(platform["bin"].as<std::string>(), "kubectl-muster");
    ASSERT_EQ(platform["files"].size(), 1U);
    EXPECT_EQ(platform["files"][0]["from"].as<std::string>(), "*");
    EXPECT_EQ(platform["files"][0]["to"].as<std::string>(), ".");
  }
}

TEST(Manifests, TheServiceMonitorFindsTheService) {
  const YAML::Node spec = monitoring("service-monitor.yaml")["spec"];
  const YAML::Node service = manifest("service.yaml");
  for (const auto& label : spec["selector"]["matchLabels"]) {
    EXPECT_EQ(service["metadata"]["labels"][label.first.as<std::string>()].as<std::string>(),
              label.second.as<std::string>());
  }
  EXPECT_EQ(spec["endpoints"][0]["port"].as<std::string>(),
            service["spec"]["ports"][0]["name"].as<std::string>());
  EXPECT_FALSE(spec["namespaceSelector"]) << "it is in the namespace of the Service, whichever that is";
}

TEST(Manifests, ThePrometheusRuleIsTheRuleFile) {
  const YAML::Node rule = monitoring("prometheus-rule.yaml");
  EXPECT_EQ(rule["kind"].as<std::string>(), "PrometheusRule");
  EXPECT_EQ(YAML::Dump(rule["spec"]), YAML::Dump(monitoring("rules.yaml")));
}

TEST(Manifests, EachAlertSaysWhatItMeansAndHasASectionInTheDocs) {
  const std::string docs = text_of(MUSTER_OPERATIONS_DOC);
  std::set<std::string> alerts;
  for (const auto& group : monitoring("rules.yaml")["groups"]) {
    for (const auto& rule : group["rules"]) {
      if (!rule["alert"]) continue;
      const auto name = rule["alert"].as<std::string>();
      SCOPED_TRACE(name);
      alerts.insert(name);
      EXPECT_TRUE(rule["for"] && rule["labels"]["severity"]);
      for (const char* field : {"summary", "description"})
        EXPECT_FALSE(rule["annotations"][field].as<std::string>("").empty()) << field;
      std::string anchor = name;
      std::ranges::transform(anchor, anchor.begin(), [](unsigned char c) { return std::tolower(c); });
      EXPECT_EQ(rule["annotations"]["runbook_url"].as<std::string>(""), "docs/operations.md#" + anchor);
      EXPECT_NE(docs.find("\n### " + name + "\n"), std::string::npos) << "docs/operations.md has no section";
    }
  }
  EXPECT_EQ(alerts.size(), 10u);
}

TEST(Manifests, DashboardsAreWhatGrafanaReadsAndAskForTheirSource) {
  std::set<std::string> loaded;
  for (const auto& map : monitoring("kustomization.yaml")["configMapGenerator"]) {
    const auto file = map["files"][0].as<std::string>();
    SCOPED_TRACE(file);
    const auto json = nlohmann::json::parse(text_of(MUSTER_MANIFESTS "/monitoring/" + file));
    EXPECT_EQ(json["schemaVersion"], 39);
    loaded.insert(json["uid"].get<std::string>());
    EXPECT_EQ(json["templating"]["list"][0]["type"], "datasource");
    std::set<int> ids;
    for (const auto& panel : json["panels"]) {
      EXPECT_TRUE(ids.insert(panel["id"].get<int>()).second) << panel["title"];
      EXPECT_LE(panel["gridPos"]["x"].get<int>() + panel["gridPos"]["w"].get<int>(), 24) << panel["title"];
      EXPECT_FALSE(panel["targets"].empty()) << panel["title"];
      for (const auto& target : panel["targets"])
        EXPECT_EQ(target["datasource"]["uid"], "${datasource}") << panel["title"];
    }
  }
  EXPECT_EQ(loaded, (std::set<std::string>{"muster-cluster", "muster-operator", "muster-project"}));
}

}  // namespace
}  // namespace muster::test
