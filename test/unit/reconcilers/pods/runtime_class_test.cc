// What a RuntimeClass gives to pods, as Kubernetes' admission does.
#include "muster/reconcilers/pods/runtime_class.h"

#include <gmock/gmock.h>

#include <limits>

namespace muster::reconcilers {
namespace {

RuntimeClass kata() {
  const auto read = decode_runtime_class(R"({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
    "metadata": {"name": "kata", "resourceVersion": "7"}, "handler": "kata",
    "overhead": {"podFixed": {"cpu": "250m", "memory": "160Mi", "hugepages-2Mi": "2Mi"}},
    "scheduling": {"nodeSelector": {"runtime": "kata"},
                   "tolerations": [{"key": "sandbox", "operator": "Exists", "effect": "NoSchedule"}]}})");
  return read.value();
}

TEST(RuntimeClass, ItsOverheadAndTermsAreThoseOfThePod) {
  PodNeeds needs;
  needs.requests = {crds::MilliCpu{1000}, crds::Bytes{std::int64_t{1} << 30}, {{"hugepages-2Mi", 4 << 20}}};
  needs.node_selector = {{"disk", "ssd"}, {"runtime", "kata"}};
  needs.tolerations = {{.key = "gpu", .exists = true, .value = "", .effect = ""}};
  EXPECT_EQ(apply(kata(), needs), std::nullopt);
  EXPECT_EQ(needs.requests, (PodRequests{crds::MilliCpu{1250},
                                         crds::Bytes{(std::int64_t{1} << 30) + (160 << 20)},
                                         {{"hugepages-2Mi", 6 << 20}}}));
  EXPECT_EQ(needs.node_selector, (crds::StringMap{{"disk", "ssd"}, {"runtime", "kata"}}));
  ASSERT_EQ(needs.tolerations.size(), 2u);
  EXPECT_EQ(needs.tolerations[1], (Toleration{"sandbox", true, "", "NoSchedule"}));
}

TEST(RuntimeClass, ASelectorOfAnotherValueIsRefused) {
  PodNeeds needs;
  needs.node_selector = {{"runtime", "gvisor"}};
  EXPECT_EQ(apply(kata(), needs),
            "nodeSelector: runtime must be kata, as RuntimeClass \"kata\" selects its nodes, is gvisor");
}

TEST(RuntimeClass, ThatSaysNothingAddsNothing) {
  const auto plain = decode_runtime_class(R"({"metadata": {"name": "nvidia", "resourceVersion": "1"}})");
  ASSERT_TRUE(plain);
  PodNeeds needs;
  needs.requests.cpu.value = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(apply(*plain, needs), std::nullopt);
  PodNeeds same;
  same.requests.cpu.value = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(needs, same);
  EXPECT_EQ(apply(kata(), needs), std::nullopt);
  EXPECT_EQ(needs.requests.cpu.value, std::numeric_limits<std::int64_t>::max()) << "it fits nowhere";
}

TEST(RuntimeClass, WhatIsNoneIsAnError) {
  for (const char* text : {"", "[]", "{}", R"({"metadata": {"name": 1}})"})
    EXPECT_FALSE(decode_runtime_class(text)) << text;
}

}  // namespace
}  // namespace muster::reconcilers
