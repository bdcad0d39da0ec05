// Small texts for people.
#pragma once

#include <string>
#include <string_view>

#include "muster/crds/crds.h"

namespace muster::plugin {

// Its two largest units: "40s", "5m3s", "2h5m", "3d4h". Never negative.
std::string for_people(std::chrono::seconds duration);
// "0" where nothing is stated.
std::string gpus(const crds::Amounts& amounts);
// Breaks lines between words so that none is longer than `width`, unless a word is.
std::string wrapped(std::string_view text, std::size_t width = 100);

}  // namespace muster::plugin
