#include "muster/crds/error.h"

namespace muster::crds {

std::string to_string(const FieldError& error) {
  std::string text;
  for (const std::string* part : {&error.location, &error.object, &error.field}) {
    if (!part->empty()) text += *part + ": ";
  }
  return text + error.message;
}

}  // namespace muster::crds
