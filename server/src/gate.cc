#include "muster/server/gate.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "muster/server/reviews.h"

namespace muster::server {
namespace {

constexpr std::size_t kMaxTokens = 1000;
constexpr auto kLetInFor = std::chrono::minutes{1};
constexpr auto kRefusedFor = std::chrono::seconds{10};

Answer unauthorized() {
  return {401,
          "a bearer token is needed that the API server knows\n",
          "text/plain; charset=utf-8",
          {{"WWW-Authenticate", "Bearer"}}};
}
Answer cannot_ask(const client::Error& error) {
  return {503, "the API server cannot be asked who you are: " + client::to_string(error) + "\n"};
}

}  // namespace

struct Gate::State {
  explicit State(client::ApiClient& client) : api(client) {}

  // What is told to whoever has this token; nullopt: they are let in.
  client::Task<client::Result<std::optional<Answer>>> ask(std::string token, std::string path) {
    auto user = co_await review_token(api, std::move(token));
    if (!user) co_return std::unexpected(user.error());
    if (!*user) co_return unauthorized();
    const std::string name = (*user)->name;
    const auto may = co_await review_access(
        api, std::move(**user),
        {.verb = "get", .group = {}, .resource = {}, .ns = {}, .name = {}, .path = path});
    if (!may) co_return std::unexpected(may.error());
    if (*may) co_return std::nullopt;
    co_return Answer{403, fmt::format("user \"{}\" may not get path \"{}\"\n", name, path)};
  }

  client::ApiClient& api;
  Cache<std::optional<Answer>> known{kMaxTokens};
};

Gate::Gate(client::ApiClient& api) : state_(std::make_unique<State>(api)) {}
Gate::~Gate() = default;

client::Task<std::optional<Answer>> Gate::refuses(std::string authorization, std::string path) {
  const std::string token = bearer_token(authorization);
  if (token.empty()) co_return unauthorized();
  const client::Clock& clock = state_->api.environment().clock;
  const std::string key = fingerprint(token) + path;
  if (const auto* verdict = state_->known.find(key, clock.now())) co_return *verdict;
  const auto verdict = co_await state_->ask(token, std::move(path));
  if (!verdict) co_return cannot_ask(verdict.error());
  state_->known.put(key, *verdict,
                    clock.now() + (*verdict ? client::Duration(kRefusedFor) : client::Duration(kLetInFor)));
  co_return *verdict;
}

}  // namespace muster::server
