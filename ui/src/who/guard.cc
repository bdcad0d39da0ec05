#include "who/guard.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <system_error>
#include <utility>

#include "muster/ui/what_helps.h"
#include "one/details.h"

namespace muster::ui {
namespace {

// The API server says what they may read, and that is all that is here.
class Owner final : public Visitor {
 public:
  explicit Owner(client::ApiClient& api) : api_(api) {}
  std::shared_ptr<const Rights> rights() const override { return rights_; }
  client::Task<std::optional<Refusal>> look_again() override { co_return std::nullopt; }
  client::Task<client::Result<std::string>> job_details(client::ObjectRef job) override {
    return ui::job_details(api_, std::move(job), what_helps);
  }
  client::Task<client::Result<std::string>> disruptions_of(std::string ns) override {
    return ui::disruptions_of(api_, std::move(ns));
  }

 private:
  client::ApiClient& api_;
  std::shared_ptr<const Rights> rights_ = std::make_shared<const Rights>(Rights::all());
};

}  // namespace

client::Task<std::expected<std::unique_ptr<Visitor>, Refusal>> LocalDoor::admit(Asked asked) {
  if (auto refusal = guard_.refuses_data(asked)) co_return std::unexpected(std::move(*refusal));
  co_return std::make_unique<Owner>(api_);
}

Guard::Guard(std::string token, int port) : token_(std::move(token)), port_(std::to_string(port)) {}

bool Guard::is_own(std::string_view host) const {
  return host == "127.0.0.1:" + port_ || host == "localhost:" + port_;
}

std::optional<Refusal> Guard::refuses(const Asked& asked) const {
  if (asked.method != "GET") return Refusal{405, "This server only answers GET."};
  if (!is_own(asked.host))
    return Refusal{421, fmt::format("This server is 127.0.0.1:{} and has no other name.", port_)};
  constexpr std::string_view kScheme = "http://";
  const bool from_here = asked.origin.empty() ||
                         (asked.origin.starts_with(kScheme) && is_own(asked.origin.substr(kScheme.size())));
  if (!from_here) return Refusal{403, "Pages of other sites may not ask this server."};
  return std::nullopt;
}

std::optional<Refusal> Guard::refuses_data(const Asked& asked) const {
  if (auto refusal = refuses(asked)) return refusal;
  constexpr std::string_view kScheme = "Bearer ";
  if (!asked.authorization.starts_with(kScheme) ||
      !same_secret(asked.authorization.substr(kScheme.size()), token_)) {
    return Refusal{401, "Open the URL that kubectl muster ui has printed."};
  }
  return std::nullopt;
}

std::string Guard::url() const {
  return fmt::format("http://127.0.0.1:{}/#token={}", port_, token_);
}

std::string new_token() {
  std::array<unsigned char, 16> bytes{};
  for (std::size_t have = 0; have < bytes.size();) {
    const ssize_t got = getrandom(bytes.data() + have, bytes.size() - have, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw std::system_error(errno, std::generic_category(), "getrandom");
    have += static_cast<std::size_t>(got);
  }
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

bool same_secret(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned differences = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    differences |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return differences == 0;
}

}  // namespace muster::ui
