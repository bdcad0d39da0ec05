// Small texts for people.
#pragma once

#include <string>
#include <string_view>

#include "muster/client/error.h"
#include "muster/crds/crds.h"

namespace muster::plugin {

// Its two largest units: "40s", "5m3s", "2h5m", "3d4h". Never negative.
std::string for_people(std::chrono::seconds duration);
// 0 where nothing is stated.
std::int64_t milli_gpus(const crds::Amounts& amounts);
// "0" where nothing is stated.
std::string gpus(const crds::Amounts& amounts);
// Breaks lines between words so that none is longer than `width`, unless a word is. Lines that end already
// stay apart.
std::string wrapped(std::string_view text, std::size_t width = 100);
// "nlp/llama".
std::string name_of(const crds::ObjectMeta& meta);

// The API server's own words. `if_forbidden` is added where it has refused: what would help.
std::string said(const client::Error& error, std::string_view if_forbidden = {});

// What helps whoever may not read what only `muster-viewer` may.
inline constexpr std::string_view kAskForViewer =
    "Ask an administrator to bind you to the ClusterRole muster-viewer";
inline constexpr std::string_view kLeaveOutAll = "Leave out -A to ask in one namespace";

}  // namespace muster::plugin
