#include "yaml/yaml_cpp.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <sstream>

namespace muster::crds {
namespace {

bool is_marker(std::string_view line, std::string_view marker) {
  return line.starts_with(marker) &&
         (line.size() == marker.size() || line[3] == ' ' || line[3] == '\t' || line[3] == '\r');
}

// Where a document begins; the rest does not matter.
class Beginning : public YAML::EventHandler {
 public:
  int line = 0;  // from 0

  void OnDocumentStart(const YAML::Mark& mark) override { line = std::max(mark.line, 0); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
  }
  void OnMapEnd() override {}
};

}  // namespace

std::vector<YamlText> split_documents(std::string_view text) {
  std::vector<YamlText> slices;
  std::size_t begin = 0;
  int begin_line = 1;
  int line = 1;
  const auto end_at = [&](std::size_t end) {
    if (end > begin) slices.push_back({text.substr(begin, end - begin), begin_line});
  };
  for (std::size_t at = 0; at < text.size(); ++line) {
    const std::size_t newline = std::min(text.find('\n', at), text.size());
    const std::string_view current = text.substr(at, newline - at);
    const std::size_t next = std::min(newline + 1, text.size());
    if (is_marker(current, "---")) {
      end_at(at);
      // What follows the marker on its line belongs to the document.
      begin = at + 3;
      begin_line = line;
    } else if (is_marker(current, "...")) {
      end_at(at);
      begin = next;
      begin_line = line + 1;
    }
    at = next;
  }
  end_at(text.size());
  return slices;
}

bool is_indented_by_tab(std::string_view text, int line) {
  for (; line > 0; --line) {
    const std::size_t newline = text.find('\n');
    if (newline == std::string_view::npos) return false;
    text.remove_prefix(newline + 1);
  }
  return text.substr(0, std::min(text.find_first_not_of(" \t"), text.size())).find('\t') !=
         std::string_view::npos;
}

std::optional<int> second_document(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  Beginning beginning;
  if (!parser.HandleNextDocument(beginning) || !parser.HandleNextDocument(beginning)) return std::nullopt;
  return beginning.line;
}

}  // namespace muster::crds
