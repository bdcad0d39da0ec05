#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "commands.h"
#include "muster/crds/documents.h"
#include "muster/crds/metadata.h"

namespace muster::controller {
namespace {

namespace fs = std::filesystem;

bool is_manifest(const fs::path& path) {
  const auto e = path.extension();
  return e == ".yaml" || e == ".yml" || e == ".json";
}

// Directories become their manifests, sorted, without descending into hidden ones.
std::vector<std::string> expand(const std::vector<std::string>& names) {
  std::vector<std::string> files;
  for (const auto& name : names) {
    std::error_code error;
    if (name == "-" || !fs::is_directory(name, error)) {
      files.push_back(name);
      continue;
    }
    std::vector<std::string> inside;
    for (const auto& entry : fs::recursive_directory_iterator(name, error)) {
      if (entry.is_regular_file(error) && is_manifest(entry.path())) inside.push_back(entry.path().string());
    }
    std::sort(inside.begin(), inside.end());
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

bool read(const std::string& name, std::string& text) {
  std::ostringstream out;
  if (name == "-") {
    out << std::cin.rdbuf();
  } else {
    std::ifstream in(name, std::ios::binary);
    if (!in) return false;
    out << in.rdbuf();
  }
  text = out.str();
  return true;
}

}  // namespace

int run_validate(const std::vector<std::string>& names) {
  int valid = 0, invalid = 0, passed_over = 0;
  for (const auto& name : expand(names)) {
    std::string text;
    if (!read(name, text)) {
      std::fprintf(stderr, "%s: cannot be read\n", name.c_str());
      return 2;
    }
    const auto documents = crds::load_documents(text, name == "-" ? "standard input" : name);
    if (!documents) {
      std::printf("%s\n", crds::to_string(documents.error()).c_str());
      ++invalid;
      continue;
    }
    for (const auto& document : *documents) {
      if (const auto api = document.object->find("apiVersion");
          api != document.object->end() && api->is_string() &&
          !api->get_ref<const std::string&>().starts_with(std::string(crds::kGroup) + "/")) {
        ++passed_over;
        continue;
      }
      const auto errors = crds::validate(document);
      for (const auto& error : errors) std::printf("%s\n", crds::to_string(error).c_str());
      ++(errors.empty() ? valid : invalid);
    }
  }
  std::printf("%d valid, %d invalid, %d of other groups passed over\n", valid, invalid, passed_over);
  return invalid == 0 ? 0 : 1;
}

}  // namespace muster::controller
