// Namespaces, and the objects that Muster keeps in them, as they are watched.
#pragma once

#include <string>
#include <string_view>

#include "muster/client/error.h"
#include "muster/client/object.h"
#include "muster/crds/common.h"
#include "muster/crds/metadata.h"

namespace muster::reconcilers {

struct Namespace {
  client::Meta meta;
  crds::StringMap labels;
  bool terminating = false;

  std::string project() const;  // the label's value; "": not labelled
};
client::Result<Namespace> decode_namespace(std::string_view json);

// An object that carries Muster's labels.
struct KeptObject {
  client::Meta meta;
  std::string project;    // kProjectLabel
  bool is_ours = false;   // Muster's field manager wrote to it; labels alone can be anybody's
  crds::RawJson content;  // as it is there, without managed fields and status
};
client::Result<KeptObject> decode_kept_object(std::string_view json);

}  // namespace muster::reconcilers
