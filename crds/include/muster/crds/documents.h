// YAML (or JSON) files of objects, each field with its line.
#pragma once

#include <cstdint>
#include <expected>
#include <iosfwd>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "muster/crds/common.h"
#include "muster/crds/error.h"

namespace muster::crds {

struct Document {
  std::shared_ptr<Json> object;             // never null
  std::string file;                         // a name, for messages
  int line = 1;                             // where its text begins in the file, from 1
  std::shared_ptr<const std::string> text;  // of the YAML document it is in
  std::string inside;                       // "items[3]" for an item of a List, else empty

  // "jobs.yaml:12": where the field is ("spec.roles[0].gpus.count"), or the nearest enclosing one that the
  // file states. It parses the text again: lines are wanted only for errors, and would take more room than
  // the objects.
  std::string location(std::string_view field) const;
};

// What plain y, Y, n and N are: a cluster's reader takes them as true and false, most writers of YAML mean
// text.
enum class Letters : std::uint8_t { kBoolean, kText };

// All documents of a file's text, in order. Empty ones are passed over, and a `List` or `QueueList` stands
// for its items. Aliases and merge keys are resolved. Plain scalars become what Kubernetes' reader makes of
// them (YAML 1.1: true, yes, 3, 0x10, null, else text). These are errors with file and line: text that is no
// UTF-8 or no YAML, a key that is stated twice, something behind the end of a document, and a document that
// is no object. `file` is only a name.
std::expected<std::vector<Document>, FieldError> load_documents(std::string_view text, std::string file);

// The same, but it goes on behind an error: every document that can be read, and each error.
struct LoadedDocuments {
  std::vector<Document> documents;
  std::vector<FieldError> errors;
};
LoadedDocuments load_all_documents(std::string_view text, const std::string& file,
                                   Letters letters = Letters::kBoolean);

// The *.yaml, *.yml and *.json of a folder and of those below it, in the order of their names. Anything else
// stands for itself.
std::vector<std::string> expand_path(const std::string& path);
// load_all_documents() of a file, or of `in` if its name is "-". A file that cannot be read is an error.
LoadedDocuments load_file(const std::string& file, std::istream& in, Letters letters = Letters::kBoolean);

// validate() with locations, for each document in turn.
std::vector<FieldError> validate(const Document& document);

}  // namespace muster::crds
