// The text of crds/*.yaml, compiled in (embed.cmake).
#pragma once

#include <cstddef>
#include <string_view>

namespace muster::crds {

struct EmbeddedFile {
  std::string_view name;
  std::string_view text;
};
extern const EmbeddedFile kEmbeddedFiles[];
extern const std::size_t kEmbeddedFileCount;

}  // namespace muster::crds
