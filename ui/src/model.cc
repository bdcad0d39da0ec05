#include "model.h"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>

namespace muster::ui {
namespace {

void append_name(std::string& text, std::string_view name) {
  if (text.back() != '{') text += ',';
  text += nlohmann::json(name).dump();
  text += ':';
}

}  // namespace

Model::Reader::Reader(Model& model, std::function<void()> on_change)
    : model_(model),
      on_change_(std::move(on_change)),
      self_(model.readers_.insert(model.readers_.end(), this)) {}

Model::Reader::~Reader() {
  model_.readers_.erase(self_);
}

std::string Model::Reader::snapshot() {
  std::string text = "{";
  for (std::size_t t = 0; t < kTableNames.size(); ++t) {
    changed_[t].clear();
    append_name(text, kTableNames[t]);
    text += '{';
    for (const auto& [key, row] : model_.tables_[t]) {
      append_name(text, key);
      text += *row;
    }
    text += '}';
  }
  return text + '}';
}

bool Model::Reader::has_changes() const {
  for (const auto& keys : changed_) {
    if (!keys.empty()) return true;
  }
  return false;
}

std::string Model::Reader::changes() {
  std::string text = "{";
  for (std::size_t t = 0; t < kTableNames.size(); ++t) {
    const auto keys = std::exchange(changed_[t], {});
    if (keys.empty()) continue;
    append_name(text, kTableNames[t]);
    text += '{';
    for (const std::string& key : keys) {
      append_name(text, key);
      const auto row = model_.tables_[t].find(key);
      text += row == model_.tables_[t].end() ? "null" : *row->second;
    }
    text += '}';
  }
  return text + '}';
}

void Model::Reader::note(Table table, const std::string& key) {
  const bool had = has_changes();
  changed_[static_cast<std::size_t>(table)].insert(key);
  if (!had) on_change_();
}

void Model::set(Table table, const std::string& key, Text row) {
  if (!row) return erase(table, key);
  Text& place = rows(table)[key];
  if (place && *place == *row) return;
  place = std::move(row);
  tell(table, key);
}

void Model::erase(Table table, const std::string& key) {
  if (rows(table).erase(key) > 0) tell(table, key);
}

void Model::tell(Table table, const std::string& key) {
  for (Reader* reader : readers_) reader->note(table, key);
}

}  // namespace muster::ui
