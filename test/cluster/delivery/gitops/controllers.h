// A cluster with Muster, in which a controller of a GitOps tool runs as a process with all rights.
#pragma once

#include <gmock/gmock.h>

#include <fstream>
#include <iostream>
#include <iterator>

#include "delivery.h"
#include "muster/testcluster/loopback.h"

namespace muster::test {

namespace fs = std::filesystem;

class WithControllers : public testing::Test {
 protected:
  // `tool` is of built(), with its CRDs beside it; it gets the namespace `ns`.
  void start_with(const std::string& tool, const std::string& ns) {
    tool_ = built(tool);
    cluster_ = Cluster::start_empty();
    testcluster::NodeTemplate nodes;
    nodes.count = 2;
    ASSERT_TRUE(cluster_->real().add_nodes(nodes));
    muster_ = cluster_->muster();
    for (const auto& file : fs::directory_iterator(fs::path(tool_).parent_path()))
      if (file.path().extension() == ".yaml") kubectl({"apply", "--server-side", "-f", file.path()});
    cluster_->make_namespace(ns);
  }
  void TearDown() override {
    for (const auto& process : processes_) testcluster::end_process(process, 5s);
    if (!HasFailure() || !cluster_) return;
    for (const auto& log : logs_)
      std::cerr << "== " << log << '\n' << testcluster::tail(directory() / log, 60);
    if (muster_) std::cerr << muster_->log();
  }

  fs::path directory() const { return cluster_->real().directory(); }
  std::string kubectl(std::vector<std::string> arguments) const {
    const auto done = cluster_->real().kubectl(std::move(arguments));
    EXPECT_TRUE(done && done->ok()) << (done ? done->out + done->err : done.error());
    return done ? done->out : "";
  }
  // kubectl does not wait for conditions that nobody has written yet: it ends with an error.
  void wait_for_crds() const {
    ASSERT_TRUE(cluster_->wait(30s, [&] {
      const auto done = cluster_->real().kubectl({"wait", "--for=condition=Established", "crd", "--all"});
      return done && done->ok();
    }));
  }
  void spawn(std::vector<std::string> arguments, const std::string& log,
             std::vector<std::pair<std::string, std::string>> environment = {}) {
    testcluster::ProcessSpec spec;
    spec.arguments = std::move(arguments);
    spec.environment = std::move(environment);
    spec.environment.emplace_back("KUBECONFIG", cluster_->real().kubeconfig());
    // They leave working trees there.
    const fs::path temporary = directory() / "tmp";
    fs::create_directories(temporary);
    spec.environment.emplace_back("TMPDIR", temporary);
    spec.log = directory() / log;
    const auto id = testcluster::spawn(spec);
    if (!id) throw std::runtime_error(id.error());
    processes_.push_back(*id);
    logs_.push_back(log);
  }
  // Each with what comes in its place.
  using Edits = std::vector<std::pair<std::string, std::string>>;
  // The shipped samples as a working tree, with jobs.yaml edited.
  static void write_samples(const fs::path& tree, const Edits& edits) {
    fs::create_directories(tree);
    for (const char* folder : {"tree", "jobs"})
      fs::copy(manifests(std::string("gitops/samples/") + folder), tree / folder,
               fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    const fs::path jobs = tree / "jobs" / "jobs.yaml";
    std::ifstream in(jobs);
    std::string text(std::istreambuf_iterator<char>(in), {});
    for (const auto& [was, now] : edits) {
      const auto at = text.find(was);
      ASSERT_NE(at, std::string::npos) << was;
      text.replace(at, was.size(), now);
    }
    std::ofstream(jobs) << text;
  }
  // kubectl muster, in the samples' namespace.
  void muster(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(),
                     {MUSTER_PLUGIN, "--kubeconfig", cluster_->real().kubeconfig(), "-n", "nlp"});
    run(std::move(arguments));
  }
  json spec_of(const std::string& path) const { return cluster_->get(path)["spec"]; }
  // Of all pods in the samples' namespace.
  std::map<std::string, std::string> uids() const {
    std::map<std::string, std::string> all;
    const json pods = cluster_->get("/api/v1/namespaces/nlp/pods");
    for (const auto& pod : pods["items"]) all[pod["metadata"]["name"]] = pod["metadata"]["uid"];
    return all;
  }

  std::string tool_;
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<MusterProcess> muster_;

 private:
  std::vector<testcluster::ProcessId> processes_;
  std::vector<std::string> logs_;
};

inline const std::string kJob = path_of_job("llama", "nlp");
inline const std::string kService = "/apis/muster.dev/v1alpha1/namespaces/nlp/inferenceservices/chat";

}  // namespace muster::test
