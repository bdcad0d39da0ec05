// `muster validate -f FILE…`: files in, a verdict in words out.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "muster/crds/common.h"
#include "muster/crds/error.h"

namespace muster::crds {

struct FilesVerdict {
  int valid = 0;        // objects of Muster that the API server would accept
  int invalid = 0;      // objects of Muster that it would refuse
  int passed_over = 0;  // objects of other groups
  int unreadable = 0;   // files that are not there, or no YAML
  // 0: all is well; 1: an object is invalid; 2: a file cannot be read.
  int exit_code() const { return unreadable != 0 ? 2 : invalid != 0 ? 1 : 0; }
};

// What else is wrong with an object that the API server would accept; each error's location is found here.
using Judge = std::function<std::vector<FieldError>(const Json& object)>;

// Validates every object of every file. A file is YAML or JSON with one document or several, a folder (its
// *.yaml, *.yml and *.json, those below too), or "-" for `in`. Each error is one line on `out`, with file,
// line, object, field and what is allowed. A last line counts. Objects of other groups are passed over. It is
// an error if all the files together state one object (kind, namespace, name) twice.
FilesVerdict validate_files(const std::vector<std::string>& files, std::istream& in, std::ostream& out,
                            const Judge& judge = {});

}  // namespace muster::crds
