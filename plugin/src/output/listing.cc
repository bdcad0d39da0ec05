#include "output/listing.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "muster/common/table.h"

namespace muster::plugin {
namespace {

bool is_in_table(const Column& column, bool wide) {
  return column.shown == Shown::kEverywhere || column.shown == Shown::kTables ||
         (wide && column.shown == Shown::kWideAndData);
}
bool is_in_data(const Column& column) {
  return column.shown != Shown::kTables;
}

std::string as_table(const Listing& listing, bool wide, bool colours) {
  if (listing.rows.empty()) return listing.if_empty;
  std::vector<std::vector<std::string>> rows(1);
  for (const Column& column : listing.columns) {
    if (is_in_table(column, wide)) rows.front().push_back(column.title);
  }
  for (const Row& row : listing.rows) {
    auto& cells = rows.emplace_back();
    for (std::size_t i = 0; i < listing.columns.size(); ++i) {
      if (is_in_table(listing.columns[i], wide)) cells.push_back(row.cells[i].text);
    }
  }
  const std::string text = table(rows);
  const std::string footer = listing.footer.empty() ? "" : "\n" + listing.footer;
  if (!colours) return text + footer;
  // A line is coloured as a whole: the codes would count in the widths of cells.
  std::istringstream lines(text);
  std::string line, painted;
  for (std::size_t i = 0; std::getline(lines, line); ++i)
    painted += coloured(line, i == 0 ? Colour::kBold : listing.rows[i - 1].colour) + '\n';
  return painted + footer;
}

Data as_data(const Listing& listing) {
  Data all = listing.about;
  Data& items = all["items"] = Data::array();
  for (const Row& row : listing.rows) {
    Data& item = items.emplace_back(Data::object());
    for (std::size_t i = 0; i < listing.columns.size(); ++i) {
      if (is_in_data(listing.columns[i]) && !row.cells[i].data.is_null())
        item[listing.columns[i].key] = row.cells[i].data;
    }
  }
  return all;
}

// RFC 4180.
std::string csv_field(const Data& data) {
  const std::string text = data.is_null() ? "" : data.is_string() ? data.get<std::string>() : data.dump();
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

std::string as_csv(const Listing& listing) {
  std::string text;
  const auto add_line = [&](const auto& field_of) {
    std::string line;
    bool is_first = true;
    for (std::size_t i = 0; i < listing.columns.size(); ++i) {
      if (!is_in_data(listing.columns[i])) continue;
      line += (is_first ? "" : ",") + field_of(i);
      is_first = false;
    }
    text += line + "\r\n";
  };
  add_line([&](std::size_t i) { return csv_field(listing.columns[i].key); });
  for (const Row& row : listing.rows) add_line([&](std::size_t i) { return csv_field(row.cells[i].data); });
  return text;
}

// Whether YAML 1.1 or 1.2 could take it for anything but this text.
bool needs_quotes(const std::string& text) {
  constexpr std::array<std::string_view, 9> kWords = {"true", "false", "yes", "no", "on",
                                                      "off",  "null",  "y",   "n"};
  if (text.empty() || std::isalpha(static_cast<unsigned char>(text.front())) == 0) return true;
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("_-./ ").find(static_cast<char>(c)) != std::string::npos;
  };
  if (!std::ranges::all_of(text, is_plain) || text.back() == ' ') return true;
  std::string small = text;
  std::ranges::transform(small, small.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::ranges::find(kWords, small) != kWords.end();
}

void emit(YAML::Emitter& out, const Data& data) {
  if (data.is_object()) {
    if (data.empty()) out << YAML::Flow;
    out << YAML::BeginMap;
    for (const auto& [key, value] : data.items()) {
      out << YAML::Key;
      emit(out, key);
      out << YAML::Value;
      emit(out, value);
    }
    out << YAML::EndMap;
  } else if (data.is_array()) {
    if (data.empty()) out << YAML::Flow;
    out << YAML::BeginSeq;
    for (const Data& item : data) emit(out, item);
    out << YAML::EndSeq;
  } else if (data.is_string()) {
    const auto& text = data.get_ref<const std::string&>();
    if (needs_quotes(text)) out << YAML::DoubleQuoted;
    out << text;
  } else {
    out << data.dump();
  }
}

}  // namespace

std::string coloured(const std::string& text, Colour colour) {
  constexpr std::array<std::string_view, 5> kCodes = {"", "\033[1m", "\033[31m", "\033[33m", "\033[32m"};
  const std::string_view code = kCodes[static_cast<std::size_t>(colour)];
  return code.empty() ? text : std::string(code) + text + "\033[0m";
}

Cell cell(std::string text) {
  Data data = text.empty() ? Data() : Data(text);
  return {std::move(text), std::move(data)};
}
Cell cell(std::int64_t number) {
  return {std::to_string(number), number};
}
Cell positive(std::int64_t number) {
  return number > 0 ? cell(number) : Cell{};
}

std::string print(const Listing& listing, Format format, bool colours) {
  switch (format) {
    case Format::kTable:
      return as_table(listing, false, colours);
    case Format::kWide:
      return as_table(listing, true, colours);
    case Format::kJson:
      return as_data(listing).dump(2) + '\n';
    case Format::kYaml:
      return to_yaml(as_data(listing));
    case Format::kCsv:
      return as_csv(listing);
  }
  return {};
}

std::string to_yaml(const Data& data) {
  YAML::Emitter out;
  emit(out, data);
  return std::string(out.c_str(), out.size()) + '\n';
}

}  // namespace muster::plugin
