#include "delivery.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <stdexcept>

namespace muster::test {

namespace fs = std::filesystem;

void start(Cluster& cluster, const SimpleJob& job, const std::string& phase) {
  cluster.create(job_object(job));
  ASSERT_TRUE(cluster.wait_phase(job.name, phase, 30s, job.ns)) << cluster.job(job.name, job.ns).dump(1);
}

void add_jobs_at_rest(Cluster& cluster) {
  cluster.apply(R"(
apiVersion: muster.dev/v1alpha1
kind: Queue
metadata: {name: later}
spec: {admission: Hold}
---
apiVersion: muster.dev/v1alpha1
kind: Project
metadata: {name: held}
spec: {queue: later}
)");
  ASSERT_TRUE(cluster.wait(
      30s, [&] { return !cluster.get("/api/v1/namespaces/held/serviceaccounts/muster-job").is_null(); }));
  start(cluster, {.name = "ended", .gpus = 0, .pod_annotations = {{"test.muster.dev/runs-for", "1s"}}},
        "Succeeded");
  start(cluster,
        {.name = "broke",
         .gpus = 0,
         .pod_annotations = {{"test.muster.dev/runs-for", "1s"}, {"test.muster.dev/exit-code", "1"}},
         .spec = {{"restart", {{"limit", 0}}}}},
        "Failed");
  start(cluster, {.name = "paused", .spec = {{"suspend", true}}}, "Suspended");
  start(cluster, {.name = "later", .ns = "held"}, "Queued");
}

void add_sharer_and_service(Cluster& cluster) {
  json half = job_object({.name = "half", .gpus = 0});
  half["spec"]["roles"][0]["gpus"] = {{"fraction", "500m"}};
  cluster.create(half);
  ASSERT_TRUE(cluster.wait_phase("half", "Running")) << cluster.job("half").dump(1);
  cluster.create(service_object("chat", 2));
  ASSERT_TRUE(cluster.wait(30s, [&] { return serves(cluster); }));
}

bool serves(const Cluster& cluster) {
  return cluster.get(path_of_service("chat")).value("/status/readyReplicas"_json_pointer, 0) == 2;
}

std::string manifests(const std::string& path) {
  return std::string(MUSTER_SOURCE_DIR "/manifests/") + path;
}

fs::path write_overlay(const fs::path& directory, const Overlay& overlay) {
  const auto write = [](const fs::path& at, const std::string& ns, const std::vector<std::string>& resources,
                        const std::vector<std::string>& components) {
    fs::create_directories(at);
    // kustomize takes no absolute paths.
    const auto from_here = [&at](const std::vector<std::string>& names) {
      std::vector<std::string> paths;
      for (const auto& name : names) {
        const bool is_here = fs::exists(at / name);
        paths.push_back(is_here ? name
                                : fs::relative(fs::canonical(manifests(name)), fs::canonical(at)).string());
      }
      return paths;
    };
    std::ofstream(at / "kustomization.yaml")
        << "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
        << (ns.empty() ? "" : "namespace: " + ns + "\n")
        << fmt::format("resources: [{}]\ncomponents: [{}]\n", fmt::join(from_here(resources), ", "),
                       fmt::join(from_here(components), ", "));
  };
  std::vector<std::string> resources = {"base"};
  resources.insert(resources.end(), overlay.resources.begin(), overlay.resources.end());
  for (const auto& ns : overlay.namespaces) {
    write(directory / ns, ns, {"restricted/namespace"}, {});
    if (overlay.ns.empty()) resources.push_back(ns);
  }
  if (overlay.ns.empty() || overlay.namespaces.empty()) {
    write(directory, overlay.ns, resources, overlay.components);
    return directory;
  }
  // An overlay's namespace is that of all that is in it, so the namespaces of Projects stand beside it.
  write(directory / "muster", overlay.ns, resources, overlay.components);
  resources = {"muster"};
  resources.insert(resources.end(), overlay.namespaces.begin(), overlay.namespaces.end());
  write(directory, "", resources, {"restricted/account"});
  return directory;
}

std::string kustomize(const fs::path& overlay) {
  const auto program = testcluster::find_controlplane();
  if (!program) throw std::runtime_error(program.error());
  return run({*program, "kubectl", "kustomize", overlay});
}

std::string run(std::vector<std::string> arguments, const std::string& input, Milliseconds timeout) {
  const std::string program = arguments.front();
  testcluster::ProcessSpec spec;
  spec.arguments = std::move(arguments);
  const auto result = testcluster::run_command(spec, input, timeout);
  if (!result) throw std::runtime_error(result.error());
  if (!result->ok()) throw std::runtime_error(program + ": " + result->err + result->out);
  return result->out;
}

std::string built(const std::string& program) {
  std::string path = run({MUSTER_SOURCE_DIR "/scripts/build-controlplane.sh", "--" + program, "--path"});
  while (!path.empty() && path.back() == '\n') path.pop_back();
  return path;
}

}  // namespace muster::test
