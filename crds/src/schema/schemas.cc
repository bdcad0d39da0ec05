#include <nlohmann/json.hpp>
#include <stdexcept>

#include "muster/crds/metadata.h"
#include "muster/crds/validate.h"
#include "schema/embedded.h"
#include "types/json_text.h"
#include "yaml/yaml_json.h"

namespace muster::crds {
namespace {

// The compiled-in files are ours: anything wrong with them is a bug.
std::vector<Crd> load() {
  std::vector<Crd> crds;
  for (std::size_t i = 0; i < kEmbeddedFileCount; ++i) {
    const EmbeddedFile& file = kEmbeddedFiles[i];
    auto json = to_json(YAML::Load(std::string(file.text)), values_in(file.text.size()));
    if (!json)
      throw std::logic_error(std::string(file.name) + ": " + json.error().field + ": " +
                             json.error().message);
    const Json& spec = json->at("spec");
    const Json& version = spec.at("versions").at(0);
    Crd crd;
    crd.file = file.name;
    crd.yaml = file.text;
    crd.kind = spec.at("names").at("kind");
    crd.plural = spec.at("names").at("plural");
    crd.namespaced = spec.at("scope") == "Namespaced";
    crd.schema = new Json(version.at("schema").at("openAPIV3Schema"));  // lives as long as the program
    crds.push_back(std::move(crd));
  }
  return crds;
}

}  // namespace

std::span<const Crd> all_crds() {
  static const std::vector<Crd>& crds = *new std::vector<Crd>(load());
  return crds;
}

const Crd* find_crd(std::string_view api_version, std::string_view kind) {
  if (api_version != kApiVersion) return nullptr;
  for (const Crd& crd : all_crds()) {
    if (crd.kind == kind) return &crd;
  }
  return nullptr;
}

std::string object_name(const Json& object) {
  std::string text(text_of(member(object, "kind")));
  const Json* metadata = member(object, "metadata");
  std::string name(text_of(member(metadata, "name")));
  if (name.empty()) {
    name = text_of(member(metadata, "generateName"));
    if (!name.empty()) name += '*';
  }
  const std::string_view ns = text_of(member(metadata, "namespace"));
  if (!ns.empty() && !name.empty()) name = std::string(ns) + "/" + name;
  if (!text.empty() && !name.empty()) text += ' ';
  return text + name;
}

}  // namespace muster::crds
