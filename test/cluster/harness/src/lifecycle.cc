// Starting, watching over and ending the processes of a cluster.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "muster/testcluster/loopback.h"
#include "state.h"

namespace muster::testcluster {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

Milliseconds left_until(Clock::time_point deadline) {
  return std::max(Milliseconds(0), std::chrono::duration_cast<Milliseconds>(deadline - Clock::now()));
}

std::string url(int port) {
  return "http://127.0.0.1:" + std::to_string(port);
}

fs::path pid_file(const fs::path& directory, Component component) {
  return directory / (std::string(name_of(component)) + ".pid");
}

}  // namespace

std::string_view name_of(Component component) {
  switch (component) {
    case Component::kEtcd:
      return "etcd";
    case Component::kApiServer:
      return "kube-apiserver";
    case Component::kControllerManager:
      return "kube-controller-manager";
    case Component::kKwok:
      return "kwok";
  }
  return "unknown";
}

std::optional<ProcessId> recorded(const fs::path& directory, Component component) {
  std::ifstream file(pid_file(directory, component));
  ProcessId id;
  if (!(file >> id.pid >> id.start_time)) return std::nullopt;
  return id;
}

std::vector<int> TestCluster::State::ports_of(Component component) const {
  switch (component) {
    case Component::kEtcd:
      return {ports.etcd, ports.etcd_peer};
    case Component::kApiServer:
      return {ports.apiserver};
    case Component::kControllerManager:
      return {ports.controller_manager};
    case Component::kKwok:
      break;
  }
  return {};
}

std::vector<std::string> TestCluster::State::arguments(Component component) const {
  const bool is_server = component == Component::kApiServer || component == Component::kControllerManager;
  std::vector<std::string> result = {is_server ? options.servers : options.controlplane,
                                     std::string(name_of(component))};
  const auto add = [&](const std::vector<std::string>& flags) {
    result.insert(result.end(), flags.begin(), flags.end());
  };
  switch (component) {
    case Component::kEtcd:
      add({"--name=test", "--data-dir=" + (directory / "etcd").string(), "--unsafe-no-fsync",
           "--log-level=warn", "--listen-client-urls=" + url(ports.etcd),
           "--advertise-client-urls=" + url(ports.etcd), "--listen-peer-urls=" + url(ports.etcd_peer),
           "--initial-advertise-peer-urls=" + url(ports.etcd_peer),
           "--initial-cluster=test=" + url(ports.etcd_peer), "--quota-backend-bytes=8589934592"});
      add(options.etcd_flags);
      break;
    case Component::kApiServer:
      add({"--etcd-servers=" + url(ports.etcd), "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
           "--secure-port=" + std::to_string(ports.apiserver), "--cert-dir=" + (directory / "pki").string(),
           "--tls-cert-file=" + pki("apiserver.crt").string(),
           "--tls-private-key-file=" + pki("apiserver.key").string(),
           "--client-ca-file=" + pki("ca.crt").string(), "--authorization-mode=Node,RBAC",
           "--allow-privileged", "--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.96.0.0/16",
           // For logs and exec on real nodes.
           "--kubelet-client-certificate=" + pki("admin.crt").string(),
           "--kubelet-client-key=" + pki("admin.key").string(),
           "--kubelet-preferred-address-types=InternalIP",
           "--service-account-issuer=https://kubernetes.default.svc",
           "--service-account-key-file=" + pki("service-accounts.pub").string(),
           "--service-account-signing-key-file=" + pki("service-accounts.key").string()});
      if (!options.with_controller_manager) add({"--disable-admission-plugins=ServiceAccount"});
      if (options.audit)
        add({"--audit-policy-file=" + (directory / "audit-policy.yaml").string(),
             "--audit-log-path=" + (directory / "audit.log").string(), "--audit-log-mode=blocking",
             // MiB; its default of 100 begins a new file in the middle of a large run, unseen by who reads
             // it.
             "--audit-log-maxsize=10240"});
      add(options.apiserver_flags);
      break;
    case Component::kControllerManager:
      add({"--kubeconfig=" + (directory / "kube-controller-manager.kubeconfig").string(),
           "--bind-address=127.0.0.1", "--secure-port=" + std::to_string(ports.controller_manager),
           "--cert-dir=" + (directory / "pki").string(), "--root-ca-file=" + pki("ca.crt").string(),
           "--service-account-private-key-file=" + pki("service-accounts.key").string(),
           // It writes an annotation for kubelets to each new node; here are none.
           "--controllers=*,-ttl-controller", "--use-service-account-credentials", "--leader-elect=false",
           // Its default of 20 requests a second would take minutes to delete a test's namespace.
           "--kube-api-qps=500", "--kube-api-burst=1000", "--node-monitor-period=1s",
           "--node-monitor-grace-period=" + std::to_string(options.node_lease_seconds) + "s"});
      add(options.controller_manager_flags);
      break;
    case Component::kKwok:
      add({"--config=" + (directory / "kwok.yaml").string(),
           "--kubeconfig=" + (directory / "kwok.kubeconfig").string(), "--v=WARN"});
      add(options.kwok_flags);
      break;
  }
  return result;
}

Result<void> TestCluster::State::launch(Component component) {
  ProcessSpec spec;
  spec.arguments = arguments(component);
  spec.log = log(component);
  spec.ends_with_parent = !options.detach;
  // With the few objects of a test its heap is so small that it is swept all the time: a third of its work.
  // The heap of a server in use is gigabytes.
  if (component == Component::kApiServer && std::getenv("GOGC") == nullptr)
    spec.environment.emplace_back("GOGC", "400");
  const auto id = spawn(spec);
  if (!id) return std::unexpected(std::string(name_of(component)) + ": " + id.error());
  process(component) = *id;
  return write_file(pid_file(directory, component),
                    std::to_string(id->pid) + " " + std::to_string(id->start_time));
}

bool TestCluster::State::api_ready() {
  const auto answer = http->request("GET", "/readyz", {}, "application/json", std::chrono::seconds(2));
  return answer && answer->status == 200;
}

void TestCluster::State::connect() {
  http = std::make_unique<HttpClient>(server_url(), pki("ca.crt"), pki("admin.crt"), pki("admin.key"));
}

Result<void> TestCluster::State::await(Component component, Clock::time_point deadline) {
  bool ended = false;
  const bool ready = wait_until(left_until(deadline), [&] {
    ended = !is_alive(process(component));
    if (ended) return true;
    if (component == Component::kEtcd) return port_answers(ports.etcd);
    if (component == Component::kApiServer) return api_ready();
    return true;
  });
  if (ready && !ended) return {};
  return std::unexpected(std::string(name_of(component)) + (ended ? " ended" : " is not ready in time") +
                         "; the end of " + log(component).string() + ":\n" + tail(log(component), 20));
}

Result<void> TestCluster::State::await_default_service_account(Clock::time_point deadline) {
  const bool there = wait_until(left_until(deadline), [&] {
    const auto answer = http->request("GET", "/api/v1/namespaces/default/serviceaccounts/default", {},
                                      "application/json", std::chrono::seconds(2));
    return (answer && answer->ok()) || !is_alive(process(Component::kControllerManager));
  });
  if (there && is_alive(process(Component::kControllerManager))) return {};
  return std::unexpected("the controller manager made no default ServiceAccount; the end of its log:\n" +
                         tail(log(Component::kControllerManager), 20));
}

Result<void> TestCluster::State::launch_all(Clock::time_point deadline) {
  for (const Component component : kComponents) {
    if (component == Component::kControllerManager && !options.with_controller_manager) continue;
    if (component == Component::kKwok && !options.with_kwok) continue;
    if (auto done = launch(component); !done) return done;
    if (auto done = await(component, deadline); !done) return done;
  }
  if (options.with_controller_manager) return await_default_service_account(deadline);
  return {};
}

void TestCluster::State::stop() {
  if (stopped) return;
  stopped = true;
  http.reset();
  // Last started first: nobody then waits for a server that is gone. The API server would serve open watches
  // for a while; nothing here is worth waiting for.
  for (auto component = kComponents.rbegin(); component != kComponents.rend(); ++component) {
    if (!end_process(process(*component), Milliseconds(*component == Component::kApiServer ? 1000 : 3000)))
      continue;
    std::error_code ignored;
    fs::remove(pid_file(directory, *component), ignored);
  }
  std::error_code ignored;
  if (remove_directory) fs::remove_all(directory, ignored);
}

Result<void> TestCluster::stop_detached(const fs::path& directory) {
  std::string left;
  for (auto component = kComponents.rbegin(); component != kComponents.rend(); ++component) {
    const auto id = recorded(directory, *component);
    if (!id) continue;
    if (end_process(*id, std::chrono::seconds(3))) {
      std::error_code ignored;
      fs::remove(pid_file(directory, *component), ignored);
    } else {
      left += " " + std::string(name_of(*component)) + " (pid " + std::to_string(id->pid) + ")";
    }
  }
  if (left.empty()) return {};
  return std::unexpected("could not be ended:" + left);
}

Result<void> TestCluster::restart(Component component, Milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  if (state_->attached) return std::unexpected("a cluster that was attached to cannot be restarted");
  const std::string name(name_of(component));
  if (!end_process(state_->process(component), std::chrono::seconds(10)))
    return std::unexpected(name + " cannot be ended");
  for (const int port : state_->ports_of(component))
    if (!wait_until(left_until(deadline), [&] { return !port_answers(port); }))
      return std::unexpected(name + ": port " + std::to_string(port) + " is still in use");
  if (auto done = state_->launch(component); !done) return done;
  if (auto done = state_->await(component, deadline); !done) return done;
  if (component == Component::kEtcd && running(Component::kApiServer))
    return state_->await(Component::kApiServer, deadline);
  return {};
}

bool TestCluster::kill(Component component, int signal) {
  const ProcessId id = state_->process(component);
  if (!is_alive(id)) return false;
  if (signal == SIGKILL) return end_process(id, Milliseconds(0));
  if (signal == SIGSTOP) return stop_process(id);
  return ::kill(id.pid, signal) == 0;
}

}  // namespace muster::testcluster
