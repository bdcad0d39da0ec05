// Who may ask the page's server. Every user and every program of this machine can connect to its loopback,
// and so can every web site that the user's browser has open.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "who/door.h"

namespace muster::ui {

// 32 hexadecimal digits from the system's randomness.
std::string new_token();

class Guard {
 public:
  // `token`: not empty. `port`: where the server listens.
  Guard(std::string token, int port);

  // Nothing but GET, and only under the server's own names. A web site that has its own name resolved to
  // 127.0.0.1 (DNS rebinding) shows as another Host, and a page of another site as another Origin.
  std::optional<Refusal> refuses(const Asked& asked) const;
  // The same, and `Authorization: Bearer <token>`, for everything that tells something of the cluster. A
  // browser never sends that header by itself.
  std::optional<Refusal> refuses_data(const Asked& asked) const;

  // The token is in the fragment, which no browser sends to anybody.
  std::string url() const;

 private:
  bool is_own(std::string_view host) const;

  std::string token_;
  std::string port_;
};

// The door of `kubectl muster ui`: whoever has the URL sees what the user may read whose rights `api` has.
class LocalDoor final : public Door {
 public:
  explicit LocalDoor(client::ApiClient& api) : api_(api) {}
  // Before the first request.
  void listens_at(int port) { guard_ = Guard(token_, port); }
  std::string url() const { return guard_.url(); }

  bool asks_token() const override { return false; }
  std::optional<Refusal> refuses(const Asked& asked) const override { return guard_.refuses(asked); }
  client::Task<std::expected<std::unique_ptr<Visitor>, Refusal>> admit(Asked asked) override;

 private:
  client::ApiClient& api_;
  std::string token_ = new_token();
  Guard guard_{token_, 0};
};

// Takes as long for a guess that is nearly right as for any other of its length.
bool same_secret(std::string_view a, std::string_view b);

}  // namespace muster::ui
