// Text of any length in fields that take so much and no more.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster::crds {

// At most `bytes` (3 or more), what is left out shown by "..." at the end. Cut between characters and not
// inside one: half a UTF-8 sequence is no valid JSON.
std::string cut(std::string_view text, std::size_t bytes);

}  // namespace muster::crds
