#include "muster/reconcilers/services/service_objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/crds/codec.h"
#include "muster/crds/training_job.h"
#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/pods/role_groups.h"
#include "services/sample_services.h"

namespace muster::reconcilers {
namespace {

TEST(ServiceObjects, AReplicaIsAGangThatItsServiceOwns) {
  const auto service = sample_service();
  const Json json = replica_json(service, "0a1b2", 7, "inference", !service.spec.preemptible);
  EXPECT_EQ(json["metadata"]["name"], "chat-0a1b2-7");
  EXPECT_EQ(json["metadata"]["namespace"], "nlp");
  EXPECT_EQ(json["metadata"]["ownerReferences"][0]["kind"], "InferenceService");
  EXPECT_EQ(json["metadata"]["ownerReferences"][0]["uid"], "uid-s");
  EXPECT_EQ(json["metadata"]["labels"]["muster.dev/service"], "chat");
  EXPECT_EQ(json["metadata"]["labels"]["muster.dev/revision"], "0a1b2");
  const auto job = crds::from_json<crds::TrainingJob>(json);
  ASSERT_TRUE(job);
  EXPECT_EQ(job->spec.preemptible, false);
  EXPECT_EQ(job->spec.priority_class_name, "inference");
  EXPECT_EQ(job->spec.pools, service.spec.pools);
  ASSERT_EQ(job->spec.roles.size(), 1u);
  EXPECT_EQ(job->spec.roles[0].name, "server");
  EXPECT_EQ(job->spec.roles[0].replicas, 2);
  EXPECT_EQ(job->spec.roles[0].gpus->count, 4);
  const Json& pod = (*job->spec.roles[0].pod_template.value)["spec"];
  EXPECT_FALSE(pod.contains("restartPolicy")) << "TrainingJobs allow Never only";
  EXPECT_EQ(pod["terminationGracePeriodSeconds"], 90);
  EXPECT_FALSE(json.contains("status"));
}

// Only a container that says nothing of its own end serves on.
TEST(ServiceObjects, AReplicaServesOnBeforeItIsStopped) {
  auto service = sample_service();
  service.spec.drain_seconds = 20;
  service.spec.pod_template.value = std::make_shared<const Json>(Json::parse(
      R"({"spec": {"containers": [{"name": "main", "image": "serve:1"},
          {"name": "own", "image": "i", "lifecycle": {"preStop": {"exec": {"command": ["leave"]}}}}]}})"));
  const Json pod = replica_json(service, "r", 0, "", true)["spec"]["roles"][0]["template"]["spec"];
  EXPECT_EQ(pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"], 20);
  EXPECT_FALSE(pod["containers"][1]["lifecycle"]["preStop"].contains("sleep"));
  EXPECT_EQ(pod["terminationGracePeriodSeconds"], 50) << "20 s, and then as long as ever";
}

// Most programs say only in their log what they die of.
TEST(ServiceObjects, TheLastWordsOfAReplicaAreKept) {
  auto service = sample_service();
  service.spec.pod_template.value = std::make_shared<const Json>(Json::parse(
      R"({"spec": {"initContainers": [{"name": "fetch", "image": "i"}], "containers": [{"name": "main", "image": "i"},
          {"name": "own", "image": "i", "terminationMessagePolicy": "File"}]}})"));
  const Json pod = replica_json(service, "r", 0, "", true)["spec"]["roles"][0]["template"]["spec"];
  EXPECT_EQ(pod["initContainers"][0]["terminationMessagePolicy"], "FallbackToLogsOnError");
  EXPECT_EQ(pod["containers"][0]["terminationMessagePolicy"], "FallbackToLogsOnError");
  EXPECT_EQ(pod["containers"][1]["terminationMessagePolicy"], "File") << "it says so itself";
}

TEST(ServiceObjects, AStartTimeoutIsNoRevision) {
  auto service = sample_service();
  EXPECT_EQ(replica_json(service, "r", 0, "", true)["spec"]["startTimeout"], "30m");
  const std::string revision = revision_of(service);
  service.spec.start_timeout = std::chrono::hours{2};
  EXPECT_EQ(revision_of(service), revision);
  EXPECT_EQ(replica_json(service, "r", 0, "", true)["spec"]["startTimeout"], "2h");
}

TEST(ServiceObjects, AReplicaWithRolesIsOneGangOfAllOfThem) {
  auto service = with_roles(sample_service());
  service.spec.topology.required = "muster.dev/block";
  service.spec.drain_seconds = 20;
  const Json json = replica_json(service, "0a1b2", 0, "", true);
  const auto job = crds::from_json<crds::TrainingJob>(json);
  ASSERT_TRUE(job);
  ASSERT_EQ(job->spec.roles.size(), 2u);
  EXPECT_EQ(job->spec.topology.required, "muster.dev/block");
  EXPECT_EQ(job->spec.roles[0].name, "prefill");
  EXPECT_EQ(job->spec.roles[0].replicas, 3);
  EXPECT_EQ(job->spec.roles[1].name, "decode");
  EXPECT_EQ(job->spec.roles[1].replicas, 4) << "two groups of two";
  EXPECT_EQ(job->spec.roles[1].gpus->count, 1);
  EXPECT_EQ(job->spec.roles[1].topology.preferred, "muster.dev/rack");
  for (const auto& role : job->spec.roles) {
    const Json& pod = (*role.pod_template.value)["spec"];
    EXPECT_FALSE(pod.contains("restartPolicy"));
    EXPECT_EQ(pod["terminationGracePeriodSeconds"], 110) << "each serves on";
  }
  EXPECT_EQ(group_size_of(*job, "prefill"), 1);
  EXPECT_EQ(group_size_of(*job, "decode"), 2);
  EXPECT_TRUE(takes_traffic(*job, "decode"));
  EXPECT_FALSE(takes_traffic(*job, "prefill"));
  service.spec.roles[1].traffic = false;
  EXPECT_TRUE(takes_traffic(*crds::from_json<crds::TrainingJob>(replica_json(service, "0a1b2", 0, "", true)),
                            "prefill"))
      << "the first, where none says so";
  EXPECT_EQ(replica_json(sample_service(), "0a1b2", 0, "", true)["metadata"].count("annotations"), 0u);
}

TEST(ServiceObjects, TheServiceLeadsToTheLeadersOfOneRoleAndEachRoleHasANameOfItsOwn) {
  const auto service = with_roles(sample_service());
  EXPECT_EQ(endpoint_json(service)["spec"]["selector"],
            (Json{{"muster.dev/service", "chat"}, {"muster.dev/traffic", "true"}}));
  const Json names = role_endpoint_json(service, "decode");
  EXPECT_EQ(names["metadata"]["name"], "chat-decode");
  EXPECT_EQ(names["metadata"]["ownerReferences"][0]["uid"], "uid-s");
  EXPECT_EQ(names["spec"]["clusterIP"], "None");
  EXPECT_EQ(names["spec"]["selector"], (Json{{"muster.dev/service", "chat"},
                                             {"muster.dev/role", "decode"},
                                             {"muster.dev/worker-index", "0"}}));
  EXPECT_EQ(disruption_budget_json(service)["spec"]["minAvailable"], 20) << "of three sets of seven";
  client::Pod pod;
  pod.labels = {{"muster.dev/attempt", "1"},   {"muster.dev/index", "2"},      {"muster.dev/job", "j"},
                {"muster.dev/role", "decode"}, {"muster.dev/traffic", "true"}, {"muster.dev/try", "0"}};
  EXPECT_TRUE(takes_requests(service.spec, pod));
  EXPECT_FALSE(takes_requests(sample_service().spec, pod)) << "there it is the first pod";
  pod.labels[4].second = "false";
  EXPECT_FALSE(takes_requests(service.spec, pod));
}

TEST(ServiceObjects, AChangeOfARoleIsARevision) {
  const auto service = with_roles(sample_service());
  const std::string revision = revision_of(service);
  auto other = service;
  other.spec.replicas = 9;
  EXPECT_EQ(revision_of(other), revision) << "the number of sets is none";
  other.spec.roles[0].replicas = 4;
  EXPECT_NE(revision_of(other), revision);
  other = service;
  std::swap(other.spec.roles[0].traffic, other.spec.roles[1].traffic);
  EXPECT_NE(revision_of(other), revision);
}

// As every earlier version has called it: another name would roll out every service at an upgrade.
TEST(ServiceObjects, TheRevisionOfAServiceWithoutRolesIsWhatItWas) {
  EXPECT_EQ(revision_of(sample_service()), "92a01");
}

TEST(ServiceObjects, WhatIsSaidOfAReplicaIsSaidInTheFieldsOfItsService) {
  const auto service = sample_service();
  EXPECT_EQ(in_terms_of_service(
                "TrainingJob.muster.dev \"chat-0a1b2-0\" is invalid: spec.roles[0].replicas: Invalid "
                "value: 2: no, spec.roles[0].template.spec.volumes[1]: no",
                service.spec),
            "spec.groupSize: Invalid value: 2: no, spec.template.spec.volumes[1]: no");
  EXPECT_EQ(in_terms_of_service("TrainingJob.muster.dev \"chat-0a1b2-0\" is invalid: spec.roles[0].gpus: no",
                                with_roles(service).spec),
            "spec.roles[0].gpus: no")
      << "its own";
  EXPECT_EQ(in_terms_of_service("trainingjobs.muster.dev \"chat-0a1b2-0\" is forbidden: "
                                "ValidatingAdmissionPolicy 'p' denied request: spec.roles[0].gpus: no",
                                service.spec),
            "ValidatingAdmissionPolicy 'p' denied request: spec.gpus: no");
  for (const char* other :
       {"", "spec.topology.groups: no", "pods \"chat-0a1b2-0-server-0\" is forbidden: no",
        "TrainingJob.muster.dev \"chat", "TrainingJob.muster.dev \"chat\" is odd", "spec.roles: no"})
    EXPECT_EQ(in_terms_of_service(other, service.spec), other);
}

TEST(ServiceObjects, ARevisionIsWhatReplicasAreMadeFrom) {
  const auto service = sample_service();
  const std::string revision = revision_of(service);
  auto other = service;
  other.spec.replicas = 9;
  other.spec.port = 9000;
  other.spec.rollout.max_unavailable = 2;
  other.spec.autoscaling.emplace().max_replicas = 4;
  other.metadata.generation = 17;
  EXPECT_EQ(revision_of(other), revision);
  other.spec.pod_template.value =
      std::make_shared<const Json>(Json{{"spec", {{"containers", Json::array()}}}});
  EXPECT_NE(revision_of(other), revision);
  other = service;
  other.spec.gpus->count = 8;
  EXPECT_NE(revision_of(other), revision);
}

TEST(ServiceObjects, NamesOfReplicasFitTheSchema) {
  const std::string longest(40, 'a');
  const auto name = replica_name(longest, "0a1b2", 9999);
  EXPECT_LE(name.size(), 40u);
  EXPECT_NE(name, replica_name(longest.substr(1) + "b", "0a1b2", 9999));
  EXPECT_THAT(name, testing::EndsWith("-0a1b2-9999"));
}

TEST(ServiceObjects, TheServiceLeadsToTheFirstPodOfEveryReplicaAndAndTheBudgetKeepsAllPodsButOne) {
  const auto service = sample_service();
  const Json endpoint = endpoint_json(service);
  EXPECT_EQ(endpoint["spec"]["selector"]["muster.dev/service"], "chat");
  EXPECT_EQ(endpoint["spec"]["selector"]["muster.dev/index"], "0");
  EXPECT_EQ(endpoint["spec"]["ports"][0]["targetPort"], 8000);
  EXPECT_EQ(url_of(service), "http://chat.nlp.svc:8000");
  EXPECT_EQ(disruption_budget_json(service)["spec"]["minAvailable"], 5)
      << "of three groups of two: with four left, one pod of each of two groups could go";
  EXPECT_EQ(disruption_budget_json(service)["spec"]["unhealthyPodEvictionPolicy"], "AlwaysAllow");
  auto lenient = service;
  lenient.spec.rollout.max_unavailable = 5;
  EXPECT_EQ(disruption_budget_json(lenient)["spec"]["minAvailable"], 1);
  lenient.spec.rollout.max_unavailable = 7;
  EXPECT_EQ(disruption_budget_json(lenient)["spec"]["minAvailable"], 0);
  // The only replica is kept: it is made elsewhere before a drain gets it. Unless it cannot be.
  auto single = service;
  single.spec.replicas = 1;
  EXPECT_EQ(disruption_budget_json(single)["spec"]["minAvailable"], 2) << "both pods of its group";
  EXPECT_EQ(disruption_budget_json(single, true)["spec"]["minAvailable"], 1);
  single.spec.rollout.max_unavailable = 1;
  EXPECT_EQ(disruption_budget_json(single)["spec"]["minAvailable"], 1)
      << "its owner says that it may be missed";
}

}  // namespace
}  // namespace muster::reconcilers
