// What the properties (test/property) have found, each as small as it could be made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "world.h"

namespace muster::placement {
namespace {

using testing::assignment;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::job;
using testing::jobs_of;
using testing::node;
using testing::pool;
using testing::project;
using testing::queue;
using testing::World;

// Nothing of the model has drifted after it.
Plan sound(World& w) {
  Plan p = w.plan();
  EXPECT_THAT(w.cluster.audit(), IsEmpty());
  return p;
}
PoolSpec of_label(const std::string& name) {
  PoolSpec p = pool(name, {{"pool", Operator::kIn, {name}}});
  p.is_default = name == "default";
  return p;
}
NodeSpec in_pool(NodeSpec n, const std::string& name) {
  n.labels["pool"] = name;
  return n;
}

TEST(Found, SlicesOfANodeThatHasCutNone) {
  World w({node("n", 4)});
  JobSpec j = job("a/1", 1, 1);
  j.roles[0].share.kind = GpuShare::Kind::kMig;
  j.roles[0].share.profile = "1g.10gb";
  w.cluster.upsert_job(j);
  w.cluster.set_assignment("a/1", assignment(1, {{0, 0, "n", {}}}));
  EXPECT_THAT(w.cluster.audit(), IsEmpty());
  w.cluster.remove_job("a/1");
  EXPECT_THAT(w.cluster.audit(), IsEmpty());
}

TEST(Found, ALimitBoundsWhatIsHeldBackForThoseBelow) {
  World w({node("n", 8)});
  w.cluster.upsert_queue(project("a", "top", {4, -1, 1, 0, 4}));
  sound(w);
  w.cluster.upsert_queue(queue("top", "", {8, 2}));
  EXPECT_THAT(w.cluster.audit(), IsEmpty());
}

TEST(Found, NothingIsHeldBackInACircle) {
  World w({node("n", 8)});
  w.cluster.upsert_job(job("a/1", 1, 2));
  sound(w);
  w.cluster.upsert_queue(queue("top", "top", {8, -1, 1, 0, 4}));
  w.cluster.upsert_queue(project("a", "top", {4, -1, 1, 0, 2}));
  sound(w);
  w.cluster.remove_job("a/1");
  EXPECT_THAT(w.cluster.audit(), IsEmpty());
}

TEST(Found, AVictimThatHasAlsoAPodOnANodeOfAnotherPool) {
  World w;
  PoolSpec p = of_label("default");
  p.topology = {"rack"};
  w.cluster.upsert_pool(p);
  w.cluster.upsert_pool(of_label("other"));
  const auto racked = [](const std::string& name, const std::string& in) {
    NodeSpec n = in_pool(node(name, 4), in);
    n.labels["rack"] = "r";
    return n;
  };
  for (const char* name : {"n1", "n2", "n3"}) w.cluster.upsert_node(racked(name, "default"));
  w.cluster.upsert_queue(queue("top", "", {12}));
  w.cluster.upsert_queue(project("a", "top", {8}));
  w.cluster.upsert_queue(project("b", "top", {0}));
  w.cluster.upsert_job(job("b/1", 3, 4));
  sound(w);
  NodeSpec gone = node("n3", 4);
  w.cluster.upsert_node(gone);  // in no pool
  JobSpec j = job("a/1", 2, 4, 5);
  j.topology.required = "rack";
  w.cluster.upsert_job(j);
  EXPECT_THAT(jobs_of(sound(w), Decision::Kind::kEvict), ElementsAre("b/1"));
}

}  // namespace
}  // namespace muster::placement
