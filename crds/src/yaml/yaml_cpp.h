// What is worked around in yaml-cpp 0.7, Debian 12's. This is the one place that tells it.
//
// yaml-cpp reads one document well: anchors, aliases, flow and block style, and the line of each node. These
// are the things that Muster does itself, and why:
//
// * Cutting a file into documents (split_documents). YAML::LoadAll never ends, and takes all memory, where a
//   document begins with a comma: it finds empty documents for ever (github.com/jbeder/yaml-cpp, issue 1040;
//   mended by pull request 1319 of 2024, which is in no version that Debian 12 has). It also holds all
//   documents of a file as nodes at once, which are many times the size of their text. YAML::Load, which
//   reads the first document only, has neither fault.
// * Finding what stands behind a document (second_document). YAML::Load passes over it without a word: of
//   "a: 1" and a line "}" below it only the first would be read. The parser's events tell that there is more.
//   They are asked for two documents at most, so the endless loop cannot come back here.
// * Saying that a line is indented by a tab (is_indented_by_tab). yaml-cpp's own message is about the end of
// a
//   map, and nobody finds the tab by it.
// * The type of a plain scalar, merge keys (<<), keys that are stated twice, and bounds on nesting and on the
//   values that aliases become (yaml_json.cc). yaml-cpp leaves types to its caller, takes the first of two
//   equal keys, and has no bounds. A cluster's reader takes YAML 1.1, in which "on" is true and 010 is 8; so
//   must a file that `muster validate` judges.
// * `node.reset(other)` instead of `node = other`: assignment writes through to the document that `node` is
//   a part of.
//
// client/src/config/config.cc reads a kubeconfig by YAML::LoadFile, which is YAML::Load: of these things only
// the last concerns it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::crds {

// The text of one document in a file.
struct YamlText {
  std::string_view text;
  int line;  // of its first line in the file, from 1
};

// Documents begin and end at "---" and "..." at the start of a line, wherever that is (YAML 1.1, 9.1.2).
std::vector<YamlText> split_documents(std::string_view text);

// The line, from 0, of what follows the first document of `text`; nullopt: nothing does. Throws
// YAML::Exception where the text is no YAML.
std::optional<int> second_document(const std::string& text);

// Whether there is a tab before the first other character of a line. `line` counts from 0.
bool is_indented_by_tab(std::string_view text, int line);

}  // namespace muster::crds
