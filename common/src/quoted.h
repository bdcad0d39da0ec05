// Foreign text in messages.
#pragma once

#include <string>
#include <string_view>

namespace muster::common {

// In quotation marks, at most 40 bytes of it: the message must stay readable whatever the text is.
inline std::string quoted(std::string_view text) {
  return "\"" + std::string(text.substr(0, 40)) + "\"";
}

}  // namespace muster::common
