// What a command lists, in each form in which people and programs want it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace muster::plugin {

enum class Format : std::uint8_t { kTable, kWide, kJson, kYaml, kCsv };

enum class Colour : std::uint8_t { kNone, kBold, kRed, kYellow, kGreen };
// `text` as a terminal shows it in this colour.
std::string coloured(const std::string& text, Colour colour);

using Data = nlohmann::ordered_json;

// Where a column is shown. Data are JSON, YAML and CSV.
enum class Shown : std::uint8_t { kEverywhere, kWideAndData, kTables, kData };
struct Column {
  std::string title;  // in tables
  std::string key;    // in data
  Shown shown = Shown::kEverywhere;
};

// `text` is for tables, `data` for programs. Data that are null are left out of JSON and YAML.
struct Cell {
  std::string text;
  Data data;
};
Cell cell(std::string text);         // "" is no data
Cell cell(std::int64_t number);      // 0 is shown
Cell positive(std::int64_t number);  // 0 is left empty

struct Row {
  std::vector<Cell> cells;  // one for each column
  Colour colour = Colour::kNone;
};

struct Listing {
  std::vector<Column> columns;
  std::vector<Row> rows;
  Data about = Data::object();  // fields of JSON and YAML beside `items`
  std::string footer;           // below tables
  std::string if_empty;         // in place of a table without rows
};

// Tables end in a newline, and so do all others. JSON and YAML are an object with `items`. `colours` is for
// tables only.
std::string print(const Listing& listing, Format format, bool colours);

// Text that holds one of what YAML takes for something else than text is quoted.
std::string to_yaml(const Data& data);

}  // namespace muster::plugin
