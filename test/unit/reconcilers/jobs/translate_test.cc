// What a job is taken for, by what else there is in the caches.
#include "muster/reconcilers/jobs/translate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/client/testing/fake_transport.h"
#include "muster/client/testing/virtual_world.h"
#include "muster/reconcilers/arrays/array_objects.h"
#include "muster/reconcilers/caches/caches.h"
#include "muster/reconcilers/projects/project.h"
#include "sample_jobs.h"

namespace muster::reconcilers {
namespace {

using testing::Eq;
using testing::HasSubstr;

struct TranslateTest : testing::Test {
  TranslateTest() { add_tree_indexes(caches.queues.store(), caches.projects.store()); }

  void add_class(const std::string& name, std::int32_t value, bool is_default) {
    caches.priority_classes.store().apply({{"", name, "uid-" + name, "1"}, value, is_default});
  }
  static Object<crds::TrainingJob> object(crds::TrainingJob job, const std::string& owner_uid = {}) {
    Object<crds::TrainingJob> o;
    o.meta = {job.metadata.ns, job.metadata.name, job.metadata.uid, "1"};
    o.value = std::move(job);
    o.owner_uid = owner_uid;
    if (!owner_uid.empty()) o.owner_kind = crds::TrainingJob::kKind;
    return o;
  }

  client::testing::VirtualWorld world;
  client::testing::FakeTransport server{world.env()};
  client::ApiClient api{world.env(), server};
  Caches caches{api};
};

TEST_F(TranslateTest, OfSeveralDefaultClassesTheSmallestValueCounts) {
  auto job = sample_job();
  job.spec.roles = {role("worker", 1, 1, bare_template())};
  EXPECT_EQ(translate_job(object(job), caches).priority, 0);
  add_class("b", 7, true);
  EXPECT_EQ(translate_job(object(job), caches).priority, 7);
  add_class("a", 900, true);
  add_class("c", 20, true);
  add_class("d", -5, false);
  EXPECT_EQ(translate_job(object(job), caches).priority, 7) << "not the first, and not the last by name";
}

// Anybody who may make jobs could else escape the labels that a Project asks for.
TEST_F(TranslateTest, ANameAndLabelsAloneMakeNoIndexOfAnArray) {
  auto array = sample_job();
  array.metadata.name = "sweep";
  array.metadata.uid = "uid-array";
  array.metadata.labels = {{"cost-centre", "7"}};
  array.status = {};
  array.spec.roles = {role("worker", 1, 1, bare_template())};
  array.spec.array = crds::JobArray{.count = 3};
  caches.jobs.store().apply(object(array));
  Object<crds::Project> project;
  project.meta = {"", "nlp", "uid-nlp", "1"};
  project.value.metadata.name = "nlp";
  project.value.spec.policy.emplace().required_labels = {"cost-centre"};
  caches.projects.store().apply(project);
  auto index = index_job(array, 1);
  index.metadata.uid = "uid-index";

  const auto own = object(index, "uid-array");
  EXPECT_TRUE(array_of(own, caches));
  EXPECT_THAT(translate_job(own, caches).invalid, Eq(std::nullopt));
  for (const auto& posing : {object(index), object(index, "uid-of-another")}) {
    EXPECT_FALSE(array_of(posing, caches));
    const auto refused = translate_job(posing, caches).invalid;
    ASSERT_TRUE(refused);
    EXPECT_THAT(*refused, HasSubstr("cost-centre"));
  }
}

}  // namespace
}  // namespace muster::reconcilers
