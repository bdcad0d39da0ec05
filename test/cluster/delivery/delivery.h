// What a user installs Muster with: kustomize overlays and Helm.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "fixture.h"

namespace muster::test {

// manifests/PATH.
std::string manifests(const std::string& path);

struct Overlay {
  std::string ns = {};                       // `namespace:`; empty: as in the base
  std::vector<std::string> resources = {};   // beside manifests/base, as manifests() names them
  std::vector<std::string> components = {};  // likewise
  std::vector<std::string> namespaces = {};  // of Projects, for manifests/restricted
};
// Writes the overlay as a user would into `directory`, and returns that.
std::filesystem::path write_overlay(const std::filesystem::path& directory, const Overlay& overlay);

// What kustomize renders of it, by the control plane's own kubectl.
std::string kustomize(const std::filesystem::path& overlay);

// A program of scripts/build-controlplane.sh: helm, health, flux, argocd. Throws if it is not built.
std::string built(const std::string& program);

// Creates the job and waits for its phase.
void start(Cluster& cluster, const SimpleJob& job, const std::string& phase);
// A Queue that is held with a Project `held` and its job `later`, and of `team` jobs that hold nothing any
// more: `ended`, `broke`, `paused`.
void add_jobs_at_rest(Cluster& cluster);
// Of `team`: job `half` on a part of a GPU, and service `chat` of two replicas.
void add_sharer_and_service(Cluster& cluster);
bool serves(const Cluster& cluster);  // `chat`, with both

// Its standard output. Throws with what it said if it fails.
std::string run(std::vector<std::string> arguments, const std::string& input = {},
                Milliseconds timeout = std::chrono::seconds(120));

}  // namespace muster::test
