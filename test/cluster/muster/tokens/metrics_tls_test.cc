// /metrics over TLS, for those only whom the real API server lets get it: with manifests/metrics-tls.
#include <gmock/gmock.h>

#include "https.h"

namespace muster::test {
namespace {

using testing::HasSubstr;

// The base is applied again, as an overlay does it.
void apply_component(Cluster& cluster) {
  const auto folder = cluster.real().directory() / "metrics-tls";
  std::filesystem::create_directories(folder);
  const std::string manifests = std::filesystem::relative(MUSTER_MANIFESTS, folder).string();
  std::ofstream(folder / "kustomization.yaml")
      << "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [" << manifests
      << "/base]\ncomponents: [" << manifests << "/metrics-tls]\n";
  const auto applied = cluster.real().apply_without_deployments(folder);
  if (!applied) throw std::runtime_error(applied.error());
}

TEST(MetricsOverTls, AreForWhomTheApiServerLetsGetThem) {
  auto cluster = Cluster::start(1, 8);
  apply_component(*cluster);
  const ServingCertificate certificate(cluster->real().directory());
  auto muster = cluster->muster({"--metrics-tls-cert-file", certificate.certificate(),
                                 "--metrics-tls-private-key-file", certificate.key(), "--metrics-authorize"});
  const int port = port_in(muster->log(), "metrics");
  ASSERT_NE(port, 0) << muster->log();
  const std::string url = "https://127.0.0.1:" + std::to_string(port) + "/metrics";

  EXPECT_EQ(https_get(url, {}, {}).status, 0) << "nobody who is trusted has signed the certificate";
  EXPECT_EQ(https_get(url, certificate.pem(), {}).status, 401);
  EXPECT_EQ(https_get(url, certificate.pem(), "no-token").status, 401);
  const auto refused = https_get(url, certificate.pem(), account(*cluster, "nobody"));
  EXPECT_EQ(refused.status, 403);
  EXPECT_THAT(refused.body,
              HasSubstr("user \"system:serviceaccount:team:nobody\" may not get path \"/metrics\""));
  json job = job_object({.name = "secretive"});
  job["metadata"]["labels"] = {{"muster.dev/user", "anna-of-the-lab"}};
  cluster->create(job);
  ASSERT_TRUE(cluster->wait_phase("secretive", "Running"));
  const std::string token = account(*cluster, "scraper");
  bind_everywhere(*cluster, "scraper", "muster-metrics-reader");
  // The API server hears of a binding a moment after it was made, and a refusal is remembered for ten
  // seconds.
  HttpsAnswer got;
  EXPECT_TRUE(cluster->wait(40s,
                            [&] {
                              got = https_get(url, certificate.pem(), token);
                              return got.status == 200;
                            }))
      << got.status << got.body;
  EXPECT_THAT(got.body, HasSubstr("muster_pool_"));
  EXPECT_THAT(got.body, HasSubstr("project=\"team\""));
  for (const char* name : {"secretive", "anna-of-the-lab", "registry.example"})
    EXPECT_THAT(got.body, testing::Not(HasSubstr(name))) << "names of jobs, users and images are not told";
}

}  // namespace
}  // namespace muster::test
