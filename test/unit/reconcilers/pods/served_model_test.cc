#include "muster/reconcilers/pods/served_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace muster::reconcilers {
namespace {

using crds::Json;
using testing::HasSubstr;

Json variables(const Json& container) {
  Json all = Json::object();
  for (const Json& one : container["env"]) all[one["name"]] = one.value("value", "");
  return all;
}

crds::RawJson pod_template(const Json& env = Json::array()) {
  Json of = {{"spec", {{"containers", {{{"name", "main"}, {"image", "img"}}}}}}};
  if (!env.empty()) of["spec"]["containers"][0]["env"] = env;
  return {std::make_shared<const Json>(std::move(of))};
}

TEST(ServedModel, WhatAServerIsToldToLoad) {
  EXPECT_EQ(model_argument("hf://Qwen/Qwen3-VL-8B-Instruct"), "Qwen/Qwen3-VL-8B-Instruct");
  EXPECT_EQ(model_argument("s3://bucket/llama"), "s3://bucket/llama");
  EXPECT_EQ(model_argument("pvc://models/llama/step-9"), "/mnt/models/llama/step-9");
  EXPECT_EQ(model_argument("pvc://models"), "/mnt/models");
}

TEST(ServedModel, TheCacheIsMountedAndTheVariablesSet) {
  const Json pod = (*with_model(pod_template(), {"hf://a/b", "cache"}).value)["spec"];
  const Json& main = pod["containers"][0];
  EXPECT_EQ(variables(main), (Json{{"MODEL", "a/b"},
                                   {"HF_HOME", "/var/cache/huggingface"},
                                   {"HF_HUB_CACHE", "/var/cache/huggingface/hub"}}));
  EXPECT_EQ(
      pod["volumes"],
      Json::array({{{"name", "served-model-cache"}, {"persistentVolumeClaim", {{"claimName", "cache"}}}}}));
  EXPECT_EQ(main["volumeMounts"],
            Json::array({{{"name", "served-model-cache"}, {"mountPath", "/var/cache/huggingface"}}}));
}

TEST(ServedModel, AClaimIsMountedReadOnlyAndWhatATemplateStatesCounts) {
  const Json env = {{{"name", "MODEL"}, {"value", "mine"}}, {{"name", "ARG"}, {"value", "$(HF_HOME)"}}};
  const Json pod = (*with_model(pod_template(env), {"pvc://models/llama", "cache"}).value)["spec"];
  const Json& main = pod["containers"][0];
  EXPECT_EQ(variables(main)["MODEL"], "mine");
  EXPECT_EQ(main["env"].back()["name"], "ARG") << "those that it may refer to stand before it";
  EXPECT_EQ(main["volumeMounts"][0],
            (Json{{"name", "served-model"}, {"mountPath", "/mnt/models"}, {"readOnly", true}}));
  EXPECT_EQ(pod["volumes"][0]["persistentVolumeClaim"], (Json{{"claimName", "models"}, {"readOnly", true}}));
}

struct OfAJob : testing::Test {
  OfAJob() {
    service.metadata.ns = "nlp";
    service.spec.model = crds::ServedModel{"trainingjob://llama-ft", ""};
    job.spec.checkpoint.emplace();
    job.spec.checkpoint->claim_name = "ckpt";
    job.spec.checkpoint->mount_path = "/ckpt";
    job.status.phase = crds::Phase::kSucceeded;
    job.status.checkpoint.uri = "/ckpt/run-1/step-90";
  }
  LocatedModel find() {
    return locate_model(service,
                        [this](const std::string& name) { return name == "llama-ft" ? &job : nullptr; });
  }
  crds::InferenceService service;
  crds::TrainingJob job;
};

TEST_F(OfAJob, ItsLastCheckpointInItsClaimOrWhereItSaid) {
  EXPECT_EQ(find().uri, "pvc://ckpt/run-1/step-90");
  EXPECT_EQ(find().problem, "");
  job.status.checkpoint.uri = "file:///ckpt/step-100/";
  EXPECT_EQ(find().uri, "pvc://ckpt/step-100");
  job.status.checkpoint.uri = "s3://bucket/step-100";
  EXPECT_EQ(find().uri, "s3://bucket/step-100");
  service.spec.model->uri = "trainingjob://nlp/llama-ft";
  EXPECT_EQ(find().uri, "s3://bucket/step-100");
}

TEST_F(OfAJob, WhereThereIsNoneWhatWasServedStaysAndSomebodySaysWhy) {
  service.status.model = "pvc://ckpt/step-1";
  const auto stays = [&] {
    const auto found = find();
    EXPECT_EQ(found.uri, "pvc://ckpt/step-1");
    return found.problem;
  };
  job.status.phase = crds::Phase::kRunning;
  EXPECT_THAT(stays(), HasSubstr("TrainingJob llama-ft has not completed"));
  job.status.phase = crds::Phase::kSucceeded;
  for (const char* elsewhere : {"/ckpt-2/step-1", "/tmp/x", "/ckpt/../etc", "/ckpt/a/.."}) {
    job.status.checkpoint.uri = elsewhere;
    EXPECT_THAT(stays(), HasSubstr("neither in its spec.checkpoint.claimName")) << elsewhere;
  }
  job.status.checkpoint.uri = "";
  EXPECT_THAT(stays(), HasSubstr("has reported no checkpoint"));
  service.spec.model->uri = "trainingjob://other";
  EXPECT_THAT(stays(), HasSubstr("there is no TrainingJob other"));
  service.spec.model->uri = "trainingjob://vision/llama-ft";
  EXPECT_THAT(stays(), HasSubstr("must name a job of namespace nlp"));
  service.status.model = "";
  EXPECT_EQ(find().uri, "");
}

}  // namespace
}  // namespace muster::reconcilers
