// What a cluster's directory holds before its processes start: ports, certificates,
// kubeconfigs, configurations.
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "muster/testcluster/loopback.h"
#include "pki.h"
#include "state.h"

namespace muster::testcluster {
namespace {

namespace fs = std::filesystem;

std::string user_yaml(const KeyPair& client) {
  return "    client-certificate-data: " + base64(client.certificate) +
         "\n    client-key-data: " + base64(client.private_key) + "\n";
}

fs::path stages_file() {
  if (const char* chosen = std::getenv("MUSTER_KWOK_STAGES")) return chosen;
  return fs::path(MUSTER_TESTCLUSTER_SOURCE_DIR) / "test/cluster/kwok/stages.yaml";
}

}  // namespace

Result<void> write_file(const fs::path& path, const std::string& text) {
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  std::error_code ignored;
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write, ignored);
  stream << text;
  stream.close();
  if (!stream) return std::unexpected("cannot write " + path.string());
  return {};
}

std::string read_file(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

Result<void> TestCluster::State::prepare_directory() {
  std::error_code error;
  if (options.directory.empty()) {
    std::string pattern = (fs::temp_directory_path(error) / "muster-cluster-XXXXXX").string();
    if (!::mkdtemp(pattern.data())) return std::unexpected("cannot make a directory like " + pattern);
    directory = pattern;
    remove_directory = !options.detach;
  } else {
    directory = fs::absolute(options.directory, error);
    for (const Component component : kComponents)
      if (const auto id = recorded(directory, component); id && is_alive(*id))
        return std::unexpected("a cluster runs in " + directory.string() + " already (" +
                               std::string(name_of(component)) + ", pid " + std::to_string(id->pid) + ")");
    for (const char* own : {"pki", "etcd", "logs", "kubectl-cache", "audit.log"})
      fs::remove_all(directory / own, error);
  }
  for (const char* own : {"pki", "etcd", "logs"}) {
    fs::create_directories(directory / own, error);
    if (error) return std::unexpected("cannot make " + (directory / own).string() + ": " + error.message());
    fs::permissions(directory / own, fs::perms::owner_all, error);  // etcd insists on it
  }
  return {};
}

Result<void> TestCluster::State::choose_ports() {
  std::array<int*, 4> wanted = {&ports.etcd, &ports.etcd_peer, &ports.apiserver, &ports.controller_manager};
  std::vector<int> taken;
  for (int* port : wanted) {
    *port =
        port == &ports.apiserver && options.apiserver_port != 0 ? options.apiserver_port : free_port(taken);
    if (*port == 0) return std::unexpected("no free port on 127.0.0.1");
    taken.push_back(*port);
  }
  return {};
}

Result<void> TestCluster::State::write_kubeconfig(const std::string& file,
                                                  const std::string& user_yaml) const {
  std::ostringstream text;
  text << "apiVersion: v1\nkind: Config\ncurrent-context: test\n"
       << "clusters:\n- name: test\n  cluster:\n    server: " << server_url()
       << "\n    certificate-authority-data: " << base64(read_file(pki("ca.crt"))) << "\n"
       << "users:\n- name: user\n  user:\n"
       << user_yaml << "contexts:\n- name: test\n  context: {cluster: test, user: user}\n";
  return write_file(directory / file, text.str());
}

Result<void> TestCluster::State::write_pki() {
  const auto authority = make_authority("muster-test-ca");
  if (!authority) return std::unexpected(authority.error());
  const auto server =
      make_server_certificate(*authority, {"DNS:localhost", "DNS:kubernetes", "DNS:kubernetes.default",
                                           "DNS:kubernetes.default.svc", "IP:127.0.0.1", "IP:10.96.0.1"});
  const auto accounts = make_key();
  if (!server) return std::unexpected(server.error());
  if (!accounts) return std::unexpected(accounts.error());
  for (const auto& [file, text] :
       std::vector<std::pair<std::string, std::string>>{{"ca.crt", authority->certificate},
                                                        {"ca.key", authority->private_key},
                                                        {"apiserver.crt", server->certificate},
                                                        {"apiserver.key", server->private_key},
                                                        {"service-accounts.key", accounts->private_key},
                                                        {"service-accounts.pub", accounts->public_key}})
    if (auto written = write_file(pki(file), text); !written) return written;

  struct User {
    std::string file, name;
    std::vector<std::string> groups;
  };
  for (const User& user : {User{"admin", "admin", {"system:masters"}},
                           User{"kube-controller-manager", "system:kube-controller-manager", {}},
                           User{"kwok", "kwok", {"system:masters"}}}) {
    const auto client = make_client_certificate(*authority, user.name, user.groups);
    if (!client) return std::unexpected(client.error());
    if (auto written = write_file(pki(user.file + ".crt"), client->certificate); !written) return written;
    if (auto written = write_file(pki(user.file + ".key"), client->private_key); !written) return written;
    if (auto written = write_kubeconfig(user.file + ".kubeconfig", user_yaml(*client)); !written)
      return written;
  }
  return {};
}

Result<fs::path> TestCluster::certificate_kubeconfig(const std::string& file, const std::string& user,
                                                     const std::vector<std::string>& groups) {
  const KeyPair authority{read_file(state_->pki("ca.crt")), read_file(state_->pki("ca.key")), {}};
  const auto client = make_client_certificate(authority, user, groups);
  if (!client) return std::unexpected(client.error());
  if (auto written = state_->write_kubeconfig(file, user_yaml(*client)); !written)
    return std::unexpected(written.error());
  return state_->directory / file;
}

Result<void> TestCluster::State::write_configs() {
  const std::string stages = read_file(stages_file());
  if (options.with_kwok && stages.empty())
    return std::unexpected("no KWOK stages in " + stages_file().string() +
                           " ($MUSTER_KWOK_STAGES names another file)");
  // 64 at a time: KWOK's default of 4 would make it the bottleneck of every test. Without `podsOnNodeSyncParallelism`
  // it never looks at pods that were there before their node, or before KWOK.
  std::ostringstream kwok;
  kwok << "apiVersion: config.kwok.x-k8s.io/v1alpha1\nkind: KwokConfiguration\nmetadata: {name: "
          "kwok}\noptions:\n"
       << "  manageAllNodes: false\n"
       << "  manageNodesWithAnnotationSelector: kwok.x-k8s.io/node=fake\n"
       << "  cidr: 10.64.0.0/12\n"
       << "  nodeIP: 10.0.0.1\n"
       << "  podPlayStageParallelism: 64\n  nodePlayStageParallelism: 64\n  nodeLeaseParallelism: 16\n"
       << "  podsOnNodeSyncParallelism: 4\n"
       << "  nodeLeaseDurationSeconds: " << options.node_lease_seconds << "\n"
       << "---\n"
       << stages;
  if (auto written = write_file(directory / "kwok.yaml", kwok.str()); !written) return written;
  if (auto written = write_file(directory / "audit-policy.yaml",
                                "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\n"
                                "rules: [{level: Metadata}]\n");
      !written)
    return written;
  return write_file(directory / "cluster",
                    std::to_string(ports.etcd) + " " + std::to_string(ports.etcd_peer) + " " +
                        std::to_string(ports.apiserver) + " " + std::to_string(ports.controller_manager) +
                        " " + options.controlplane.string() + "\n");
}

}  // namespace muster::testcluster
