// Kubeconfig files, in-cluster configuration, and credentials that rotate.
#include "muster/client/config.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>
#include <thread>

#include "muster/client/credentials.h"
#include "muster/client/object.h"
#include "muster/client/testing/virtual_world.h"

namespace muster::client {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::VirtualWorld;

struct ConfigTest : ::testing::Test {
  fs::path dir;
  std::map<std::string, std::string> env;

  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "muster-config-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir = pattern;
  }
  void TearDown() override { fs::remove_all(dir); }

  fs::path write(const std::string& name, const std::string& text) {
    fs::create_directories((dir / name).parent_path());
    std::ofstream(dir / name, std::ios::binary) << text;
    return dir / name;
  }
  KubeconfigOptions options(fs::path path = {}) {
    KubeconfigOptions out;
    out.path = std::move(path);
    out.getenv = [this](const std::string& name) -> std::optional<std::string> {
      auto it = env.find(name);
      if (it == env.end()) return std::nullopt;
      return it->second;
    };
    return out;
  }
  std::string error_of(const std::string& text) {
    const auto config = load_kubeconfig(options(write("config", text)));
    if (config) return "no error";
    EXPECT_EQ(config.error().code, ErrorCode::kConfig);
    return config.error().message;
  }
};

// Nothing of `needle` is left in the memory of `object`.
template <class T>
bool holds(const T& object, std::string_view needle) {
  return std::string_view(reinterpret_cast<const char*>(&object), sizeof object).contains(needle);
}

TEST(SecretTest, OldValueIsWipedWhenAnotherTakesItsPlace) {
  const std::string longer(100, 'l');
  Secret moved_to("hidden-s3cret");  // short: it lies in the object itself
  ASSERT_TRUE(holds(moved_to, "s3cret"));
  moved_to = Secret(longer);
  EXPECT_FALSE(holds(moved_to, "cret"));
  EXPECT_EQ(moved_to.reveal(), longer);

  Secret copied_to("hidden-s3cret");
  const Secret other("x");
  copied_to = other;
  EXPECT_FALSE(holds(copied_to, "cret"));
  EXPECT_EQ(copied_to, other);
  const Secret& same = copied_to;
  copied_to = same;
  EXPECT_EQ(copied_to.reveal(), "x");
}

TEST(SecretTest, NothingStaysInWhatWasMovedFrom) {
  Secret from("hidden-s3cret");
  Secret to(std::move(from));
  EXPECT_FALSE(
      holds(from, "cret"));  // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move): the point
  EXPECT_EQ(to.reveal(), "hidden-s3cret");
  Secret third;
  third = std::move(to);
  EXPECT_FALSE(
      holds(to, "cret"));  // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move): the point
  EXPECT_EQ(third.reveal(), "hidden-s3cret");
}

TEST(SecretTest, TheRestOfALongerValueIsWipedToo) {
  Secret secret(std::string(100, 's'));
  const char* buffer = secret.reveal().data();
  const Secret shorter(std::string(30, 'c'));
  secret = shorter;
  ASSERT_EQ(secret.reveal().data(), buffer);  // a string keeps its buffer for what fits in it
  EXPECT_FALSE(std::string_view(buffer, 100).contains('s'));
}

constexpr char kMinimal[] = R"(
current-context: c
clusters: [{name: k, cluster: {server: "https://h:1/"}}]
contexts: [{name: c, context: {cluster: k, user: u, namespace: team}}]
users: [{name: u, user: {USER}}]
)";
std::string minimal(const std::string& user) {
  std::string text = kMinimal;
  return text.replace(text.find("USER"), 4, user);
}

TEST_F(ConfigTest, InlineAndFileMaterialRelativeToItsFile) {
  const auto path = write("a/config", R"(
current-context: c
clusters: [{name: k, cluster: {server: "https://h:1/base/", certificate-authority-data: Q0EK, tls-server-name: api, proxy-url: "http://p:2"}}]
contexts: [{name: c, context: {cluster: k, user: u}}]
users: [{name: u, user: {client-certificate: pki/crt, client-key: /abs/key, tokenFile: tok, as: ann, as-groups: [g, h]}}]
)");
  const auto config = load_kubeconfig(options(path));
  ASSERT_TRUE(config) << to_string(config.error());
  EXPECT_EQ(config->server, "https://h:1/base");
  EXPECT_EQ(config->ca.data.reveal(), "CA\n");
  EXPECT_EQ(config->tls_server_name, "api");
  EXPECT_EQ(config->proxy_url, "http://p:2");
  EXPECT_EQ(config->client_certificate.file, dir / "a/pki/crt");
  EXPECT_EQ(config->client_key.file, "/abs/key");
  EXPECT_EQ(config->token.file, dir / "a/tok");
  EXPECT_EQ(config->ns, "default");
  EXPECT_FALSE(config->insecure_skip_tls_verify);
  EXPECT_EQ(config->impersonate.size(), 3u);
}

TEST_F(ConfigTest, SeveralFilesMergeFirstWins) {
  const auto a = write("a", "current-context: c\nclusters: [{name: k, cluster: {server: 'https://a'}}]\n");
  const auto b =
      write("b",
            "current-context: other\nclusters: [{name: k, cluster: {server: 'https://b'}}]\n"
            "contexts: [{name: c, context: {cluster: k, user: u}}, {name: d, context: {cluster: k}}]\n"
            "users: [{name: u, user: {token: t}}]\n");
  env["KUBECONFIG"] = (dir / "missing").string() + ":" + a.string() + ":" + b.string();
  auto config = load_kubeconfig(options());
  ASSERT_TRUE(config) << to_string(config.error());
  EXPECT_EQ(config->server, "https://a");
  EXPECT_EQ(config->token.data.reveal(), "t");
  auto other = options();
  other.context = "d";
  config = load_kubeconfig(other);
  ASSERT_TRUE(config);
  EXPECT_FALSE(config->token.configured());
  other.context = "e";
  EXPECT_NE(load_kubeconfig(other).error().message.find("context \"e\" is not in"), std::string::npos);
}

TEST_F(ConfigTest, HomeDirectoryAndNothingAtAll) {
  EXPECT_EQ(load_kubeconfig(options()).error().code, ErrorCode::kConfig);
  write(".kube/config", minimal("token: t"));
  env["HOME"] = dir.string();
  const auto config = load_kubeconfig(options());
  ASSERT_TRUE(config);
  EXPECT_EQ(config->ns, "team");
  EXPECT_FALSE(load_kubeconfig(options(dir / "missing")));
}

TEST_F(ConfigTest, ErrorsNameFileAndField) {
  const std::string file = (dir / "config").string();
  EXPECT_EQ(error_of("clusters: {a: 1}"), file + ": clusters: is not a list");
  EXPECT_NE(error_of("a: [").find(file + ": line 1"), std::string::npos);
  EXPECT_EQ(error_of("current-context: c\ncontexts: [{name: c, context: {user: u}}]"),
            file + ": contexts[c].context.cluster: is required");
  EXPECT_NE(error_of("current-context: c\ncontexts: [{name: c, context: {cluster: k}}]")
                .find(file + ": contexts[c].context.cluster: cluster \"k\" is not in"),
            std::string::npos);
  EXPECT_EQ(error_of(minimal("client-certificate-data: '***'")),
            file + ": users[u].user.client-certificate-data: is not base64");
  EXPECT_NE(
      error_of(minimal("client-certificate: a")).find("users[u].user: client certificate and client key"),
      std::string::npos);
  EXPECT_NE(error_of(minimal("auth-provider: {name: gcp}")).find("auth-provider"), std::string::npos);
  EXPECT_NE(error_of(minimal("exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: x}"))
                .find("users[u].user.exec.apiVersion: is \"client"),
            std::string::npos);
  EXPECT_NE(
      error_of(
          minimal("exec: {apiVersion: client.authentication.k8s.io/v1, command: x, interactiveMode: Always}"))
          .find("interactiveMode"),
      std::string::npos);
  EXPECT_NE(error_of("current-context: c\ncontexts: [{name: c, context: {cluster: k}}]\nclusters: [{name: k, "
                     "cluster: {server: 'h:1'}}]")
                .find("must begin with https://"),
            std::string::npos);
  EXPECT_NE(error_of("current-context: c\ncontexts: [{name: c, context: {cluster: k}}]\nclusters: [{name: k, "
                     "cluster: {server: 'https://h', insecure-skip-tls-verify: maybe}}]")
                .find("insecure-skip-tls-verify: is \"maybe\""),
            std::string::npos);
  EXPECT_NE(
      error_of("current-context: c\ncontexts: [{name: c, context: {cluster: k}}]\nclusters: [{name: k, "
               "cluster: {server: 'https://h', insecure-skip-tls-verify: true, certificate-authority: x}}]")
          .find("must not be set"),
      std::string::npos);
}

TEST_F(ConfigTest, InsecureOnlyWhereTheFileSaysSo) {
  const auto config = load_kubeconfig(options(
      write("config",
            "current-context: c\ncontexts: [{name: c, context: {cluster: k}}]\n"
            "clusters: [{name: k, cluster: {server: 'https://h', insecure-skip-tls-verify: true}}]")));
  ASSERT_TRUE(config);
  EXPECT_TRUE(config->insecure_skip_tls_verify);
}

TEST_F(ConfigTest, InCluster) {
  InClusterOptions in;
  in.service_account = dir;
  in.getenv = options().getenv;
  EXPECT_FALSE(load_in_cluster(in));
  env["KUBERNETES_SERVICE_HOST"] = "fd00::1";
  env["KUBERNETES_SERVICE_PORT"] = "443";
  EXPECT_NE(load_in_cluster(in).error().message.find("token does not exist"), std::string::npos);
  write("token", "t\n");
  write("ca.crt", "CA");
  write("namespace", "muster-system");
  const auto config = load_in_cluster(in);
  ASSERT_TRUE(config);
  EXPECT_EQ(config->server, "https://[fd00::1]:443");
  EXPECT_EQ(config->ns, "muster-system");
  EXPECT_EQ(config->token.file, dir / "token");
}

TEST_F(ConfigTest, SecretsDoNotPrint) {
  std::ostringstream out;
  out << Secret("hunter2");
  EXPECT_EQ(out.str(), "[secret]");
}

TEST_F(ConfigTest, TokenAndCaAreReadAgainWhenTheyChange) {
  VirtualWorld world;
  ClientConfig config;
  config.server = "https://h";
  config.token.file = write("token", "one\n");
  config.ca.file = write("ca", "CA1");
  Credentials credentials(world.env(), config);
  const auto first = world.run(credentials.get()).value();
  EXPECT_EQ(first->authorization.reveal(), "Bearer one");
  EXPECT_EQ(first->ca_pem.reveal(), "CA1");
  EXPECT_EQ(world.run(credentials.get()).value(), first);
  write("token", "three");
  EXPECT_EQ(world.run(credentials.get()).value(), first);  // not looked at yet
  world.run_for(10s);
  const auto second = world.run(credentials.get()).value();
  EXPECT_EQ(second->authorization.reveal(), "Bearer three");
  EXPECT_EQ(second->tls_generation, first->tls_generation);  // connections may stay
  fs::remove(dir / "token");
  world.run_for(10s);
  EXPECT_EQ(world.run(credentials.get()).value(), second);  // the last good one
  write("token", "four");
  credentials.rejected(second->generation);
  EXPECT_EQ(world.run(credentials.get()).value()->authorization.reveal(), "Bearer four");
  write("ca", "CA2");
  world.run_for(10s);
  EXPECT_NE(world.run(credentials.get()).value()->tls_generation, first->tls_generation);
}

TEST_F(ConfigTest, UnreadableFileWithoutAnEarlierOneIsAnError) {
  VirtualWorld world;
  ClientConfig config;
  config.token.file = dir / "token";
  config.token.field = "users[u].user.tokenFile";
  Credentials credentials(world.env(), config);
  const auto result = world.run(credentials.get());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message,
            "users[u].user.tokenFile: " + (dir / "token").string() + " cannot be read");
}

// Plugins are processes: the loop has to wait for them in real time, while the credential's life is in
// virtual time.
std::shared_ptr<const CredentialSet> wait_for(VirtualWorld& world, Credentials& credentials,
                                              std::optional<Error>* error = nullptr) {
  std::optional<Result<std::shared_ptr<const CredentialSet>>> got;
  auto task = [](Credentials& c,
                 std::optional<Result<std::shared_ptr<const CredentialSet>>>& out) -> Task<void> {
    auto result = co_await c.get();
    out = std::move(result);
  };
  spawn(world.env().executor, task(credentials, got));
  for (int i = 0; i < 2000 && !got; ++i) {
    world.settle();
    std::this_thread::sleep_for(5ms);
  }
  if (!got) return nullptr;
  if (*got) return **got;
  if (error != nullptr) *error = got->error();
  return nullptr;
}

TEST_F(ConfigTest, ExecPluginRunsOnceAndAgainBeforeExpiryAndAfter401) {
  VirtualWorld world;
  // Counts its runs; the third fails.
  write("plugin", "#!/bin/sh\nn=$(cat '" + (dir / "n").string() +
                      "' 2>/dev/null || echo 0); n=$((n+1)); echo $n > '" + (dir / "n").string() +
                      "'\n[ $n = 3 ] && exit 7\n"
                      "case \"$KUBERNETES_EXEC_INFO\" in *interactive*false*) ;; *) exit 8;; esac\n"
                      "printf "
                      "'{\"apiVersion\":\"client.authentication.k8s.io/"
                      "v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"%s-%s-%s\","
                      "\"expirationTimestamp\":\"%s\"}}' \"$1\" \"$EXTRA\" $n \"$EXPIRES\"\n");
  fs::permissions(dir / "plugin", fs::perms::owner_all);
  const std::string expires = format_time(world.clock().wall() + 10min);
  const auto config = load_kubeconfig(options(write(
      "config", minimal("exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin, args: [arg], "
                        "interactiveMode: Never, env: [{name: EXTRA, value: e}, {name: EXPIRES, value: '" +
                        expires + "'}]}"))));
  ASSERT_TRUE(config) << to_string(config.error());
  Credentials credentials(world.env(), *config);
  const auto first = wait_for(world, credentials);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->authorization.reveal(), "Bearer arg-e-1");
  EXPECT_EQ(wait_for(world, credentials), first);
  world.run_for(8min);
  EXPECT_EQ(wait_for(world, credentials)->authorization.reveal(), "Bearer arg-e-1");
  credentials.rejected(first->generation);
  const auto second = wait_for(world, credentials);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->authorization.reveal(), "Bearer arg-e-2");
  // In its last minute a new one is fetched while the old one serves; the plugin fails, the old one serves
  // until it expires.
  world.run_for(90s);
  EXPECT_EQ(wait_for(world, credentials)->authorization.reveal(), "Bearer arg-e-2");
  world.run_for(60s);
  std::optional<Error> error;
  EXPECT_FALSE(wait_for(world, credentials, &error));
  EXPECT_TRUE(error);
  std::ifstream runs(dir / "n");
  int n = 0;
  runs >> n;
  EXPECT_GE(n, 3);
}

TEST_F(ConfigTest, ExecPluginErrorsNameTheFieldAndNeverQuoteTheOutput) {
  for (const auto& [script, wants] :
       std::map<std::string, std::string>{{"exit 3", "exit status 3"},
                                          {"echo secret-token", "no ExecCredential object"},
                                          {"echo "
                                           "'{\"kind\":\"ExecCredential\",\"apiVersion\":\"client."
                                           "authentication.k8s.io/v1\",\"status\":{}}'",
                                           "neither status.token"}}) {
    VirtualWorld world;
    write("plugin", "#!/bin/sh\n" + script + "\n");
    fs::permissions(dir / "plugin", fs::perms::owner_all);
    const auto config = load_kubeconfig(options(
        write("config", minimal("exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin}"))));
    ASSERT_TRUE(config);
    Credentials credentials(world.env(), *config);
    std::optional<Error> error;
    EXPECT_FALSE(wait_for(world, credentials, &error));
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code, ErrorCode::kConfig);
    EXPECT_NE(error->message.find("users[u].user.exec"), std::string::npos) << error->message;
    EXPECT_NE(error->message.find(wants), std::string::npos) << error->message;
    EXPECT_EQ(error->message.find("secret-token"), std::string::npos);
  }
}

}  // namespace
}  // namespace muster::client
