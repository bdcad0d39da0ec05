#include "muster/crds/validate_files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>

#include "json_text.h"
#include "muster/crds/documents.h"
#include "muster/crds/metadata.h"
#include "muster/crds/validate.h"

namespace muster::crds {
namespace {

namespace fs = std::filesystem;

bool is_object_file(const fs::path& path) {
  const std::string extension = path.extension();
  return extension == ".yaml" || extension == ".yml" || extension == ".json";
}

// A folder's files in the order of their names; anything else is itself.
std::vector<std::string> expanded(const std::string& file) {
  std::error_code error;
  if (file == "-" || !fs::is_directory(file, error)) return {file};
  std::vector<std::string> files;
  for (fs::recursive_directory_iterator it(file, error), end; !error && it != end; it.increment(error)) {
    if (it->is_regular_file(error) && is_object_file(it->path())) files.push_back(it->path());
  }
  std::ranges::sort(files);
  return files;
}

std::string contents(std::istream& in) {
  return {std::istreambuf_iterator<char>(in), {}};
}

class Run {
 public:
  explicit Run(std::ostream& out) : out_(out) {}

  void file(const std::string& name, std::istream& in) {
    std::expected<std::vector<Document>, FieldError> documents;
    if (name == "-") {
      documents = load_documents(contents(in), "standard input");
    } else {
      std::error_code error;
      std::ifstream stream(name);
      if (!stream || fs::is_directory(name, error)) {
        unreadable({{}, {}, "cannot be read", name});
        return;
      }
      documents = load_documents(contents(stream), name);
    }
    if (!documents) {
      unreadable(documents.error());
      return;
    }
    for (const Document& document : *documents) judge(document);
  }

  FilesVerdict verdict;

 private:
  void unreadable(const FieldError& error) {
    ++verdict.unreadable;
    out_ << to_string(error) << '\n';
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
  std::map<std::string, std::string> seen_;  // object -> where it was first stated
};

}  // namespace

FilesVerdict validate_files(const std::vector<std::string>& files, std::istream& in, std::ostream& out) {
  Run run(out);
  for (const std::string& argument : files) {
    const std::vector<std::string> all = expanded(argument);
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
