#include "muster/testcluster/real_node.h"

#include <sched.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "state.h"

namespace muster::testcluster {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kCgroups = "/sys/fs/cgroup";
constexpr const char* kServiceAddress =
    "10.96.0.1";  // of the Service kubernetes: the first of the API server's range
constexpr const char* kNodeBridge = "muster0";

// Its output, less the last line's end.
Result<std::string> must(std::vector<std::string> arguments) {
  const std::string program = arguments[0];
  ProcessSpec spec;
  spec.arguments = std::move(arguments);
  auto result = run_command(spec);
  if (!result) return std::unexpected(std::move(result.error()));
  if (!result->ok()) return std::unexpected(program + ": " + result->err);
  if (result->out.ends_with('\n')) result->out.pop_back();
  return std::move(result->out);
}

// Where the CNI plugins are: Debian's place, or the usual one.
fs::path cni_plugins() {
  for (const char* place : {"/usr/lib/cni", "/opt/cni/bin"})
    if (fs::exists(fs::path(place) / "bridge")) return place;
  return {};
}

// The roots of the cgroup hierarchies that a kubelet and runc use: one with version 2, else one for
// each controller.
std::vector<fs::path> cgroup_hierarchies() {
  std::vector<fs::path> result;
  std::error_code ignored;
  if (fs::exists(fs::path(kCgroups) / "cgroup.controllers", ignored)) return {kCgroups};
  for (const auto& entry : fs::directory_iterator(kCgroups, ignored))
    if (entry.is_directory() && !entry.is_symlink() && fs::exists(entry.path() / "cgroup.procs"))
      result.push_back(entry.path());
  return result;
}

Result<void> make_cgroup(const std::string& name) {
  for (const fs::path& root : cgroup_hierarchies()) {
    // Version 1: a new cpuset has neither CPUs nor memory nodes unless it takes its parent's.
    if (fs::exists(root / "cpuset.cpus") && fs::exists(root / "cgroup.clone_children"))
      std::ofstream(root / "cgroup.clone_children") << "1";
    std::error_code error;
    fs::create_directory(root / name, error);
    if (error)
      return std::unexpected("cannot make the cgroup " + (root / name).string() + ": " + error.message());
  }
  return {};
}

// Removes a cgroup and those in it; false if one of them still has processes.
bool remove_cgroup(const fs::path& group) {
  std::error_code ignored;
  if (!fs::exists(group, ignored)) return true;
  for (const auto& entry : fs::directory_iterator(group, ignored))
    if (entry.is_directory(ignored)) remove_cgroup(entry.path());
  return ::rmdir(group.c_str()) == 0 || errno == ENOENT;
}

std::string containerd_config(const RealNodeOptions& options, const fs::path& directory) {
  std::ostringstream text;
  text << "version = 2\n"
       << "[plugins.\"io.containerd.grpc.v1.cri\"]\n"
       << "sandbox_image = \"" << options.sandbox_image << "\"\n"
       << "disable_apparmor = true\n"
       << "restrict_oom_score_adj = true\n"
       << "[plugins.\"io.containerd.grpc.v1.cri\".containerd]\n"
       << "snapshotter = \"SNAPSHOTTER\"\n"  // node.sh knows which
       << "[plugins.\"io.containerd.grpc.v1.cri\".cni]\n"
       << "bin_dir = \"" << cni_plugins().string() << "\"\n"
       << "conf_dir = \"" << (directory / "cni").string() << "\"\n";
  return text.str();
}

std::string cni_config(const std::string& bridge, int number) {
  return json{{"cniVersion", "0.4.0"},
              {"name", "pods"},
              {"plugins",
               {{{"type", "bridge"},
                 {"bridge", bridge},
                 {"isGateway", true},
                 {"ipMasq", false},
                 {"ipam",
                  {{"type", "host-local"},
                   {"ranges", {{{{"subnet", "10.201." + std::to_string(number) + ".0/24"}}}}},
                   {"routes", {{{"dst", "0.0.0.0/0"}}}}}}}}}}
      .dump();
}

// JSON is YAML.
std::string kubelet_config(const RealNodeOptions& options, const std::string& address,
                           const std::string& cgroup, const fs::path& authority, const fs::path& directory) {
  json config{{"apiVersion", "kubelet.config.k8s.io/v1beta1"},
              {"kind", "KubeletConfiguration"},
              {"address", address},
              {"port", 10250 + options.number},
              {"healthzPort", 0},
              {"authentication",
               {{"anonymous", {{"enabled", false}}},
                {"webhook", {{"enabled", false}}},
                {"x509", {{"clientCAFile", authority.string()}}}}},
              {"authorization", {{"mode", "AlwaysAllow"}}},
              {"cgroupDriver", "cgroupfs"},
              {"cgroupRoot", "/" + cgroup},
              {"failCgroupV1", false},
              {"failSwapOn", false},
              {"containerRuntimeEndpoint", "unix:///run/containerd/containerd.sock"},
              {"resolvConf", (directory / "resolv.conf").string()},
              {"makeIPTablesUtilChains", false},
              // The machine's disk and images are not this node's to watch over.
              {"evictionHard", {{"memory.available", "10Mi"}}},
              {"imageGCHighThresholdPercent", 100},
              {"nodeStatusUpdateFrequency", "2s"},
              {"syncFrequency", "5s"},
              {"logging", {{"verbosity", 1}}}};
  if (!options.kubelet.empty()) config.merge_patch(json::parse(options.kubelet));
  return config.dump(2);
}

}  // namespace

Result<void> enter_node_network() {
  if (::geteuid() != 0) return std::unexpected("a real node cannot run here: not root");
  for (const char* program : {"containerd", "ctr", "runc", "ip", "unshare", "mount"}) {
    ProcessSpec spec;
    spec.arguments = {"sh", "-c", std::string("command -v ") + program};
    const auto found = run_command(spec);
    if (!found || !found->ok())
      return std::unexpected(std::string("a real node cannot run here: no program ") + program +
                             " (scripts/install-deps.sh --node)");
  }
  if (cni_plugins().empty())
    return std::unexpected("a real node cannot run here: no CNI plugins (scripts/install-deps.sh --node)");
  if (cgroup_hierarchies().empty())
    return std::unexpected(std::string("a real node cannot run here: no cgroups at ") + kCgroups);
  if (::unshare(CLONE_NEWNET) != 0)
    return std::unexpected(std::string("a real node cannot run here: no network namespace: ") +
                           std::strerror(errno));
  for (const auto& command : std::vector<std::vector<std::string>>{
           {"ip", "link", "set", "lo", "up"},
           {"ip", "address", "add", std::string(kServiceAddress) + "/32", "dev", "lo"},
           {"ip", "link", "add", kNodeBridge, "type", "bridge"},
           {"ip", "link", "set", kNodeBridge, "up"}})
    if (auto done = must(command); !done)
      return std::unexpected("a real node cannot run here: " + done.error());
  std::ofstream("/proc/sys/net/ipv4/ip_forward") << "1";  // between nodes' pods; of this namespace only
  return {};
}

Options for_real_nodes(Options options) {
  options.apiserver_port = 443;
  options.apiserver_flags.push_back("--bind-address=0.0.0.0");
  return options;
}

Result<RealNode> RealNode::start(TestCluster& cluster, const RealNodeOptions& options, Milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const std::string address = "10.200.0." + std::to_string(10 + options.number);
  const auto plugin = must({std::string(MUSTER_TESTCLUSTER_SOURCE_DIR) + "/scripts/build-controlplane.sh",
                            "--gpu-plugin", "--path"});
  if (!plugin) return std::unexpected(plugin.error());
  RealNode node;
  node.name_ = options.name;
  node.directory_ = cluster.directory() / ("node-" + options.name);
  node.cgroup_ = "muster-" + std::to_string(::getpid()) + "-" + options.name;
  node.bridge_ = "pods" + std::to_string(options.number);
  std::error_code error;
  fs::remove_all(node.directory_, error);  // of a node of that name that was stopped
  fs::create_directories(node.directory_ / "cni", error);
  if (error) return std::unexpected("cannot make " + node.directory_.string() + ": " + error.message());
  const auto kubeconfig = cluster.certificate_kubeconfig("node-" + options.name + ".kubeconfig",
                                                         "system:node:" + options.name, {"system:nodes"});
  if (!kubeconfig) return std::unexpected(kubeconfig.error());
  for (const auto& [file, text] : std::vector<std::pair<std::string, std::string>>{
           {"containerd.toml", containerd_config(options, node.directory_)},
           {"cni/10-pods.conflist", cni_config(node.bridge_, options.number)},
           {"kubelet.yaml",
            kubelet_config(options, address, node.cgroup_, cluster.ca_certificate(), node.directory_)},
           {"resolv.conf", ""}})
    if (auto written = write_file(node.directory_ / file, text); !written)
      return std::unexpected(written.error());
  if (auto made = make_cgroup(node.cgroup_); !made) return std::unexpected(made.error());
  // "replace", so that a node can come back at its address.
  if (auto done = must({"ip", "address", "replace", address + "/24", "dev", kNodeBridge}); !done)
    return std::unexpected(done.error());

  std::map<std::string, std::string> labels = options.labels;
  if (options.gpus > 0) {
    labels.emplace("nvidia.com/gpu.product", options.model);
    labels.emplace("nvidia.com/gpu.memory", std::to_string(options.gpu_memory_mib));
  }
  std::string label_list;
  for (const auto& [key, value] : labels) label_list += (label_list.empty() ? "" : ",") + key + "=" + value;
  std::string numa;
  for (const int of : options.numa) numa += (numa.empty() ? "" : ",") + std::to_string(of);
  ProcessSpec spec;
  spec.arguments = {
      "unshare",      "--mount",
      "--pid",        "--fork",
      "--kill-child", "--mount-proc",
      "bash",         std::string(MUSTER_TESTCLUSTER_SOURCE_DIR) + "/test/cluster/harness/node.sh"};
  spec.environment = {{"NODE_DIRECTORY", node.directory_.string()},
                      {"NODE_CONTROLPLANE", cluster.controlplane().string()},
                      {"NODE_GPU_PLUGIN", *plugin},
                      {"NODE_KUBECONFIG", kubeconfig->string()},
                      {"NODE_NAME", options.name},
                      {"NODE_ADDRESS", address},
                      {"NODE_LABELS", label_list},
                      {"NODE_GPUS", std::to_string(options.gpus)},
                      {"NODE_NUMA", numa},
                      {"NODE_CDI", options.cdi ? "true" : "false"},
                      {"NODE_CONTAINERD", options.containerd.string()}};
  for (const fs::path& image : options.images) spec.arguments.push_back(image.string());
  spec.log = node.directory_ / "node.log";
  const auto init = spawn(spec);
  if (!init) return std::unexpected(init.error());
  node.init_ = *init;

  const auto ready = [&] {
    const auto answer = cluster.request("GET", "/api/v1/nodes/" + options.name);
    if (!answer || !answer->ok()) return false;
    const json object = json::parse(answer->body, nullptr, false);
    if (!object.is_object()) return false;
    const json status = object.value("status", json::object());
    if (options.gpus > 0 && status.value("/allocatable/nvidia.com~1gpu"_json_pointer, std::string()) !=
                                std::to_string(options.gpus))
      return false;
    const json conditions = status.value("conditions", json::array());
    return std::any_of(conditions.begin(), conditions.end(), [](const json& condition) {
      return condition.value("type", "") == "Ready" && condition.value("status", "") == "True";
    });
  };
  const auto left = std::chrono::duration_cast<Milliseconds>(deadline - std::chrono::steady_clock::now());
  bool is_ready = false;
  wait_until(left, [&] { return (is_ready = ready()) || !node.running(); }, Milliseconds(100));
  if (is_ready) return node;
  std::string logs;
  for (const char* log : {"node.log", "containerd.log", "kubelet.log", "gpu-plugin.log"})
    logs += std::string("\n--- the end of ") + log + ":\n" + tail(node.directory_ / log, 10);
  return std::unexpected("node " + options.name + (node.running() ? " is not Ready in time" : " ended") +
                         logs);
}

RealNode::RealNode(RealNode&& other) noexcept {
  *this = std::move(other);
}
RealNode& RealNode::operator=(RealNode&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(directory_, other.directory_);
  std::swap(cgroup_, other.cgroup_);
  std::swap(bridge_, other.bridge_);
  std::swap(init_, other.init_);
  return *this;
}
RealNode::~RealNode() {
  stop();
}

std::vector<pid_t> RealNode::processes(const std::string& program) const {
  std::vector<pid_t> result;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string pid = entry.path().filename();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    std::string name;
    std::getline(std::ifstream(entry.path() / "comm") >> std::ws, name);
    if (name != program) continue;
    std::ostringstream groups;
    groups << std::ifstream(entry.path() / "cgroup").rdbuf();
    if (groups.str().find("/" + cgroup_ + "/") != std::string::npos) result.push_back(std::stoi(pid));
  }
  return result;
}

bool RealNode::stop() {
  if (cgroup_.empty()) return true;
  // unshare has told the kernel that its child, the first process of the pid namespace, ends with it; and
  // with that one all others.
  bool gone = end_process(init_, Milliseconds(0));
  for (const fs::path& root : cgroup_hierarchies())
    gone = wait_until(std::chrono::seconds(20), [&] { return remove_cgroup(root / cgroup_); }) && gone;
  ProcessSpec remove;
  remove.arguments = {"ip", "link", "delete", bridge_};
  [[maybe_unused]] const auto removed = run_command(remove);  // There is none if it never had a pod.
  init_ = {};
  cgroup_.clear();
  return gone;
}

}  // namespace muster::testcluster
