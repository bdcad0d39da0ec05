// What leads from a Project's gateway to the ports of a job.
#include "muster/reconcilers/sessions/gateway.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/reconcilers/common/child.h"

namespace muster::reconcilers {
namespace {

using crds::Json;
using testing::ElementsAre;
using testing::EndsWith;
using testing::StartsWith;

crds::TrainingJob notebook() {
  crds::TrainingJob job;
  job.metadata.name = "notebook";
  job.metadata.ns = "nlp";
  job.metadata.uid = "uid-1";
  job.spec.roles.resize(1);
  job.spec.expose = {{"jupyter", 8888, "/lab"}, {"board", 6006, ""}};
  return job;
}

crds::ProjectGateway a_gateway() {
  crds::ProjectGateway gateway;
  gateway.domain = "example.org";
  gateway.scheme = crds::GatewayScheme::kHttps;
  gateway.name = "shared";
  gateway.ns = "gateways";
  return gateway;
}
crds::ProjectGateway an_ingress(crds::GatewayScheme scheme = crds::GatewayScheme::kHttp) {
  crds::ProjectGateway gateway;
  gateway.domain = "example.org";
  gateway.scheme = scheme;
  gateway.ingress_class_name = "nginx";
  return gateway;
}

TEST(Gateway, EachPortHasAHostOfItsOwn) {
  const auto urls = external_urls(notebook(), a_gateway());
  EXPECT_THAT(urls,
              ElementsAre(StartsWith("https://notebook-jupyter-"), StartsWith("https://notebook-board-")));
  EXPECT_THAT(urls, ElementsAre(EndsWith(".example.org/lab"), EndsWith(".example.org")));
  EXPECT_EQ(route_name("nlp", "notebook", "jupyter"), "notebook-jupyter-46fce4eff2") << "in every release";
}

TEST(Gateway, NamesNeverMeanTwoPortsAndStayWithinALabel) {
  EXPECT_NE(route_name("nlp", "a-b", "c"), route_name("nlp", "a", "b-c"));
  EXPECT_NE(route_name("nlp", "a", "c"), route_name("vision", "a", "c"));
  const std::string job(40, 'j');
  const auto longest = route_name("nlp", job, "port-of-a-board"),
             other = route_name("nlp", job, "port-of-a-bored");
  EXPECT_EQ(longest.size(), 63U);
  EXPECT_NE(longest, other);
}

TEST(Gateway, ARouteLeadsFromTheGatewayToTheService) {
  const auto job = notebook();
  const Json route = route_json(job, job.spec.expose[0], a_gateway());
  const auto name = route_name("nlp", "notebook", "jupyter");
  EXPECT_EQ(route["kind"], "HTTPRoute");
  EXPECT_EQ(route["metadata"]["name"], name);
  EXPECT_EQ(route["metadata"]["ownerReferences"][0]["uid"], "uid-1");
  EXPECT_EQ(route["spec"]["hostnames"], Json::array({name + ".example.org"}));
  EXPECT_EQ(route["spec"]["parentRefs"][0]["name"], "shared");
  EXPECT_EQ(route["spec"]["parentRefs"][0]["namespace"], "gateways");
  const Json& backend = route["spec"]["rules"][0]["backendRefs"][0];
  EXPECT_EQ(backend["name"], "notebook-expose");
  EXPECT_EQ(backend["port"], 8888);
}

TEST(Gateway, AnIngressDoesTheSameAndHasTlsWhereTheSchemeSaysSo) {
  const auto job = notebook();
  const Json plain = route_json(job, job.spec.expose[1], an_ingress());
  EXPECT_EQ(plain["kind"], "Ingress");
  EXPECT_EQ(plain["spec"]["ingressClassName"], "nginx");
  const auto host = route_name("nlp", "notebook", "board") + ".example.org";
  EXPECT_EQ(plain["spec"]["rules"][0]["host"], host);
  EXPECT_EQ(plain["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]["port"]["number"], 6006);
  const Json secure = route_json(job, job.spec.expose[1], an_ingress(crds::GatewayScheme::kHttps));
  EXPECT_EQ(secure["spec"]["tls"][0]["hosts"], Json::array({host}));
  EXPECT_FALSE(is_as_wanted(secure, plain)) << "its tls has to go";
  Json there = plain;
  there["spec"].erase("tls");
  EXPECT_TRUE(is_as_wanted(there, plain)) << "as the API server has it";
}

}  // namespace
}  // namespace muster::reconcilers
