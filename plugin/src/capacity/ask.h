// Reads what `tree`, `top` and `nodes` show. Who lacks a right is told what they may see, and in a sentence
// which right is missing.
#pragma once

#include <expected>
#include <string>

#include "cluster/reader.h"
#include "output/listing.h"

namespace muster::plugin {

// The error is what to say. `ns`: what it is about where the whole may not be seen.
std::expected<Listing, std::string> tree_for(Reader& reader, const std::string& ns, const std::string& pool);
std::expected<Listing, std::string> pools_for(Reader& reader);
std::expected<Listing, std::string> nodes_for(Reader& reader, const std::string& ns);

}  // namespace muster::plugin
