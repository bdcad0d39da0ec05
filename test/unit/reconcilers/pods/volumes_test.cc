#include "muster/reconcilers/pods/volumes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sample_jobs.h"

namespace muster::reconcilers {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const NodeTerms kZoneA = {{.labels = {{"zone", NodeOperator::kIn, {"a"}}}, .fields = {}}};
const NodeTerms kNode7 = {{.labels = {}, .fields = {{"metadata.name", NodeOperator::kIn, {"node-7"}}}}};

// A namespace's claims, and the volumes and classes of the cluster.
struct Storage {
  std::map<std::string, PersistentVolumeClaim, std::less<>> claims;
  std::map<std::string, PersistentVolume, std::less<>> volumes;
  std::map<std::string, StorageClass, std::less<>> classes;

  VolumeLookup lookup() const {
    const auto in = [](const auto& map) {
      return [&map](std::string_view name) {
        const auto found = map.find(name);
        return found == map.end() ? nullptr : &found->second;
      };
    };
    return {in(claims), in(volumes), in(classes)};
  }
};

PersistentVolumeClaim claim(const std::string& name, const std::string& storage_class) {
  PersistentVolumeClaim c;
  c.meta.name = name;
  c.meta.uid = name + "-uid";
  c.storage_class = storage_class;
  return c;
}

// One claim "c" of class "k", changed by a case.
struct TermsCase {
  const char* name;
  std::function<void(Storage&)> change;
  std::int32_t pods;
  std::vector<NodeTerms> required;
  bool needs_node;
  const char* blocked;  // part of the sentence; "": not blocked
};

Storage waiting() {
  Storage s;
  s.claims["c"] = claim("c", "k");
  s.classes["k"].waits_for_consumer = true;
  return s;
}
void bind(Storage& s) {
  s.claims["c"].volume = "v";
  s.claims["c"].bound = true;
  s.volumes["v"].claim_uid = "c-uid";
}

TEST(Volumes, TermsOfAClaimInEachState) {
  const std::vector<TermsCase> cases = {
      {"missing", [](Storage& s) { s.claims.clear(); }, 1, {}, false, "\"c\" does not exist"},
      {"being deleted", [](Storage& s) { s.claims["c"].deleting = true; }, 1, {}, false, "is being deleted"},
      {"lost", [](Storage& s) { s.claims["c"].lost = true; }, 1, {}, false, "lost its volume"},
      {"waits for a consumer", [](Storage&) {}, 4, {}, true, ""},
      {"topologies of the class",
       [](Storage& s) { s.classes["k"].allowed_topologies = kZoneA; },
       4,
       {kZoneA},
       true,
       ""},
      {"node selected, one pod",
       [](Storage& s) { s.claims["c"].selected_node = "node-7"; },
       1,
       {kNode7},
       false,
       ""},
      {"node selected, several pods",
       [](Storage& s) { s.claims["c"].selected_node = "node-7"; },
       2,
       {},
       false,
       "node \"node-7\""},
      {"binds at once",
       [](Storage& s) { s.classes["k"].waits_for_consumer = false; },
       1,
       {},
       false,
       "is not bound yet"},
      {"no provisioner",
       [](Storage& s) { s.classes["k"].provisions = false; },
       1,
       {},
       false,
       "makes no volumes"},
      {"no such class",
       [](Storage& s) { s.classes.clear(); },
       1,
       {},
       false,
       "StorageClass \"k\" does not exist"},
      {"no class", [](Storage& s) { s.claims["c"].storage_class = ""; }, 1, {}, false, "has no StorageClass"},
      {"volume named, not bound",
       [](Storage& s) { s.claims["c"].volume = "v"; },
       1,
       {},
       false,
       "being bound to volume \"v\""},
      {"bound", [](Storage& s) { bind(s); }, 4, {}, false, ""},
      {"bound in a zone",
       [](Storage& s) { bind(s), s.volumes["v"].node_affinity = kZoneA; },
       4,
       {kZoneA},
       false,
       ""},
      {"bound, volume gone", [](Storage& s) { bind(s), s.volumes.clear(); }, 1, {}, false, "does not exist"},
      {"bound, volume being deleted",
       [](Storage& s) { bind(s), s.volumes["v"].deleting = true; },
       1,
       {},
       false,
       "is being deleted"},
      {"bound, volume of another",
       [](Storage& s) { bind(s), s.volumes["v"].claim_uid = "x"; },
       1,
       {},
       false,
       "another claim"},
      {"one pod only, one", [](Storage& s) { bind(s), s.claims["c"].one_pod_only = true; }, 1, {}, false, ""},
      {"one pod only, two",
       [](Storage& s) { bind(s), s.claims["c"].one_pod_only = true; },
       2,
       {},
       false,
       "ReadWriteOncePod"},
  };
  for (const TermsCase& c : cases) {
    SCOPED_TRACE(c.name);
    Storage storage = waiting();
    c.change(storage);
    const VolumeTerms terms = volume_terms({"c"}, c.pods, storage.lookup());
    EXPECT_EQ(terms.required, c.required);
    EXPECT_EQ(terms.need_selected_node,
              c.needs_node ? std::vector<std::string>{"c"} : std::vector<std::string>{});
    if (*c.blocked == '\0') {
      EXPECT_EQ(terms.blocked, "");
    } else {
      EXPECT_THAT(terms.blocked, HasSubstr(c.blocked));
    }
    const auto found = storage.claims.find("c");
    if (found != storage.claims.end()) {
      EXPECT_EQ(needs_selected_node(found->second, storage.lookup()), c.needs_node);
    }
  }
}

TEST(Volumes, OfARole) {
  crds::TrainingJob job = sample_job();
  job.spec.checkpoint = crds::Checkpoint{std::chrono::seconds{30}, "ckpts", "/ckpt"};
  Json own = sample_template();
  own["spec"]["volumes"].push_back({{"name", "again"}, {"persistentVolumeClaim", {{"claimName", "data"}}}});
  own["spec"]["volumes"].push_back({{"name", "empty"}, {"emptyDir", Json::object()}});
  own["spec"]["volumes"].push_back(Json::parse(
      R"({"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "fast"}}}})"));
  const VolumeUse use = volumes_of(job, role("w", 1, 1, own));
  EXPECT_THAT(use.claims, ElementsAre("ckpts", "data"));
  EXPECT_THAT(use.ephemeral, ElementsAre(EphemeralVolume{"scratch", "fast"}));
  EXPECT_EQ(ephemeral_claim_name("llama-w-0-1", "scratch"), "llama-w-0-1-scratch");
  EXPECT_THAT(volumes_of(sample_job(), crds::Role{}).claims, IsEmpty());
}

TEST(Volumes, OfAJobCountPodsOverRoles) {
  crds::TrainingJob job = sample_job();  // 3 workers that mount "data"
  job.spec.checkpoint = crds::Checkpoint{std::chrono::seconds{30}, "ckpts", "/ckpt"};
  Json scratch = bare_template();
  scratch["spec"]["volumes"] = Json::parse(
      R"([{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "fast"}}}}])");
  job.spec.roles.push_back(role("saver", 1, std::nullopt, scratch));
  Storage storage;
  storage.claims["ckpts"] = claim("ckpts", "k");
  storage.claims["data"] = claim("data", "k");
  storage.claims["data"].selected_node = "node-7";
  storage.classes["k"].waits_for_consumer = true;
  storage.classes["fast"].allowed_topologies = kZoneA;
  const auto terms = volume_terms(job, storage.lookup());
  ASSERT_EQ(terms.size(), 2u);
  EXPECT_THAT(terms[0].need_selected_node, ElementsAre("ckpts"));
  EXPECT_THAT(terms[0].blocked, HasSubstr("\"data\""));
  EXPECT_EQ(terms[1].required, std::vector<NodeTerms>{kZoneA});
  EXPECT_EQ(terms[1].blocked, "");
  storage.classes.erase("fast");
  EXPECT_THAT(volume_terms(job, storage.lookup())[1].blocked, HasSubstr("StorageClass \"fast\""));
}

TEST(Volumes, SeveralClaimsAllCount) {
  Storage storage = waiting();
  bind(storage);
  storage.volumes["v"].node_affinity = kZoneA;
  storage.claims["d"] = claim("d", "k");
  storage.claims["d"].selected_node = "node-7";
  const VolumeTerms terms = volume_terms({"c", "d"}, 1, storage.lookup());
  EXPECT_THAT(terms.required, ElementsAre(kZoneA, kNode7));
  EXPECT_EQ(terms.blocked, "");
}

TEST(Volumes, DecodesClaims) {
  const auto bound =
      decode_claim(R"({"metadata": {"name": "c", "namespace": "n", "uid": "u", "resourceVersion": "5",
      "annotations": {"volume.kubernetes.io/selected-node": "node-7"}, "deletionTimestamp": "2026-01-01T00:00:00Z",
      "ownerReferences": [{"kind": "Pod", "name": "p", "controller": true}]},
    "spec": {"storageClassName": "k", "volumeName": "v", "accessModes": ["ReadWriteOncePod"]}, "status": {"phase": "Bound"}})");
  ASSERT_TRUE(bound);
  EXPECT_EQ(bound->meta.key(), "n/c");
  EXPECT_EQ(bound->meta.uid, "u");
  EXPECT_EQ(bound->meta.resource_version, "5");
  EXPECT_EQ(bound->storage_class, "k");
  EXPECT_EQ(bound->volume, "v");
  EXPECT_EQ(bound->selected_node, "node-7");
  EXPECT_EQ(bound->owner_pod, "p");
  EXPECT_TRUE(bound->bound && bound->deleting && bound->one_pod_only && !bound->lost);

  const auto fresh = decode_claim(
      R"({"metadata": {"name": "c", "annotations": {"volume.beta.kubernetes.io/storage-class": "old"}},
    "spec": {"accessModes": ["ReadWriteMany"]}, "status": {"phase": "Pending"}})");
  ASSERT_TRUE(fresh);
  EXPECT_EQ(fresh->storage_class, "old");
  EXPECT_FALSE(fresh->bound || fresh->deleting || fresh->one_pod_only || fresh->lost);
  EXPECT_FALSE(decode_claim("{}"));
  EXPECT_FALSE(decode_claim("not json"));
  EXPECT_TRUE(decode_claim(
      R"({"metadata": {"name": "c", "annotations": [], "ownerReferences": {}}, "spec": 3, "status": []})"));
}

TEST(Volumes, DecodesVolumesAndClasses) {
  const auto volume = decode_volume(
      R"({"metadata": {"name": "v"}, "spec": {"claimRef": {"uid": "u"}, "nodeAffinity": {"required":
    {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}}}})");
  ASSERT_TRUE(volume);
  EXPECT_EQ(volume->claim_uid, "u");
  EXPECT_EQ(volume->node_affinity, kZoneA);
  const auto bad = decode_volume(R"({"metadata": {"name": "v"}, "spec": {"nodeAffinity": {"required":
    {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Near"}]}]}}}})");
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message,
              HasSubstr("PersistentVolume v: spec.nodeAffinity.required.nodeSelectorTerms[0]"));

  const auto storage = decode_storage_class(
      R"({"metadata": {"name": "k"}, "provisioner": "csi", "volumeBindingMode": "WaitForFirstConsumer",
    "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}]})");
  ASSERT_TRUE(storage);
  EXPECT_TRUE(storage->waits_for_consumer && storage->provisions);
  EXPECT_EQ(storage->allowed_topologies, kZoneA);
  const auto local =
      decode_storage_class(R"({"metadata": {"name": "k"}, "provisioner": "kubernetes.io/no-provisioner"})");
  ASSERT_TRUE(local);
  EXPECT_FALSE(local->waits_for_consumer || local->provisions);
  EXPECT_THAT(local->allowed_topologies, IsEmpty());
}

TEST(Volumes, PatchNamesTheNodeAndGuardsIt) {
  EXPECT_EQ(
      Json::parse(selected_node_patch("node-7", "12")),
      Json::parse(
          R"({"metadata": {"resourceVersion": "12", "annotations": {"volume.kubernetes.io/selected-node": "node-7"}}})"));
  EXPECT_FALSE(Json::parse(selected_node_patch("node-7", ""))["metadata"].contains("resourceVersion"));
}

}  // namespace
}  // namespace muster::reconcilers
