#include "muster/server/reviews.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

namespace muster::server {
namespace {

using nlohmann::json;

const client::Resource kTokenReviews{"authentication.k8s.io", "v1", "tokenreviews", false};
const client::Resource kAccessReviews{"authorization.k8s.io", "v1", "subjectaccessreviews", false};

// What the API server has answered; an answer without a status is an error.
client::Result<json> status_of(const client::Result<std::string>& body) {
  if (!body) return std::unexpected(body.error());
  json review = json::parse(*body, nullptr, false);
  if (!review.is_object() || !review.contains("status") || !review["status"].is_object())
    return std::unexpected(
        client::Error{.code = client::ErrorCode::kDecode, .message = "a review without a status"});
  return std::move(review["status"]);
}

std::string dumped(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

User user_of(const json& said) {
  User user{said.value("username", ""), said.value("uid", ""), {}, {}};
  for (const json& group : said.value("groups", json::array())) user.groups.push_back(group);
  for (const auto& [key, values] : said.value("extra", json::object()).items())
    user.extra[key] = values.get<std::vector<std::string>>();
  return user;
}

json json_of(const User& user) {
  json spec{{"user", user.name}, {"groups", user.groups}};
  if (!user.uid.empty()) spec["uid"] = user.uid;
  if (!user.extra.empty()) spec["extra"] = user.extra;
  return spec;
}

json json_of(const Access& access) {
  if (!access.path.empty())
    return {{"nonResourceAttributes", {{"path", access.path}, {"verb", access.verb}}}};
  return {{"resourceAttributes",
           {{"verb", access.verb},
            {"group", access.group},
            {"resource", access.resource},
            {"namespace", access.ns},
            {"name", access.name}}}};
}

}  // namespace

client::Task<client::Result<std::optional<User>>> review_token(client::ApiClient& api, std::string token) {
  const json review{{"apiVersion", "authentication.k8s.io/v1"},
                    {"kind", "TokenReview"},
                    {"spec", {{"token", std::move(token)}}}};
  const auto status = status_of(co_await api.create(kTokenReviews, "", dumped(review), ""));
  if (!status) co_return std::unexpected(status.error());
  try {
    if (!status->value("authenticated", false)) co_return std::nullopt;
    co_return user_of(status->value("user", json::object()));
  } catch (const json::exception& e) {
    co_return std::unexpected(client::Error{.code = client::ErrorCode::kDecode,
                                            .message = std::string("TokenReview: ") + e.what()});
  }
}

client::Task<client::Result<bool>> review_access(client::ApiClient& api, User user, Access access) {
  json spec = json_of(user);
  spec.update(json_of(access));
  const json review{
      {"apiVersion", "authorization.k8s.io/v1"}, {"kind", "SubjectAccessReview"}, {"spec", std::move(spec)}};
  const auto status = status_of(co_await api.create(kAccessReviews, "", dumped(review), ""));
  if (!status) co_return std::unexpected(status.error());
  const auto allowed = status->find("allowed");
  co_return allowed != status->end() && allowed->is_boolean() && allowed->get<bool>();
}

std::string bearer_token(const std::string& authorization) {
  constexpr std::string_view kScheme = "Bearer ";
  return authorization.starts_with(kScheme) ? authorization.substr(kScheme.size()) : std::string();
}

std::string fingerprint(const std::string& secret) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (EVP_Digest(secret.data(), secret.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1)
    throw std::runtime_error("SHA-256 is not available");
  std::string text;
  for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

std::string fingerprint(const User& user) {
  return fingerprint(dumped(json_of(user)));
}

}  // namespace muster::server
