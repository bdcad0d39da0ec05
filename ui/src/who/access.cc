#include "who/access.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "muster/client/curl_transport.h"
#include "muster/client/task_group.h"
#include "muster/crds/crds.h"
#include "muster/ui/what_helps.h"
#include "one/details.h"

namespace muster::ui {
namespace {

struct Listed {
  Kind kind;
  std::string_view group, resource;
  bool namespaced;
};
constexpr std::array<Listed, kKindNames.size()> kListed = {{
    {Kind::kQueues, crds::kGroup, crds::Queue::kPlural, false},
    {Kind::kProjects, crds::kGroup, crds::Project::kPlural, false},
    {Kind::kPools, crds::kGroup, crds::NodePool::kPlural, false},
    {Kind::kNodes, "", "nodes", false},
    {Kind::kJobs, crds::kGroup, crds::TrainingJob::kPlural, true},
    {Kind::kServices, crds::kGroup, crds::InferenceService::kPlural, true},
}};

struct Question {
  Kind kind;
  std::string ns;  // "": everywhere
  client::Result<bool> answer = false;
};

client::Task<void> ask(client::ApiClient& api, const server::User& user, Question& question) {
  const Listed& listed = kListed[static_cast<std::size_t>(question.kind)];
  question.answer = co_await server::review_access(api, user,
                                                   {.verb = "list",
                                                    .group = std::string(listed.group),
                                                    .resource = std::string(listed.resource),
                                                    .ns = question.ns,
                                                    .name = {},
                                                    .path = {}});
}

// The client bounds how many are asked at once. A question that cannot be answered is an error of all.
client::Task<client::Result<void>> ask_all(client::ApiClient& api, const server::User& user,
                                           std::vector<Question>& questions) {
  client::TaskGroup tasks(api.environment().executor);
  for (Question& question : questions) tasks.spawn(ask(api, user, question));
  if (!co_await tasks.join()) {
    // Whoever waits was cancelled. What runs uses what lives here.
    tasks.cancel();
    co_await boost::asio::this_coro::reset_cancellation_state();
    co_await tasks.join();
    co_return std::unexpected(client::Error{.code = client::ErrorCode::kCancelled});
  }
  for (const Question& question : questions) {
    if (!question.answer) co_return std::unexpected(question.answer.error());
  }
  co_return client::Result<void>{};
}

void take(Rights& rights, const std::vector<Question>& questions) {
  for (const Question& question : questions) {
    if (!*question.answer) continue;
    if (question.ns.empty())
      rights.of(question.kind).everywhere = true;
    else
      rights.of(question.kind).namespaces.insert(question.ns);
  }
}

Refusal cannot_ask(const client::Error& error) {
  return {503, "The API server cannot be asked who you are: " + client::to_string(error)};
}

}  // namespace

struct ClusterDoor::State {
  State(client::ApiClient& client, Model& tables, const client::ClientConfig& how)
      : api(client), model(tables), config(how) {}

  struct Known {
    Rights rights;
    std::set<std::string> namespaces;  // that were asked about
    client::TimePoint until;
  };

  client::ApiClient& api;
  Model& model;
  const client::ClientConfig& config;
  server::Cache<std::optional<server::User>> users{
      kMaxUsers};                          // by the token's fingerprint; nullopt: not good
  server::Cache<Known> rights{kMaxUsers};  // by the user's

  client::TimePoint now() const { return api.environment().clock.now(); }

  client::Task<std::expected<server::User, Refusal>> user_of(const std::string& token) {
    const Refusal unknown{401, "The cluster does not know this token, or it has expired.", true};
    if (token.empty()) co_return std::unexpected(Refusal{401, "A bearer token is needed.", true});
    const std::string key = server::fingerprint(token);
    if (const auto* user = users.find(key, now())) {
      if (!*user) co_return std::unexpected(unknown);
      co_return **user;
    }
    const auto user = co_await server::review_token(api, token);
    if (!user) co_return std::unexpected(cannot_ask(user.error()));
    users.put(key, *user, now() + kTokenGoodFor);
    if (!*user) co_return std::unexpected(unknown);
    co_return **user;
  }

  client::Task<client::Result<Rights>> rights_of(const server::User& user) {
    const std::string key = server::fingerprint(user);
    Known known;
    if (const Known* before = rights.find(key, now())) {
      known = *before;
    } else {
      known.until = now() + kRightsGoodFor;
      std::vector<Question> everywhere;
      for (const Listed& listed : kListed) everywhere.push_back({listed.kind, ""});
      const auto asked = co_await ask_all(api, user, everywhere);
      if (!asked) co_return std::unexpected(asked.error());
      take(known.rights, everywhere);
    }
    std::vector<Question> inside;
    for (const std::string& ns : model.namespaces()) {
      if (!known.namespaces.insert(ns).second) continue;
      for (const Listed& listed : kListed) {
        if (listed.namespaced && !known.rights.of(listed.kind).everywhere)
          inside.push_back({listed.kind, ns});
      }
    }
    const auto asked = co_await ask_all(api, user, inside);
    if (!asked) co_return std::unexpected(asked.error());
    take(known.rights, inside);
    rights.put(key, known, known.until);
    co_return known.rights;
  }
};

namespace {

class Member final : public Visitor {
 public:
  Member(std::shared_ptr<ClusterDoor::State> state, std::string token)
      : state_(std::move(state)), token_(std::move(token)) {}

  std::shared_ptr<const Rights> rights() const override { return rights_; }

  client::Task<std::optional<Refusal>> look_again() override {
    const auto user = co_await state_->user_of(token_.reveal());
    if (!user) co_return user.error();
    auto now = co_await state_->rights_of(*user);
    if (!now) co_return cannot_ask(now.error());
    if (*now != *rights_) rights_ = std::make_shared<const Rights>(std::move(*now));
    co_return std::nullopt;
  }

  client::Task<client::Result<std::string>> job_details(client::ObjectRef job) override {
    client::CurlTransport transport(state_->api.environment(), as_user(state_->config, token_.reveal()));
    client::ApiClient api(state_->api.environment(), transport, options());
    co_return co_await ui::job_details(api, std::move(job), what_helps);
  }

  client::Task<client::Result<std::string>> disruptions_of(std::string ns) override {
    client::CurlTransport transport(state_->api.environment(), as_user(state_->config, token_.reveal()));
    client::ApiClient api(state_->api.environment(), transport, options());
    co_return co_await ui::disruptions_of(api, std::move(ns));
  }

 private:
  // Somebody waits for the answer.
  static client::ApiOptions options() {
    client::ApiOptions options;
    options.timeout = std::chrono::seconds{10};
    options.max_repeats = 1;
    return options;
  }

  std::shared_ptr<ClusterDoor::State> state_;
  client::Secret token_;
  std::shared_ptr<const Rights> rights_ = std::make_shared<const Rights>();  // nothing
};

}  // namespace

ClusterDoor::ClusterDoor(client::ApiClient& api, Model& model, const client::ClientConfig& config)
    : state_(std::make_shared<State>(api, model, config)) {}
ClusterDoor::~ClusterDoor() = default;

// Its own names are not known here: a certificate, a gateway or a port that is forwarded gives it others. A
// page of another site has no token to show, whatever name it uses; it is refused all the same.
std::optional<Refusal> ClusterDoor::refuses(const Asked& asked) const {
  if (asked.method != "GET") return Refusal{405, "This server only answers GET."};
  const auto scheme_end = asked.origin.find("://");
  const bool from_here = asked.origin.empty() || (scheme_end != std::string_view::npos &&
                                                  asked.origin.substr(scheme_end + 3) == asked.host);
  if (!from_here) return Refusal{403, "Pages of other sites may not ask this server."};
  return std::nullopt;
}

client::Task<std::expected<std::unique_ptr<Visitor>, Refusal>> ClusterDoor::admit(Asked asked) {
  if (auto refusal = refuses(asked)) co_return std::unexpected(std::move(*refusal));
  auto member = std::make_unique<Member>(state_, server::bearer_token(std::string(asked.authorization)));
  if (auto refusal = co_await member->look_again()) co_return std::unexpected(std::move(*refusal));
  co_return std::unique_ptr<Visitor>(std::move(member));
}

client::ClientConfig as_user(client::ClientConfig config, const std::string& token) {
  client::ClientConfig user;
  user.server = std::move(config.server);
  user.tls_server_name = std::move(config.tls_server_name);
  user.proxy_url = std::move(config.proxy_url);
  user.insecure_skip_tls_verify = config.insecure_skip_tls_verify;
  user.ca = std::move(config.ca);
  user.token.data = client::Secret(token);
  user.token.field = "the bearer token";
  user.origin = "a user of the page";
  return user;
}

}  // namespace muster::ui
