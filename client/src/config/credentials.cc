#include "muster/client/credentials.h"

#include <openssl/evp.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <fstream>
#include <list>
#include <thread>

#include "config/exec_plugin.h"
#include "muster/client/waiter.h"

namespace muster::client {

namespace asio = boost::asio;

namespace {

constexpr Duration kLookEvery = std::chrono::seconds{10};
constexpr Duration kReadEvery = std::chrono::minutes{1};
constexpr Duration kPluginPause = std::chrono::seconds{5};  // between runs, however often a server says 401
constexpr auto kRenewAhead = std::chrono::seconds{60};  // of expiry, or a fifth of the life that is shorter

Error config_error(std::string message) {
  Error error;
  error.code = ErrorCode::kConfig;
  error.message = std::move(message);
  return error;
}

// One Material and what is known of its file.
struct Watched {
  Material material;
  Secret text;
  struct Stamp {
    std::int64_t seconds = 0, nanoseconds = 0;
    std::uint64_t inode = 0, size = 0;
    bool operator==(const Stamp&) const = default;
  } stamp;
  bool known = false;  // text is valid
  TimePoint read_at{};

  // True: text changed. Error: unreadable or empty; text stays what it was.
  Result<bool> refresh(TimePoint now) {
    if (material.file.empty()) {
      if (known) return false;
      known = true;
      text = material.data;
      return !text.empty();
    }
    struct ::stat info{};
    if (::stat(material.file.c_str(), &info) != 0) {
      return std::unexpected(
          config_error(material.field + ": " + material.file.string() + " cannot be read"));
    }
    const Stamp seen{info.st_mtim.tv_sec, info.st_mtim.tv_nsec, info.st_ino,
                     static_cast<std::uint64_t>(info.st_size)};
    if (known && seen == stamp && now - read_at < kReadEvery) return false;
    std::ifstream in(material.file, std::ios::binary);
    Secret fresh(std::string(std::istreambuf_iterator<char>(in), {}));
    if (!in || fresh.empty()) {
      return std::unexpected(
          config_error(material.field + ": " + material.file.string() + " is empty or cannot be read"));
    }
    stamp = seen;
    read_at = now;
    known = true;
    if (fresh == text) return false;
    text = std::move(fresh);
    return true;
  }
};

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  const auto last = text.find_last_not_of(" \t\r\n");
  return first == std::string::npos ? std::string{} : text.substr(first, last - first + 1);
}

std::string basic(const std::string& username, const std::string& password) {
  const std::string pair = username + ":" + password;
  std::string out((pair.size() + 2) / 3 * 4 + 1, '\0');
  const int length =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                      reinterpret_cast<const unsigned char*>(pair.data()), static_cast<int>(pair.size()));
  out.resize(static_cast<std::size_t>(length));
  return out;
}

}  // namespace

struct Credentials::Impl : std::enable_shared_from_this<Credentials::Impl> {
  Impl(Environment e, ClientConfig c) : env(e), config(std::move(c)) {
    ca.material = config.ca;
    certificate.material = config.client_certificate;
    key.material = config.client_key;
    token.material = config.token;
  }

  ~Impl() {
    if (!plugin_thread.joinable()) return;
    *stop_plugin = true;
    plugin_thread.join();
  }

  Environment env;
  ClientConfig config;
  Watched ca, certificate, key, token;
  std::shared_ptr<const CredentialSet> current;
  TimePoint next_look{};  // before it, `current` is good without a look
  std::uint64_t generations = 0;

  // The exec plugin.
  std::optional<ExecCredential> credential;
  WallTime renew_at = WallTime::max();
  std::optional<TimePoint> plugin_started;
  bool plugin_running = false;
  bool plugin_stale = false;  // its credential was rejected
  std::optional<Error> plugin_error;
  std::list<Waiter*> plugin_waiters;
  std::shared_ptr<std::atomic<bool>> stop_plugin = std::make_shared<std::atomic<bool>>(false);
  std::thread plugin_thread;

  bool expired() const {
    return credential && credential->expires && env.clock.wall() >= *credential->expires;
  }

  bool needs_plugin() const {
    if (!config.exec) return false;
    const bool wanted = !credential || plugin_stale || env.clock.wall() >= renew_at;
    if (!wanted) return false;
    return !plugin_started || env.clock.now() - *plugin_started >= kPluginPause;
  }

  void start_plugin() {
    if (plugin_thread.joinable()) plugin_thread.join();  // has ended
    plugin_running = true;
    plugin_started = env.clock.now();
    auto tracked = asio::prefer(env.executor, asio::execution::outstanding_work.tracked);
    plugin_thread =
        std::thread([plugin = *config.exec, stop = stop_plugin, tracked, weak = weak_from_this()] {
          Result<Secret> printed = run_plugin(plugin, *stop);
          asio::post(tracked, [weak, printed = std::move(printed)]() mutable {
            if (auto self = weak.lock()) self->plugin_ended(std::move(printed));
          });
        });
  }

  void plugin_ended(Result<Secret> printed) {
    plugin_running = false;
    Result<ExecCredential> parsed = std::unexpected(Error{});
    if (printed) {
      parsed = parse_exec_credential(printed->reveal(), *config.exec);
    } else {
      parsed = std::unexpected(std::move(printed.error()));
    }
    if (parsed) {
      credential = std::move(*parsed);
      plugin_error.reset();
      plugin_stale = false;
      renew_at = WallTime::max();
      if (credential->expires) {
        const auto life = *credential->expires - env.clock.wall();
        renew_at = *credential->expires - std::min<WallTime::duration>(kRenewAhead, life / 5);
      }
    } else {
      spdlog::warn("{}", to_string(parsed.error()));
      plugin_error = std::move(parsed.error());
    }
    next_look = TimePoint{};
    for (Waiter* waiter : plugin_waiters) waiter->notify();
  }

  static Task<bool> wait_for_plugin(std::shared_ptr<Impl> self) {
    struct Waiting {
      explicit Waiting(Impl& i) : impl(i), waiter(i.env.executor) { impl.plugin_waiters.push_back(&waiter); }
      Waiting(const Waiting&) = delete;
      Waiting& operator=(const Waiting&) = delete;
      ~Waiting() { impl.plugin_waiters.remove(&waiter); }
      Impl& impl;
      Waiter waiter;
    };
    Waiting waiting(*self);
    co_return co_await waiting.waiter.wait();
  }

  // Looks at all files; the first error, if any.
  std::optional<Error> refresh_files(bool& tls_changed, bool& changed) {
    std::optional<Error> error;
    auto refresh = [&](Watched& watched, bool tls) {
      if (!watched.material.configured()) return;
      Result<bool> result = watched.refresh(env.clock.now());
      if (!result) {
        // A token given inline beside its file serves until the file can be read.
        if (!watched.known && !watched.material.data.empty()) {
          watched.text = watched.material.data;
          watched.known = true;
          changed = true;
        }
        if (!error) error = std::move(result.error());
        return;
      }
      changed |= *result;
      tls_changed |= *result && tls;
    };
    refresh(ca, true);
    refresh(certificate, true);
    refresh(key, true);
    refresh(token, false);
    return error;
  }

  bool complete() const {
    auto known = [](const Watched& watched) { return !watched.material.configured() || watched.known; };
    return known(ca) && known(certificate) && known(key) && known(token);
  }

  void build(bool tls_changed) {
    auto set = std::make_shared<CredentialSet>();
    set->generation = ++generations;
    set->ca_pem = ca.text;
    set->certificate_pem = certificate.text;
    set->key_pem = key.text;
    std::string bearer = trimmed(token.text.reveal());
    if (credential) {
      if (!credential->token.empty()) bearer = credential->token.reveal();
      if (!credential->certificate_pem.empty()) {
        set->certificate_pem = credential->certificate_pem;
        set->key_pem = credential->key_pem;
      }
    }
    if (!bearer.empty()) {
      set->authorization = Secret("Bearer " + bearer);
    } else if (!config.username.empty()) {
      set->authorization = Secret("Basic " + basic(config.username, config.password.reveal()));
    }
    const bool same_tls = current && !tls_changed && current->certificate_pem == set->certificate_pem &&
                          current->key_pem == set->key_pem;
    set->tls_generation = same_tls ? current->tls_generation : set->generation;
    current = std::move(set);
  }

  // `current` as of now, without waiting; the plugin's part is as it is.
  Result<std::shared_ptr<const CredentialSet>> look() {
    bool tls_changed = false, changed = false;
    std::optional<Error> error = refresh_files(tls_changed, changed);
    if (error && !complete()) return std::unexpected(std::move(*error));
    if (error) spdlog::warn("{}; going on with what was read before", error->message);
    changed |= !current || tls_changed;
    if (credential && current) {
      changed |= !credential->token.empty() &&
                 current->authorization.reveal() != "Bearer " + credential->token.reveal();
      changed |=
          !credential->certificate_pem.empty() && current->certificate_pem != credential->certificate_pem;
    }
    if (changed) build(tls_changed);
    next_look = env.clock.now() + kLookEvery;
    return current;
  }

  static Task<Result<std::shared_ptr<const CredentialSet>>> get(std::shared_ptr<Impl> self) {
    while (self->plugin_running || self->needs_plugin()) {
      if (!self->plugin_running) self->start_plugin();
      // A credential that still holds serves meanwhile.
      if (self->credential && !self->plugin_stale && !self->expired()) break;
      if (!co_await wait_for_plugin(self)) {
        Error error;
        error.code = ErrorCode::kCancelled;
        error.message = "cancelled";
        co_return std::unexpected(std::move(error));
      }
    }
    if (self->config.exec && (!self->credential || self->expired())) {
      co_return std::unexpected(
          self->plugin_error.value_or(config_error(self->config.exec->field + ": no credential")));
    }
    if (self->current && self->env.clock.now() < self->next_look) co_return self->current;
    co_return self->look();
  }
};

Credentials::Credentials(Environment env, ClientConfig config)
    : impl_(std::make_shared<Impl>(env, std::move(config))) {}
Credentials::~Credentials() = default;

Task<Result<std::shared_ptr<const CredentialSet>>> Credentials::get() {
  return Impl::get(impl_);
}

void Credentials::rejected(std::uint64_t generation) {
  if (!impl_->current || impl_->current->generation != generation) return;  // there is a newer one already
  impl_->next_look = TimePoint{};
  impl_->plugin_stale = true;
  for (Watched* watched : {&impl_->ca, &impl_->certificate, &impl_->key, &impl_->token}) {
    if (!watched->material.file.empty()) watched->stamp = {};
  }
}

const ClientConfig& Credentials::config() const {
  return impl_->config;
}

}  // namespace muster::client
