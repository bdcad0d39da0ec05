#include "muster/crds/validate_files.h"

#include <map>
#include <nlohmann/json.hpp>
#include <ostream>

#include "muster/crds/documents.h"
#include "muster/crds/metadata.h"
#include "muster/crds/validate.h"
#include "types/json_text.h"

namespace muster::crds {
namespace {

class Run {
 public:
  Run(std::ostream& out, const Judge& judge) : out_(out), judge_(judge) {}

  void file(const std::string& name, std::istream& in) {
    const LoadedDocuments loaded = load_file(name, in);
    if (!loaded.errors.empty()) return unreadable(loaded.errors);
    for (const Document& document : loaded.documents) judge(document);
  }

  FilesVerdict verdict;

 private:
  void unreadable(const std::vector<FieldError>& errors) {
    ++verdict.unreadable;
    for (const FieldError& error : errors) out_ << to_string(error) << '\n';
  }

  void judge(const Document& document) {
    const Json& object = *document.object;
    const std::string_view api_version = text_of(member(object, "apiVersion"));
    const bool ours = api_version.empty() || api_version.substr(0, api_version.find('/')) == kGroup;
    if (!ours) {
      ++verdict.passed_over;
      return;
    }
    std::vector<FieldError> errors = validate(document);
    if (errors.empty() && judge_) {
      errors = judge_(object);
      for (FieldError& error : errors) error.location = document.location(error.field);
    }
    const std::string where = document.location("");
    const Json* metadata = member(object, "metadata");
    if (!text_of(member(metadata, "name")).empty()) {
      const auto [first, is_first] = seen_.emplace(object_name(object), where);
      if (!is_first) {
        errors.push_back({object_name(object), "metadata.name",
                          "must not be stated twice, is also at " + first->second,
                          document.location("metadata.name")});
      }
    }
    (errors.empty() ? verdict.valid : verdict.invalid) += 1;
    for (const FieldError& error : errors) out_ << to_string(error) << '\n';
  }

  std::ostream& out_;
  const Judge& judge_;
  std::map<std::string, std::string> seen_;  // object -> where it was first stated
};

}  // namespace

FilesVerdict validate_files(const std::vector<std::string>& files, std::istream& in, std::ostream& out,
                            const Judge& judge) {
  Run run(out, judge);
  for (const std::string& argument : files) {
    const std::vector<std::string> all = expand_path(argument);
    if (all.empty()) {
      out << argument << ": has no file named *.yaml, *.yml or *.json\n";
      ++run.verdict.unreadable;
    }
    for (const std::string& file : all) run.file(file, in);
  }
  const FilesVerdict& v = run.verdict;
  out << v.valid << " valid, " << v.invalid << " invalid";
  if (v.passed_over != 0) out << ", " << v.passed_over << " of other groups passed over";
  if (v.unreadable != 0)
    out << ", " << v.unreadable << (v.unreadable == 1 ? " file" : " files") << " not readable";
  out << '\n';
  return v;
}

}  // namespace muster::crds
