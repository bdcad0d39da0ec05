// What is left out of an answer because whoever asks lacks a right: one sentence, beside what could be told.
#pragma once

#include <string>

#include "muster/client/error.h"
#include "output/listing.h"

namespace muster::plugin {

bool is_forbidden(const client::Error& error);
// Below the table, also of one without rows, and in `missing` of JSON and YAML. CSV has no place for it:
// show() says it on standard error.
void note_missing(Listing& listing, const std::string& sentence);
// "You may not list trainingjobs of all namespaces: this is of namespace nlp only."
std::string only_namespace(const std::string& kind, const std::string& ns);

}  // namespace muster::plugin
