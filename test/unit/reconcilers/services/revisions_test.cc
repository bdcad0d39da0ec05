#include "muster/reconcilers/services/revisions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/reconcilers/services/service_objects.h"

namespace muster::reconcilers {
namespace {

using crds::Json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

crds::InferenceService sample_service() {
  crds::InferenceService service;
  service.metadata.name = "chat";
  service.metadata.ns = "team";
  service.metadata.uid = "u-1";
  service.spec.replicas = 3;
  service.spec.port = 9000;
  service.spec.group_size = 2;
  service.spec.preemptible = true;
  service.spec.guaranteed_replicas = 1;
  service.spec.drain_seconds = 20;
  service.spec.gpus.emplace().count = 4;
  service.spec.pools = {"a100"};
  service.spec.pod_template.value = std::make_shared<const Json>(Json::parse(
      R"({"spec": {"containers": [{"name": "main", "image": "serve:1"}, {"name": "side", "image": "side:2"}]}})"));
  return service;
}

Json stored(const crds::InferenceService& service, std::int64_t number) {
  Json object = revision_json(service, revision_of(service), number);
  object["metadata"]["uid"] = "r-" + std::to_string(number);
  object["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z";
  return object;
}

TEST(Revisions, WhatIsKeptIsWhatReplicasAreMadeFromAndNothingElse) {
  const auto first = sample_service();
  const Json object = stored(first, 7);
  EXPECT_EQ(object["metadata"]["name"], "chat-" + revision_of(first));
  EXPECT_EQ(object["metadata"]["ownerReferences"][0]["uid"], "u-1");
  for (const char* field : {"replicas", "port", "rollout", "autoscaling", "startTimeout"})
    EXPECT_FALSE(object["data"]["spec"].contains(field)) << field;

  const auto kept = read_revision(object, "u-1");
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->name, revision_of(first));
  EXPECT_EQ(kept->number, 7);
  EXPECT_EQ(kept->uid, "r-7");
  EXPECT_THAT(images_of(kept->spec), ElementsAre("serve:1", "side:2"));

  // The spec has become another one in everything.
  crds::InferenceService now;
  now.metadata = first.metadata;
  now.spec.replicas = 8;
  now.spec.port = 80;
  now.spec.rollout.max_surge = 3;
  now.spec.start_timeout = std::chrono::hours{1};
  const auto back = with_revision(now, *kept);
  EXPECT_EQ(revision_of(back), revision_of(first)) << "its replicas would be the same";
  EXPECT_EQ(back.spec.replicas, 8);
  EXPECT_EQ(back.spec.port, 80);
  EXPECT_EQ(back.spec.rollout.max_surge, 3);
  EXPECT_EQ(back.spec.start_timeout, std::chrono::hours{1});
  EXPECT_EQ(replica_json(back, "r", 0, "", false)["spec"]["roles"],
            replica_json(first, "r", 0, "", false)["spec"]["roles"]);
}

TEST(Revisions, SaysTheImagesOfAllRolesEachOnce) {
  auto service = sample_service();
  crds::ServiceRole prefill, decode;
  prefill.name = "prefill";
  prefill.pod_template = service.spec.pod_template;
  decode.name = "decode";
  decode.pod_template.value = std::make_shared<const Json>(Json::parse(
      R"({"spec": {"containers": [{"name": "main", "image": "serve:1"}, {"name": "kv", "image": "kv:3"}]}})"));
  service.spec.roles = {prefill, decode};
  service.spec.pod_template = {};
  const auto kept = read_revision(stored(service, 1), "u-1");
  ASSERT_TRUE(kept);
  EXPECT_THAT(images_of(kept->spec), ElementsAre("serve:1", "side:2", "kv:3"));
}

TEST(Revisions, WhatIsNotOursOrCannotBeReadIsPassedOver) {
  const Json good = stored(sample_service(), 1);
  EXPECT_FALSE(read_revision(good, "u-2"));
  for (const char* path : {"/data", "/revision", "/metadata/labels", "/metadata/ownerReferences"}) {
    Json bad = good;
    bad[Json::json_pointer(path)] = nullptr;
    EXPECT_FALSE(read_revision(bad, "u-1")) << path;
  }
  Json bad = good;
  bad["data"]["spec"]["groupSize"] = "two";
  EXPECT_FALSE(read_revision(bad, "u-1"));
  EXPECT_FALSE(read_revision(Json("text"), "u-1"));
}

TEST(Revisions, OfThoseNotInUseTheNewestAreKept) {
  std::vector<KeptRevision> all(5);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].name = std::string(1, static_cast<char>('a' + i));
    all[i].number = static_cast<std::int64_t>(i) + 1;
  }
  const auto gone = [&](const std::set<std::string>& in_use, std::int32_t limit) {
    std::vector<std::string> names;
    for (const auto* one : surplus(all, in_use, limit)) names.push_back(one->name);
    return names;
  };
  EXPECT_THAT(gone({"e"}, 2), ElementsAre("b", "a"));
  EXPECT_THAT(gone({"e", "a"}, 2), ElementsAre("b"));
  EXPECT_THAT(gone({"e"}, 0), ElementsAre("d", "c", "b", "a"));
  EXPECT_THAT(gone({"e"}, 10), IsEmpty());
  EXPECT_EQ(next_number(all), 6);
  EXPECT_EQ(next_number({}), 1);
}

TEST(Revisions, TheWayOfRollingOutIsNoRevision) {
  auto service = sample_service();
  const std::string before = revision_of(service);
  service.spec.rollout.to_revision = "0a1b2";
  service.spec.rollout.revision_history_limit = 3;
  service.spec.rollout.canary.emplace().percent = 10;
  EXPECT_EQ(revision_of(service), before);
}

}  // namespace
}  // namespace muster::reconcilers
