// The Service of spec.expose, and what the status says of it.
#include "muster/reconcilers/pods/expose.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/reconcilers/pods/names.h"

namespace muster::reconcilers {
namespace {

using crds::Json;

crds::TrainingJob notebook() {
  crds::TrainingJob job;
  job.metadata.name = "notebook";
  job.metadata.ns = "nlp";
  job.metadata.uid = "uid-1";
  job.spec.roles.resize(2);
  job.spec.roles[0].name = "main";
  job.spec.roles[1].name = "worker";
  job.spec.expose = {{"jupyter", 8888, "/lab"}, {"www", 80, ""}};
  return job;
}

TEST(Expose, LeadsToTheFirstPodOfWhicheverAttempt) {
  const Json service = expose_service_json(notebook());
  EXPECT_EQ(service["metadata"]["name"], "notebook-expose");
  EXPECT_EQ(service["metadata"]["ownerReferences"][0]["uid"], "uid-1");
  EXPECT_EQ(service["spec"]["selector"],
            Json::parse(R"({"muster.dev/job": "notebook", "muster.dev/role": "main",
                                                         "muster.dev/index": "0"})"));
  EXPECT_EQ(service["spec"]["ports"], Json::parse(R"([
      {"name": "jupyter", "port": 8888, "targetPort": 8888, "protocol": "TCP"},
      {"name": "www", "port": 80, "targetPort": 80, "protocol": "TCP"}])"));
  auto later = notebook();
  later.status.assignment.attempt = 7;
  EXPECT_EQ(expose_service_json(later), service);
  EXPECT_NE(expose_service_name("notebook"), service_name("notebook")) << "that one is headless";
}

TEST(Expose, SaysHowToReachEachPort) {
  const auto endpoints = endpoints_of(notebook());
  ASSERT_EQ(endpoints.size(), 2U);
  EXPECT_EQ(endpoints[0],
            (crds::Endpoint{"jupyter", "notebook-expose", "http://notebook-expose.nlp.svc:8888/lab",
                            "kubectl -n nlp port-forward svc/notebook-expose 8888:8888"}));
  EXPECT_EQ(endpoints[1].url, "http://notebook-expose.nlp.svc:80");
  EXPECT_EQ(endpoints[1].port_forward, "kubectl -n nlp port-forward svc/notebook-expose 8080:80")
      << "only root may listen at 80";
}

}  // namespace
}  // namespace muster::reconcilers
