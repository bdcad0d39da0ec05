// Fits text of any length into fields that take only so much.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster::crds {

// At most `bytes` (3 or more) of the text. If something is left out, it ends in "...". It is cut between
// characters and not inside one, because half a UTF-8 sequence is no valid JSON.
std::string cut(std::string_view text, std::size_t bytes);

}  // namespace muster::crds
