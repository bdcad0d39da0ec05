// What the files of good/ and bad/ say: the objects, and for bad ones the field and the words that their
// refusal must hold.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "muster/crds/documents.h"

namespace muster::crds {

struct ObjectFile {
  std::string name;  // without ".yaml"
  std::string text;
  std::vector<Document> documents;  // of two, the second is an update of the first
  std::string field;                // "# field: "
  std::string message;              // "# message: ", the server's words
  std::string offline;              // "# offline: ", ours; the same as `message` for rules
};

inline std::string comment(const std::string& text, const std::string& key) {
  const std::string start = "# " + key + ": ";
  const std::size_t at = text.find(start);
  if (at == std::string::npos) return {};
  return text.substr(at + start.size(), text.find('\n', at) - at - start.size());
}

// All files of a folder, by name. A file that cannot be loaded has no documents.
inline std::vector<ObjectFile> object_files(const std::filesystem::path& folder) {
  std::vector<ObjectFile> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".yaml") continue;
    ObjectFile file;
    file.name = entry.path().stem();
    std::ifstream in(entry.path());
    file.text.assign(std::istreambuf_iterator<char>(in), {});
    if (auto documents = load_documents(file.text, entry.path().filename()))
      file.documents = *std::move(documents);
    file.field = comment(file.text, "field");
    file.message = comment(file.text, "message");
    file.offline = comment(file.text, "offline");
    if (file.offline.empty()) file.offline = file.message;
    files.push_back(std::move(file));
  }
  std::ranges::sort(files, {}, &ObjectFile::name);
  return files;
}

}  // namespace muster::crds
