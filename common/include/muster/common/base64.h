// Base64 (RFC 4648, section 4), by OpenSSL.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster::common {

std::string encode_base64(std::string_view bytes);

// White space anywhere is passed over, as in a folded YAML text. Padding is required. nullopt: it is not
// base64. There is no message that quotes the text, because it is most often a secret; for the same reason
// copies that the reading makes are wiped.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace muster::common
