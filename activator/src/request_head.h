// The beginning of what a client sends: how far it goes, and what of it is passed on.
#pragma once

#include <cstddef>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "muster/client/environment.h"

namespace muster::activator {

inline constexpr std::size_t kMaxHead = 64 << 10;

enum class Protocol { kHttp1, kHttp2 };

struct Head {
  Protocol protocol = Protocol::kHttp1;
  std::size_t size = 0;  // bytes of what has come; the rest is of the body
  // What a replica gets in its place. Of HTTP/1 it says that no other request comes over this connection, so
  // that the replica ends it after the answer, and the client's next request goes where its Service leads by
  // then. A connection that changes its protocol (WebSocket) is left as it is.
  std::string passed_on;
};

// nullopt: more has to come. The error says what is wrong with it, as a sentence's end.
std::expected<std::optional<Head>, std::string> read_head(std::string_view came);

// A whole answer for who is not passed on; the connection ends with it. `retry_after` zero: none. Of HTTP/2 a
// frame that says that nothing was done, whatever the status.
std::string refusal(Protocol protocol, int status, std::string_view text,
                    std::chrono::seconds retry_after = {});

}  // namespace muster::activator
