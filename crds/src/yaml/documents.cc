#include "muster/crds/documents.h"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <istream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "muster/crds/validate.h"
#include "types/json_text.h"
#include "yaml/yaml_cpp.h"
#include "yaml/yaml_json.h"

namespace muster::crds {
namespace {

// The node of a field and the line of the deepest part of it that is there. Keys may contain dots
// ("labels.muster.dev/x"), so the longest key that fits is taken.
int line_of(const YAML::Node& root, std::string_view field) {
  YAML::Node node = root;
  int line = root.Mark().line;
  while (!field.empty()) {
    if (field[0] == '.') field.remove_prefix(1);
    if (field[0] == '[') {
      const std::size_t close = field.find(']');
      std::size_t index = 0;
      if (close == std::string_view::npos || !node.IsSequence()) return line;
      std::from_chars(field.data() + 1, field.data() + close, index);
      if (index >= node.size()) return line;
      const YAML::Node item = node[index];
      node.reset(item);
      line = node.Mark().line;
      field.remove_prefix(close + 1);
      continue;
    }
    if (!node.IsMap()) return line;
    std::size_t best = 0;
    YAML::Node found;
    for (const auto& entry : node) {
      const YAML::Node& key = entry.first;
      if (!key.IsScalar()) continue;
      const std::string& name = key.Scalar();
      const bool fits = field.starts_with(name) && (field.size() == name.size() ||
                                                    field[name.size()] == '.' || field[name.size()] == '[');
      if (!fits || name.size() <= best) continue;
      best = name.size();
      line = key.Mark().line;
      found.reset(entry.second);
    }
    if (best == 0) return line;
    node.reset(found);
    field.remove_prefix(best);
  }
  return line;
}

std::string place(const std::string& file, int line) {
  return file + ":" + std::to_string(line);
}

void add(std::vector<Document>& documents, Json object, const Document& like) {
  const Json* items = member(object, "items");
  const std::string_view kind = text_of(member(object, "kind"));
  if (!kind.ends_with("List") || items == nullptr || !items->is_array()) {
    Document document = like;
    document.object = std::make_shared<Json>(std::move(object));
    documents.push_back(std::move(document));
    return;
  }
  for (std::size_t i = 0; i < items->size(); ++i) {
    Document document = like;
    document.inside = "items[" + std::to_string(i) + "]";
    document.object = std::make_shared<Json>((*items)[i]);
    // Items of a QueueList need not say that they are Queues.
    Json& item = *document.object;
    if (item.is_object() && kind != "List") {
      item.emplace("apiVersion", object.value("apiVersion", Json()));
      item.emplace("kind", kind.substr(0, kind.size() - std::string_view("List").size()));
    }
    documents.push_back(std::move(document));
  }
}

// What is no UTF-8, and what has zeros in it, as UTF-16 has; nullopt: neither.
std::optional<FieldError> not_text(std::string_view text, const std::string& file) {
  const auto is_text = [](std::string_view part) {
    return part.find('\0') == std::string_view::npos && simdjson::validate_utf8(part.data(), part.size());
  };
  if (is_text(text)) return std::nullopt;
  int line = 1;
  for (std::size_t at = 0; at < text.size(); ++line) {
    const std::size_t newline = std::min(text.find('\n', at), text.size());
    if (!is_text(text.substr(at, newline - at))) break;
    at = newline + 1;
  }
  return FieldError{{}, {}, "must be text in UTF-8", place(file, line)};
}

// nullopt: empty. `document` has file, line and text.
std::expected<std::optional<Json>, FieldError> parse(const Document& document, Letters letters) {
  try {
    const YAML::Node node = YAML::Load(*document.text);
    if (const auto line = second_document(*document.text)) {
      return std::unexpected(FieldError{
          {},
          {},
          "must end with its document: what begins here belongs to none; separate documents by ---",
          place(document.file, document.line + *line)});
    }
    if (node.IsNull()) return std::nullopt;
    auto json = to_json(node, values_in(document.text->size()), letters);
    if (json) return *std::move(json);
    return std::unexpected(FieldError{{},
                                      json.error().field,
                                      json.error().message,
                                      place(document.file, document.line + json.error().line - 1)});
  } catch (const YAML::Exception& e) {
    const int line = e.mark.is_null() ? 0 : e.mark.line;
    const std::string why =
        is_indented_by_tab(*document.text, line) ? "lines are indented by spaces, and here is a tab" : e.msg;
    return std::unexpected(
        FieldError{{}, {}, "must be YAML: " + why, place(document.file, document.line + line)});
  }
}

}  // namespace

std::string Document::location(std::string_view field) const {
  std::string path = inside;
  if (!path.empty() && !field.empty()) path += '.';
  path += field;
  int inner = 0;
  try {
    inner = line_of(YAML::Load(*text), path);
  } catch (const YAML::Exception&) {
    inner = 0;  // it was YAML when it was loaded; a line is not worth more
  }
  return place(file, line + std::max(inner, 0));
}

LoadedDocuments load_all_documents(std::string_view text, const std::string& file, Letters letters) {
  LoadedDocuments loaded;
  if (auto error = not_text(text, file)) {
    loaded.errors.push_back(std::move(*error));
    return loaded;
  }
  std::vector<Document> found;
  for (const YamlText& slice : split_documents(text)) {
    Document document;
    document.file = file;
    document.line = slice.line;
    document.text = std::make_shared<const std::string>(slice.text);
    auto json = parse(document, letters);
    if (!json) loaded.errors.push_back(std::move(json.error()));
    if (!json || !*json) continue;
    found.clear();
    add(found, **std::move(json), document);
    for (Document& one : found) {
      if (one.object->is_object()) {
        loaded.documents.push_back(std::move(one));
      } else {
        loaded.errors.push_back(
            {{},
             one.inside,
             "must be an object, is " + shown(*one.object) +
                 (one.object->is_array()
                      ? "; several objects are documents separated by ---, or the items of a List"
                      : ""),
             one.location("")});
      }
    }
  }
  return loaded;
}

std::expected<std::vector<Document>, FieldError> load_documents(std::string_view text, std::string file) {
  LoadedDocuments loaded = load_all_documents(text, file);
  if (!loaded.errors.empty()) return std::unexpected(std::move(loaded.errors.front()));
  return std::move(loaded.documents);
}

std::vector<std::string> expand_path(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (path == "-" || !fs::is_directory(path, error)) return {path};
  std::vector<std::string> files;
  for (fs::recursive_directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    const std::string extension = it->path().extension();
    const bool is_object = extension == ".yaml" || extension == ".yml" || extension == ".json";
    if (is_object && it->is_regular_file(error)) files.push_back(it->path());
  }
  std::ranges::sort(files);
  return files;
}

LoadedDocuments load_file(const std::string& file, std::istream& in, Letters letters) {
  const auto contents = [](std::istream& stream) {
    return std::string(std::istreambuf_iterator(stream), {});
  };
  if (file == "-") return load_all_documents(contents(in), "standard input", letters);
  std::error_code error;
  std::ifstream stream(file);
  if (!stream || std::filesystem::is_directory(file, error)) return {{}, {{{}, {}, "cannot be read", file}}};
  return load_all_documents(contents(stream), file, letters);
}

std::vector<FieldError> validate(const Document& document) {
  std::vector<FieldError> errors = validate(*document.object);
  for (FieldError& error : errors) error.location = document.location(error.field);
  return errors;
}

}  // namespace muster::crds
