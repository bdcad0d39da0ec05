#include "muster/testcluster/testcluster.h"

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "pki.h"
#include "state.h"

namespace muster::testcluster {
namespace {

namespace fs = std::filesystem;

// The documents of `yaml` whose kind is not Deployment.
std::string without_deployments(const std::string& yaml) {
  std::istringstream in(yaml);
  std::string out, document;
  const auto flush = [&] {
    if (document.find("\nkind: Deployment\n") == std::string::npos) out += "---\n" + document;
    document.clear();
  };
  for (std::string line; std::getline(in, line);) {
    if (line == "---") {
      flush();
    } else {
      document += line + "\n";
    }
  }
  flush();
  return out;
}

}  // namespace

Result<fs::path> find_controlplane() {
  if (const char* chosen = std::getenv("MUSTER_CONTROLPLANE")) {
    if (fs::exists(chosen)) return fs::path(chosen);
    return std::unexpected("$MUSTER_CONTROLPLANE names " + std::string(chosen) + ", which does not exist");
  }
  ProcessSpec script;
  script.arguments = {std::string(MUSTER_TESTCLUSTER_SOURCE_DIR) + "/scripts/build-controlplane.sh",
                      "--path"};
  const auto result = run_command(script);
  if (!result) return std::unexpected(result.error());
  if (!result->ok()) return std::unexpected(result->err);
  return fs::path(result->out.substr(0, result->out.find('\n')));
}

TestCluster::TestCluster(std::unique_ptr<State> state) : state_(std::move(state)) {}
TestCluster::TestCluster(TestCluster&&) noexcept = default;
TestCluster& TestCluster::operator=(TestCluster&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}
TestCluster::~TestCluster() {
  if (state_ && !state_->options.detach) stop();
}

Result<TestCluster> TestCluster::start(const Options& options) {
  const auto deadline = std::chrono::steady_clock::now() + options.timeout;
  std::string error;
  // Another process may take a port between our look and the server's; then once more with others.
  for (int attempt = 0; attempt < 3; ++attempt) {
    auto state = std::make_unique<State>();
    state->options = options;
    if (state->options.controlplane.empty()) {
      auto found = find_controlplane();
      if (!found) return std::unexpected(found.error());
      state->options.controlplane = *found;
    }
    if (state->options.servers.empty()) {
      const char* chosen = std::getenv("MUSTER_SERVERS");
      state->options.servers = chosen != nullptr ? fs::path(chosen) : state->options.controlplane;
    }
    auto done = state->prepare_directory();
    if (done) done = state->choose_ports();
    if (done) done = state->write_pki();
    if (done) done = state->write_configs();
    if (!done) {
      state->stop();
      return std::unexpected(done.error());
    }
    state->connect();
    done = state->launch_all(deadline);
    if (done) return TestCluster(std::move(state));
    error = done.error();
    state->stop();
    if (error.find("address already in use") == std::string::npos) break;
  }
  return std::unexpected(error);
}

Result<TestCluster> TestCluster::attach(const fs::path& directory) {
  auto state = std::make_unique<State>();
  state->directory = fs::absolute(directory);
  state->options.detach = state->attached = true;
  std::ifstream file(state->directory / "cluster");
  std::string controlplane;
  Ports& ports = state->ports;
  if (!(file >> ports.etcd >> ports.etcd_peer >> ports.apiserver >> ports.controller_manager >> std::ws) ||
      !std::getline(file, controlplane))
    return std::unexpected("no cluster in " + directory.string());
  state->options.controlplane = controlplane;
  for (const Component component : kComponents)
    if (const auto id = recorded(state->directory, component)) state->process(component) = *id;
  if (!is_alive(state->process(Component::kApiServer)))
    return std::unexpected("the cluster in " + directory.string() + " does not run");
  state->connect();
  return TestCluster(std::move(state));
}

const fs::path& TestCluster::directory() const {
  return state_->directory;
}
const fs::path& TestCluster::controlplane() const {
  return state_->options.controlplane;
}
std::string TestCluster::server_url() const {
  return state_->server_url();
}
fs::path TestCluster::kubeconfig() const {
  return state_->directory / "admin.kubeconfig";
}
fs::path TestCluster::ca_certificate() const {
  return state_->pki("ca.crt");
}
fs::path TestCluster::admin_certificate() const {
  return state_->pki("admin.crt");
}
fs::path TestCluster::admin_key() const {
  return state_->pki("admin.key");
}
fs::path TestCluster::audit_log() const {
  return state_->directory / "audit.log";
}
fs::path TestCluster::log(Component component) const {
  return state_->log(component);
}
void TestCluster::stop() {
  state_->stop();
}

std::optional<ProcessId> TestCluster::process(Component component) const {
  const ProcessId id = state_->process(component);
  if (!is_alive(id)) return std::nullopt;
  return id;
}

bool TestCluster::running(Component component) const {
  return process(component).has_value();
}

bool TestCluster::wait_ready(Milliseconds timeout) const {
  return wait_until(timeout, [&] { return state_->api_ready(); });
}

Result<CommandResult> TestCluster::kubectl(std::vector<std::string> arguments, const std::string& input,
                                           Milliseconds timeout) const {
  ProcessSpec spec;
  spec.arguments = {state_->options.controlplane, "kubectl", "--kubeconfig=" + kubeconfig().string(),
                    "--cache-dir=" + (state_->directory / "kubectl-cache").string()};
  spec.arguments.insert(spec.arguments.end(), arguments.begin(), arguments.end());
  return run_command(spec, input, timeout);
}

Result<void> TestCluster::apply_without_deployments(const fs::path& folder) const {
  const auto run = [&](std::vector<std::string> arguments,
                       const std::string& input = {}) -> Result<std::string> {
    auto result = kubectl(std::move(arguments), input);
    if (!result) return std::unexpected(std::move(result.error()));
    if (!result->ok()) return std::unexpected(std::move(result->err));
    return std::move(result->out);
  };
  const auto rendered = run({"kustomize", folder.string()});
  if (!rendered) return std::unexpected(rendered.error());
  const auto applied = run({"apply", "--server-side", "-f", "-"}, without_deployments(*rendered));
  if (!applied) return std::unexpected(applied.error());
  const auto served = run({"wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"});
  if (!served) return std::unexpected(served.error());
  return {};
}

Result<HttpResponse> TestCluster::request(const std::string& method, const std::string& path,
                                          const std::string& body, const std::string& content_type,
                                          Milliseconds timeout,
                                          const std::vector<std::string>& more_headers) const {
  if (!state_->http) return std::unexpected("the cluster is stopped");
  return state_->http->request(method, path, body, content_type, timeout, more_headers);
}

Result<fs::path> TestCluster::service_account_kubeconfig(const std::string& name_space,
                                                         const std::string& name) {
  const auto answer =
      request("POST", "/api/v1/namespaces/" + name_space + "/serviceaccounts/" + name + "/token",
              R"({"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest",)"
              R"("spec":{"expirationSeconds":86400}})");
  if (!answer) return std::unexpected(answer.error());
  const auto json = nlohmann::json::parse(answer->body, nullptr, false);
  if (!answer->ok() || !json.is_object() || !json.contains("status"))
    return std::unexpected("no token for ServiceAccount " + name_space + "/" + name + ": " + answer->body);
  const std::string token = json["status"].value("token", "");
  const std::string file = name_space + "-" + name + ".kubeconfig";
  if (auto written = state_->write_kubeconfig(file, "    token: " + token + "\n"); !written)
    return std::unexpected(written.error());
  return state_->directory / file;
}

}  // namespace muster::testcluster
