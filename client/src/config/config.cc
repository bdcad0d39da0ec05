#include "muster/client/config.h"

#include <openssl/crypto.h>
#include <spdlog/spdlog.h>
#include <yaml-cpp/yaml.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>

#include "http/url.h"
#include "muster/common/base64.h"

namespace muster::client {

namespace fs = std::filesystem;

namespace {

// Carries an Error out of nested reading; never leaves this file.
struct ConfigError {
  Error error;
};

[[noreturn]] void fail(std::string message) {
  Error error;
  error.code = ErrorCode::kConfig;
  error.message = std::move(message);
  throw ConfigError{std::move(error)};
}

// One mapping of a kubeconfig, with its place for messages.
class Section {
 public:
  Section(const YAML::Node& node, fs::path file, std::string path)
      : node_(node), file_(std::move(file)), path_(std::move(path)) {
    if (node_.IsDefined() && !node_.IsNull() && !node_.IsMap()) fail(place() + ": is not a mapping");
  }

  bool has(const char* key) const { return node_.IsMap() && node_[key].IsDefined() && !node_[key].IsNull(); }
  YAML::Node raw(const char* key) const { return has(key) ? node_[key] : YAML::Node(); }
  Section section(const char* key) const { return Section(raw(key), file_, path_ + "." + key); }

  std::string text(const char* key) const {
    if (!has(key)) return {};
    const YAML::Node value = node_[key];
    if (!value.IsScalar()) fail(place(key) + ": is not a string");
    return value.Scalar();
  }
  std::string required(const char* key) const {
    std::string value = text(key);
    if (value.empty()) fail(place(key) + ": is required");
    return value;
  }
  bool flag(const char* key) const {
    const std::string value = text(key);
    if (value.empty() || value == "false") return false;
    if (value != "true") fail(place(key) + ": is \"" + value + "\", allowed: true, false");
    return true;
  }
  std::vector<std::string> texts(const char* key) const {
    std::vector<std::string> out;
    if (!has(key)) return out;
    const YAML::Node list = node_[key];
    if (!list.IsSequence()) fail(place(key) + ": is not a list");
    for (const YAML::Node& item : list) {
      if (!item.IsScalar()) fail(place(key) + ": is not a list of strings");
      out.push_back(item.Scalar());
    }
    return out;
  }
  // Relative paths are relative to the file that names them.
  fs::path file(const char* key) const {
    const std::string value = text(key);
    return value.empty() ? fs::path{} : (file_.parent_path() / value).lexically_normal();
  }
  // `data_key` (base64) goes before `file_key`, as kubectl has it.
  Material material(const char* data_key, const char* file_key) const {
    Material out;
    if (has(data_key)) {
      out.field = place(data_key);
      auto decoded = common::decode_base64(text(data_key));
      if (!decoded) fail(out.field + ": is not base64");
      if (!decoded->empty()) out.data = Secret(*std::move(decoded));
    }
    if (!out.configured() && has(file_key)) {
      out.field = place(file_key);
      out.file = file(file_key);
    }
    return out;
  }

  std::string place(const char* key = nullptr) const {
    return file_.string() + ": " + path_ + (key != nullptr ? std::string{"."} + key : std::string{});
  }
  const fs::path& source() const { return file_; }

 private:
  YAML::Node node_;
  fs::path file_;
  std::string path_;
};

// All files as one.
struct Merged {
  std::map<std::string, Section> clusters, users, contexts;
  std::string current_context;
  std::vector<fs::path> files;

  void add(const fs::path& path) {
    YAML::Node root;
    try {
      root = YAML::LoadFile(path.string());
    } catch (const YAML::BadFile&) {
      fail(path.string() + ": cannot be read");
    } catch (const YAML::Exception& e) {
      fail(path.string() + ": line " + std::to_string(e.mark.line + 1) + ": " + e.msg);
    }
    files.push_back(path);
    if (!root.IsDefined() || root.IsNull()) return;
    if (!root.IsMap())
      fail(path.string() + ": is not a kubeconfig (a mapping with clusters, users and contexts)");
    Section top(root, path, "kubeconfig");
    if (current_context.empty()) current_context = top.text("current-context");
    add_named(root, path, "clusters", "cluster", clusters);
    add_named(root, path, "users", "user", users);
    add_named(root, path, "contexts", "context", contexts);
  }

  static void add_named(const YAML::Node& root, const fs::path& path, const char* list_key, const char* key,
                        std::map<std::string, Section>& into) {
    const YAML::Node list = root[list_key];
    if (!list.IsDefined() || list.IsNull()) return;
    if (!list.IsSequence()) fail(path.string() + ": " + list_key + ": is not a list");
    std::size_t index = 0;
    for (const YAML::Node& item : list) {
      const Section named(item, path, std::string{list_key} + "[" + std::to_string(index++) + "]");
      const std::string name = named.required("name");
      into.emplace(name, Section(named.raw(key), path, std::string{list_key} + "[" + name + "]." + key));
    }
  }

  std::string names() const {
    std::string out;
    for (const fs::path& file : files) out += (out.empty() ? "" : ", ") + file.string();
    return out.empty() ? "no kubeconfig" : out;
  }

  const Section& find(const std::map<std::string, Section>& in, const char* what, const std::string& name,
                      const std::string& asked_by) const {
    auto it = in.find(name);
    if (it != in.end()) return it->second;
    std::string known;
    for (const auto& [key, section] : in) known += (known.empty() ? "" : ", ") + key;
    fail(asked_by + ": " + what + " \"" + name + "\" is not in " + names() +
         (known.empty() ? "" : "; there are: " + known));
  }
};

void read_cluster(const Section& cluster, ClientConfig& config) {
  config.server = cluster.required("server");
  if (!Url::parse(config.server)) {
    fail(cluster.place("server") + ": is \"" + config.server +
         "\", must begin with https:// or http:// and name a host, such as https://10.0.0.1:6443");
  }
  while (config.server.ends_with('/')) config.server.pop_back();
  config.tls_server_name = cluster.text("tls-server-name");
  config.proxy_url = cluster.text("proxy-url");
  config.ca = cluster.material("certificate-authority-data", "certificate-authority");
  config.insecure_skip_tls_verify = cluster.flag("insecure-skip-tls-verify");
  if (config.insecure_skip_tls_verify) {
    if (config.ca.configured()) {
      fail(cluster.place("insecure-skip-tls-verify") + ": is true, and so " + config.ca.field +
           " must not be set");
    }
    spdlog::warn("{}: the identity of {} is not verified", cluster.place("insecure-skip-tls-verify"),
                 config.server);
  }
  if (config.server.starts_with("http://")) {
    spdlog::warn("{}: {} is not encrypted", cluster.place("server"), config.server);
  }
}

ExecPlugin read_exec(const Section& exec, const Section& cluster, const ClientConfig& config) {
  ExecPlugin out;
  out.field = exec.place();
  out.api_version = exec.required("apiVersion");
  if (out.api_version != "client.authentication.k8s.io/v1" &&
      out.api_version != "client.authentication.k8s.io/v1beta1") {
    fail(exec.place("apiVersion") + ": is \"" + out.api_version +
         "\", allowed: client.authentication.k8s.io/v1, client.authentication.k8s.io/v1beta1");
  }
  out.command = exec.required("command");
  if (out.command.find('/') != std::string::npos) out.command = exec.file("command").string();
  out.args = exec.texts("args");
  const YAML::Node env = exec.raw("env");
  if (env.IsDefined() && !env.IsNull() && !env.IsSequence()) fail(exec.place("env") + ": is not a list");
  for (std::size_t i = 0; env.IsSequence() && i < env.size(); ++i) {
    const Section item(env[i], exec.source(), "env[" + std::to_string(i) + "]");
    out.env.emplace_back(item.required("name"), item.text("value"));
  }
  const std::string mode = exec.text("interactiveMode");
  if (mode == "Always")
    fail(exec.place("interactiveMode") +
         ": is Always, but there is no terminal; allowed: Never, IfAvailable");
  if (!mode.empty() && mode != "Never" && mode != "IfAvailable") {
    fail(exec.place("interactiveMode") + ": is \"" + mode + "\", allowed: Never, IfAvailable");
  }
  out.install_hint = exec.text("installHint");
  out.provide_cluster_info = exec.flag("provideClusterInfo");
  if (out.provide_cluster_info) {
    nlohmann::json info{{"server", config.server}};
    if (!config.tls_server_name.empty()) info["tls-server-name"] = config.tls_server_name;
    if (!config.proxy_url.empty()) info["proxy-url"] = config.proxy_url;
    if (config.insecure_skip_tls_verify) info["insecure-skip-tls-verify"] = true;
    std::string ca = config.ca.data.reveal();
    if (ca.empty() && !config.ca.file.empty()) {
      std::ifstream in(config.ca.file, std::ios::binary);
      if (!in)
        fail(cluster.place("certificate-authority") + ": " + config.ca.file.string() + " cannot be read");
      ca.assign(std::istreambuf_iterator<char>(in), {});
    }
    if (!ca.empty()) info["certificate-authority-data"] = common::encode_base64(ca);
    try {
      out.cluster_info = info.dump();
    } catch (const nlohmann::json::exception&) {
      fail(cluster.place() + ": is not UTF-8, as " + exec.place("provideClusterInfo") + " needs it");
    }
  }
  return out;
}

void read_impersonation(const Section& user, ClientConfig& config) {
  if (user.has("as")) config.impersonate.emplace_back("Impersonate-User", user.text("as"));
  if (user.has("as-uid")) config.impersonate.emplace_back("Impersonate-Uid", user.text("as-uid"));
  for (std::string& group : user.texts("as-groups"))
    config.impersonate.emplace_back("Impersonate-Group", std::move(group));
  if (!config.impersonate.empty() && !user.has("as"))
    fail(user.place("as") + ": is required with as-uid and as-groups");
  if (user.has("as-user-extra")) fail(user.place("as-user-extra") + ": is not supported");
}

void read_user(const Section& user, const Section& cluster, ClientConfig& config) {
  config.client_certificate = user.material("client-certificate-data", "client-certificate");
  config.client_key = user.material("client-key-data", "client-key");
  if (config.client_certificate.configured() != config.client_key.configured()) {
    fail(user.place() + ": client certificate and client key are only of use together");
  }
  config.token.data = Secret(user.text("token"));
  config.token.file = user.file("tokenFile");
  config.token.field = user.place(config.token.file.empty() ? "token" : "tokenFile");
  config.username = user.text("username");
  config.password = Secret(user.text("password"));
  if (user.has("auth-provider"))
    fail(user.place("auth-provider") + ": is no longer part of Kubernetes; use exec");
  if (user.has("exec")) {
    if (config.token.configured() || !config.username.empty()) {
      fail(user.place("exec") + ": must not be set together with token, tokenFile or username");
    }
    config.exec = read_exec(user.section("exec"), cluster, config);
  }
  read_impersonation(user, config);
}

std::vector<fs::path> split_paths(const std::string& list) {
  std::vector<fs::path> out;
  std::istringstream in(list);
  for (std::string item; std::getline(in, item, ':');) {
    if (!item.empty()) out.emplace_back(item);
  }
  return out;
}

std::vector<fs::path> kubeconfig_files(const KubeconfigOptions& options) {
  if (!options.path.empty()) return {options.path};
  if (auto list = options.getenv("KUBECONFIG"); list && !list->empty()) return split_paths(*list);
  if (auto home = options.getenv("HOME"); home && !home->empty())
    return {fs::path{*home} / ".kube" / "config"};
  return {};
}

ClientConfig read_kubeconfig(const KubeconfigOptions& options) {
  Merged merged;
  for (const fs::path& file : kubeconfig_files(options)) {
    std::error_code ignored;
    if (options.path.empty() && !fs::exists(file, ignored)) continue;
    merged.add(fs::absolute(file));
  }
  if (merged.files.empty())
    fail("no kubeconfig: none named, $KUBECONFIG names no file that exists, and there is no ~/.kube/config");
  const std::string name = options.context.empty() ? merged.current_context : options.context;
  if (name.empty()) fail(merged.names() + ": current-context: is not set, and no context was asked for");
  const Section& context = merged.find(merged.contexts, "context", name,
                                       options.context.empty() ? "current-context" : "the context asked for");
  ClientConfig config;
  const Section& cluster =
      merged.find(merged.clusters, "cluster", context.required("cluster"), context.place("cluster"));
  read_cluster(cluster, config);
  if (const std::string user = context.text("user"); !user.empty()) {
    read_user(merged.find(merged.users, "user", user, context.place("user")), cluster, config);
  }
  config.ns = context.has("namespace") ? context.text("namespace") : "default";
  config.origin = "context " + name + " of " + context.source().string();
  return config;
}

ClientConfig read_in_cluster(const InClusterOptions& options) {
  const auto host = options.getenv("KUBERNETES_SERVICE_HOST");
  const auto port = options.getenv("KUBERNETES_SERVICE_PORT");
  if (!host || host->empty() || !port || port->empty()) {
    fail("not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not both set");
  }
  ClientConfig config;
  const bool v6 = host->find(':') != std::string::npos;
  config.server = "https://" + (v6 ? "[" + *host + "]" : *host) + ":" + *port;
  config.token.file = fs::absolute(options.service_account / "token");
  config.token.field = "service account token";
  config.ca.file = fs::absolute(options.service_account / "ca.crt");
  config.ca.field = "service account ca.crt";
  std::error_code ignored;
  if (!fs::exists(config.token.file, ignored)) {
    fail("not in a cluster: " + config.token.file.string() +
         " does not exist (is automountServiceAccountToken false?)");
  }
  std::ifstream ns(options.service_account / "namespace");
  std::getline(ns, config.ns);
  if (config.ns.empty()) config.ns = "default";
  config.origin = "in-cluster";
  return config;
}

template <class F>
Result<ClientConfig> caught(F read) {
  try {
    return read();
  } catch (ConfigError& e) {
    return std::unexpected(std::move(e.error));
  } catch (const YAML::Exception& e) {
    Error error;
    error.code = ErrorCode::kConfig;
    error.message = std::string{"kubeconfig: "} + e.what();
    return std::unexpected(std::move(error));
  }
}

}  // namespace

Secret::Secret(Secret&& other) noexcept : text_(std::move(other.text_)) {
  other.wipe();
}

Secret& Secret::operator=(const Secret& other) {
  if (this == &other) return *this;
  wipe();
  text_ = other.text_;
  return *this;
}

Secret& Secret::operator=(Secret&& other) noexcept {
  if (this == &other) return *this;
  wipe();
  text_ = std::move(other.text_);
  other.wipe();
  return *this;
}

// The whole buffer: an earlier value may have been longer, and a short one stays in the string that was moved
// from.
void Secret::wipe() {
  text_.resize(text_.capacity());
  OPENSSL_cleanse(text_.data(), text_.size());
  text_.clear();
}

std::ostream& operator<<(std::ostream& out, const Secret& secret) {
  return out << (secret.empty() ? "" : "[secret]");
}

std::optional<std::string> process_env(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return std::string{value};
}

Result<ClientConfig> load_kubeconfig(const KubeconfigOptions& options) {
  return caught([&] { return read_kubeconfig(options); });
}

Result<ClientConfig> load_in_cluster(const InClusterOptions& options) {
  return caught([&] { return read_in_cluster(options); });
}

Result<ClientConfig> load_config(const KubeconfigOptions& options) {
  const bool named = !options.path.empty() || !options.getenv("KUBECONFIG").value_or("").empty();
  if (!named) {
    InClusterOptions in_cluster;
    in_cluster.getenv = options.getenv;
    if (options.getenv("KUBERNETES_SERVICE_HOST")) return load_in_cluster(in_cluster);
  }
  return load_kubeconfig(options);
}

}  // namespace muster::client
