#include "delivery.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <stdexcept>

namespace muster::test {

namespace fs = std::filesystem;

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
    resources.push_back(ns);
  }
  write(directory, overlay.ns, resources, overlay.components);
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
