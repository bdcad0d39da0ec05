#include "output/missing.h"

#include <fmt/format.h>

namespace muster::plugin {

bool is_forbidden(const client::Error& error) {
  return error.code == client::ErrorCode::kForbidden;
}

void note_missing(Listing& listing, const std::string& sentence) {
  listing.footer += sentence + '\n';
  listing.if_empty += sentence + '\n';
  listing.about["missing"].push_back(sentence);
}

std::string only_namespace(const std::string& kind, const std::string& ns) {
  return fmt::format("You may not list {} of all namespaces: this is of namespace {} only.", kind, ns);
}

}  // namespace muster::plugin
