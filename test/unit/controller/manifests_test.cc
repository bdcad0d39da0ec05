// What manifests/base promises about Muster's own pods and no control plane checks.
#include <gmock/gmock.h>
#include <yaml-cpp/yaml.h>

#include <string>
#include <vector>

namespace muster::test {
namespace {

using ::testing::Contains;

YAML::Node manifest(const std::string& file) {
  return YAML::LoadFile(MUSTER_MANIFESTS "/" + file);
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

}  // namespace
}  // namespace muster::test
