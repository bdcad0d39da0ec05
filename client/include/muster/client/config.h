// Where an API server is and who we are. It comes from kubeconfig files, read as kubectl reads them, or from
// the service account of a pod. It is read once. Secrets that live in files stay there; Credentials reads
// them again and again.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/client/error.h"

namespace muster::client {

// Text that never prints: it has no operator to string, and streams and logs show "[secret]". It is wiped
// when it is destroyed, moved from or assigned to.
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string text) : text_(std::move(text)) {}
  Secret(const Secret&) = default;
  Secret(Secret&& other) noexcept;
  Secret& operator=(const Secret& other);
  Secret& operator=(Secret&& other) noexcept;
  ~Secret() { wipe(); }

  const std::string& reveal() const { return text_; }
  bool empty() const { return text_.empty(); }
  bool operator==(const Secret&) const = default;
  friend std::ostream& operator<<(std::ostream& out, const Secret& secret);

 private:
  void wipe();

  std::string text_;
};

// PEM or token text. It is given inline, or in a file that may be replaced at any time. If it is given in
// neither way, it is not configured.
struct Material {
  Secret data;
  std::filesystem::path file;  // absolute
  std::string field;  // where it was configured, for messages: "/etc/kubeconfig: users[ann].user.tokenFile"

  bool configured() const { return !data.empty() || !file.empty(); }
};

// client.authentication.k8s.io: a program that prints an ExecCredential.
struct ExecPlugin {
  std::string api_version;  // "client.authentication.k8s.io/v1" or ".../v1beta1"
  std::string command;      // absolute, or to be found in PATH
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> env;  // in addition to ours
  bool provide_cluster_info = false;
  std::string cluster_info;  // JSON of spec.cluster, where asked for
  std::string install_hint;
  std::string field;  // as in Material
};

struct ClientConfig {
  std::string server;           // "https://host:port", maybe with a path; no slash at the end
  std::string tls_server_name;  // empty: the server's host
  std::string proxy_url;        // empty: as HTTPS_PROXY and NO_PROXY say
  // Only ever true where a kubeconfig says insecure-skip-tls-verify: true in so many words.
  bool insecure_skip_tls_verify = false;
  Material ca;  // not configured: the system's

  Material client_certificate, client_key;
  Material token;
  std::string username;  // basic authentication, for proxies that ask for it
  Secret password;
  std::optional<ExecPlugin> exec;
  std::vector<std::pair<std::string, std::string>> impersonate;  // headers Impersonate-…

  std::string ns;      // the context's namespace; "default" where it names none
  std::string origin;  // for logs: "context c of /etc/kubeconfig", "in-cluster"
};

using GetEnv = std::function<std::optional<std::string>(const std::string& name)>;
std::optional<std::string> process_env(const std::string& name);

struct KubeconfigOptions {
  // --kubeconfig: this file alone. Empty: those of $KUBECONFIG, else ~/.kube/config.
  std::filesystem::path path;
  std::string context;  // empty: current-context
  GetEnv getenv = process_env;
};

// Merges several files as kubectl does: the first file that names a cluster, user, context or current-context
// wins. Files that do not exist are passed over, unless `path` names one. Errors are kConfig and name file
// and field.
Result<ClientConfig> load_kubeconfig(const KubeconfigOptions& options);

struct InClusterOptions {
  std::filesystem::path service_account = "/var/run/secrets/kubernetes.io/serviceaccount";
  GetEnv getenv = process_env;
};
// Reads KUBERNETES_SERVICE_HOST and _PORT and the mounted service account. kConfig if there is none.
Result<ClientConfig> load_in_cluster(const InClusterOptions& options);

// What most programs want: the kubeconfig that was named, or that of $KUBECONFIG; else the pod's service
// account; else ~/.kube/config.
Result<ClientConfig> load_config(const KubeconfigOptions& options);

}  // namespace muster::client
