// The door of the page in a cluster: users come with the bearer token that they would show to the API server.
// It says who they are (TokenReview) and what they may list (SubjectAccessReview, of each namespace).
#pragma once

#include <memory>
#include <string>

#include "model.h"
#include "muster/client/config.h"
#include "muster/server/reviews.h"
#include "who/door.h"

namespace muster::ui {

// What is known of a token, and of what a user may list, is looked at again after this. A namespace that is
// new is looked at before anything of it is told.
inline constexpr auto kTokenGoodFor = std::chrono::minutes{1};
inline constexpr auto kRightsGoodFor = std::chrono::minutes{2};
inline constexpr std::size_t kMaxUsers = 1000;  // that are remembered

class ClusterDoor final : public Door {
 public:
  struct State;

  // `api`: with the right to create tokenreviews and subjectaccessreviews. `config`: how the API server is
  // reached; a job's details are read from there with the user's own token, and not with our rights. All of
  // them outlive the door and its visitors.
  ClusterDoor(client::ApiClient& api, Model& model, const client::ClientConfig& config);
  ~ClusterDoor() override;

  bool asks_token() const override { return true; }
  std::optional<Refusal> refuses(const Asked& asked) const override;
  client::Task<std::expected<std::unique_ptr<Visitor>, Refusal>> admit(Asked asked) override;

 private:
  std::shared_ptr<State> state_;  // also held by visitors
};

// `config` for requests in the name of whoever has the token: it has nothing of our own.
client::ClientConfig as_user(client::ClientConfig config, const std::string& token);

}  // namespace muster::ui
