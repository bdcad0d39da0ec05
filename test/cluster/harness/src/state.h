// What a TestCluster holds: its directory, ports, processes.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "http.h"
#include "muster/testcluster/testcluster.h"

namespace muster::testcluster {

inline constexpr std::array kComponents = {Component::kEtcd, Component::kApiServer,
                                           Component::kControllerManager, Component::kKwok};

struct Ports {
  int etcd = 0;
  int etcd_peer = 0;
  int apiserver = 0;
  int controller_manager = 0;
};

struct TestCluster::State {
  Options options;
  std::filesystem::path directory;
  bool remove_directory = false;
  bool attached = false;
  bool stopped = false;
  Ports ports;
  std::array<ProcessId, kComponents.size()> processes;
  std::unique_ptr<HttpClient> http;

  ProcessId& process(Component component) { return processes[static_cast<std::size_t>(component)]; }
  std::filesystem::path pki(const std::string& file) const { return directory / "pki" / file; }
  std::filesystem::path log(Component component) const {
    return directory / "logs" / (std::string(name_of(component)) + ".log");
  }
  std::string server_url() const { return "https://127.0.0.1:" + std::to_string(ports.apiserver); }

  Result<void> prepare_directory();
  Result<void> choose_ports();
  Result<void> write_pki();
  Result<void> write_configs();
  Result<void> write_kubeconfig(const std::string& file, const std::string& user_yaml) const;
  std::vector<std::string> arguments(Component component) const;
  std::vector<int> ports_of(Component component) const;
  Result<void> launch(Component component);
  // Waits until `component` is useful, or fails as soon as it has ended.
  Result<void> await(Component component, std::chrono::steady_clock::time_point deadline);
  Result<void> await_default_service_account(std::chrono::steady_clock::time_point deadline);
  Result<void> launch_all(std::chrono::steady_clock::time_point deadline);
  bool api_ready();
  void connect();
  void stop();
};

Result<void> write_file(const std::filesystem::path& path, const std::string& text);
std::string read_file(const std::filesystem::path& path);
// The process recorded in <directory>/<component>.pid.
std::optional<ProcessId> recorded(const std::filesystem::path& directory, Component component);

}  // namespace muster::testcluster
