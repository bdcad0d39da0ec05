// Metrics that pods answer.
#include "muster/client/exposition.h"

#include "targets.h"

namespace muster::fuzz {

void exposition(std::string_view input) {
  const auto all = client::parse_exposition(input);
  if (!all) {
    require(all.error().code == client::ErrorCode::kDecode, "what is no exposition is kDecode");
    require(!all.error().message.empty(), "an error says what is wrong");
    return;
  }
  require(all->size() <= client::kMaxSamples, "samples are bounded");
  for (const client::Sample& sample : *all) {
    require(!sample.name.empty(), "a sample has a name");
    require(input.find(sample.name) != input.npos, "a name is text of the input");
    for (const auto& [name, value] : sample.labels) {
      require(!name.empty(), "a label has a name");
      require(sample.label(name) != nullptr, "a label is found by its name");
    }
  }
  // What is well-formed as a whole is so in any part, and parts are read alike.
  std::size_t wanted = 0;
  for (const client::Sample& sample : *all) wanted += sample.name < "m" ? 1 : 0;
  const auto part = client::parse_exposition(input, [](std::string_view name) { return name < "m"; });
  require(part && part->size() == wanted, "only what is wanted is read");
}

}  // namespace muster::fuzz
