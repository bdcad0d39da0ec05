// What the reconcilers of Queues and Projects add up and look up. What they write is looked at live.
#include "muster/reconcilers/projects/capacity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace muster::reconcilers {
namespace {

constexpr crds::Time kStart{std::chrono::sys_days{std::chrono::year{2026} / 1 / 2}};

// Whole GPUs, CPUs in milli, memory in bytes; what is left out is not stated.
crds::Amounts amounts(std::optional<std::int64_t> gpus = {}, std::optional<std::int64_t> milli_cpu = {},
                      std::optional<std::int64_t> bytes = {}) {
  crds::Amounts a;
  if (gpus) a.gpu = crds::MilliGpu{*gpus * 1000};
  if (milli_cpu) a.cpu = crds::MilliCpu{*milli_cpu};
  if (bytes) a.memory = crds::Bytes{*bytes};
  return a;
}

struct Capacity : testing::Test {
  ObjectStore<crds::Queue> queues;
  ObjectStore<crds::Project> projects;
  ObjectStore<crds::NodePool> pools;

  Capacity() { add_tree_indexes(queues, projects); }

  template <class Kind>
  void put(ObjectStore<Kind>& store, Kind value) {
    Object<Kind> object;
    object.meta = {"", value.metadata.name, "uid-" + value.metadata.name, std::to_string(++version_)};
    object.value = std::move(value);
    store.apply(std::move(object));
  }
  void queue(const std::string& name, const std::string& parent, crds::AmountsByModel quota) {
    crds::Queue q;
    q.metadata.name = name;
    q.spec.parent = parent;
    q.spec.quota = quota;
    put(queues, std::move(q));
  }
  void project(const std::string& name, const std::string& parent, crds::AmountsByModel quota,
               std::string ns = "", int age = 0) {
    crds::Project p;
    p.metadata.name = name;
    p.metadata.creation_timestamp = kStart - std::chrono::hours{age};
    p.spec.queue = parent;
    p.spec.quota = quota;
    p.spec.ns.name = std::move(ns);
    put(projects, std::move(p));
  }
  void pool(const std::string& name, bool is_default) {
    crds::NodePool p;
    p.metadata.name = name;
    p.spec.is_default = is_default;
    put(pools, std::move(p));
  }
  crds::Amounts sum(const std::string& name) const {
    return quota_of_children(queues, projects, name, crds::Time{});
  }

 private:
  int version_ = 0;
};

// As placement has it: a job is judged by the pool that it would go to.
TEST_F(Capacity, TheDefaultPoolIsTheOnlyOneOrTheOneThatAloneIsMarked) {
  EXPECT_EQ(default_pool(pools), "");
  pool("b", false);
  EXPECT_EQ(default_pool(pools), "b");
  pool("a", false);
  EXPECT_EQ(default_pool(pools), "");
  pool("a", true);
  EXPECT_EQ(default_pool(pools), "a");
  pool("b", true);
  EXPECT_EQ(default_pool(pools), "") << "two are as good as none";
}

TEST_F(Capacity, QuotasOfQueuesAndProjectsRightBelowAreAddedUp) {
  queue("company", "", amounts(100));
  queue("research", "company", amounts(16, 8000));
  queue("product", "company", amounts(8, {}, 1 << 20));
  project("web", "company", amounts(1, 500));
  project("nlp", "research", amounts(10));  // a grandchild
  EXPECT_EQ(sum("company"), amounts(25, 8500, 1 << 20));
  EXPECT_EQ(sum("research"), amounts(10)) << "what no child states is absent, not 0";
  EXPECT_EQ(sum("product"), amounts());
  EXPECT_EQ(sum("nobody"), amounts());
}

TEST_F(Capacity, QuotasOfResourcesAreAddedUpByName) {
  crds::Amounts devices = amounts(1);
  devices.resources = {{"rdma/hca", 8}, {"hugepages-2Mi", 1 << 30}};
  queue("company", "", {});
  queue("research", "company", devices);
  devices.resources = {{"rdma/hca", 4}};
  project("web", "company", devices);
  EXPECT_EQ(sum("company").resources, (crds::NamedAmounts{{"hugepages-2Mi", 1 << 30}, {"rdma/hca", 12}}));
  devices.resources = {{"rdma/hca", std::numeric_limits<std::int64_t>::max()}};
  project("much", "company", devices);
  EXPECT_EQ(sum("company").resources.at("rdma/hca"), std::numeric_limits<std::int64_t>::max());
}

TEST_F(Capacity, QuotasByModelAreAddedUp) {
  const auto hopper = [](std::int64_t gpus) {
    crds::AmountsByModel quota = amounts(gpus);
    quota.models = {{"H100", crds::MilliGpu{gpus * 500}}};
    return quota;
  };
  queue("company", "", {});
  queue("research", "company", hopper(8));
  project("web", "company", hopper(3));
  EXPECT_EQ(quota_of_children(queues, projects, "company", crds::Time{}).models,
            (crds::ModelAmounts{{"H100", crds::MilliGpu{5500}}}));
}

TEST_F(Capacity, TheSumFollowsWhoMovesChangesAndGoes) {
  queue("a", "", {});
  queue("b", "", {});
  project("p", "a", amounts(2));
  project("q", "a", amounts(3));
  project("p", "b", amounts(4));
  EXPECT_EQ(sum("a"), amounts(3));
  EXPECT_EQ(sum("b"), amounts(4));
  projects.assume_deleted("q", "uid-q");
  EXPECT_EQ(sum("a"), amounts());
}

TEST_F(Capacity, TheOldestThatIsNotOnItsWayOutOwnsTheNamespace) {
  project("young", "a", {}, "shared", 1);
  project("old", "a", {}, "shared", 3);
  project("old-too", "a", {}, "shared", 3);
  project("older", "a", {}, "elsewhere", 9);
  EXPECT_EQ(first_claimant(projects, "shared"), "old") << "of two of one age the first by name";
  EXPECT_EQ(first_claimant(projects, "elsewhere"), "older");
  EXPECT_EQ(first_claimant(projects, "older"), "") << "it claims another";
  crds::Project leaving = projects.find("old")->value;
  leaving.metadata.deletion_timestamp = kStart;
  put(projects, leaving);
  EXPECT_EQ(first_claimant(projects, "shared"), "old-too");
}

}  // namespace
}  // namespace muster::reconcilers
