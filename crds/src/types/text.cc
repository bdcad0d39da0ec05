#include "muster/crds/text.h"

namespace muster::crds {

std::string cut(std::string_view text, std::size_t bytes) {
  constexpr std::string_view kMore = "...";
  if (text.size() <= bytes) return std::string(text);
  std::size_t end = bytes - kMore.size();
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)).append(kMore);
}

}  // namespace muster::crds
