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

Model::Reader::Reader(Model& model, std::function<void()> on_change, std::shared_ptr<const Rights> rights)
    : model_(model),
      on_change_(std::move(on_change)),
      rights_(std::move(rights)),
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
    const auto table = static_cast<Table>(t);
    for (const auto& [key, row] : model_.tables_[t]) {
      if (!rights_->sees(table, key)) continue;
      append_name(text, key);
      text += text_of(table, key, *row);
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
      const auto table = static_cast<Table>(t);
      const bool is_seen = row != model_.tables_[t].end() && rights_->sees(table, key);
      text += is_seen ? text_of(table, key, *row->second) : "null";
    }
    text += '}';
  }
  return text + '}';
}

std::string Model::Reader::text_of(Table table, const std::string& key, const std::string& row) const {
  return table == Table::kAbout ? rights_->about(key, row) : row;
}

void Model::Reader::set_rights(std::shared_ptr<const Rights> rights) {
  if (*rights == *rights_) return;
  const auto before = std::exchange(rights_, std::move(rights));
  const bool had = has_changes();
  for (std::size_t t = 0; t < kTableNames.size(); ++t) {
    const auto table = static_cast<Table>(t);
    for (const auto& [key, row] : model_.tables_[t]) {
      if (table == Table::kAbout || before->sees(table, key) != rights_->sees(table, key))
        changed_[t].insert(key);
    }
  }
  if (!had && has_changes()) on_change_();
}

void Model::Reader::note(Table table, const std::string& key) {
  if (!rights_->sees(table, key)) return;
  const bool had = has_changes();
  changed_[static_cast<std::size_t>(table)].insert(key);
  if (!had) on_change_();
}

void Model::set(Table table, const std::string& key, Text row) {
  if (!row) return erase(table, key);
  Text& place = rows(table)[key];
  if (place && *place == *row) return;
  if (!place || table == Table::kProjects) namespaces_changed_ = true;
  place = std::move(row);
  tell(table, key);
}

void Model::erase(Table table, const std::string& key) {
  if (rows(table).erase(key) == 0) return;
  namespaces_changed_ = true;
  tell(table, key);
}

const std::set<std::string>& Model::namespaces() {
  if (!std::exchange(namespaces_changed_, false)) return namespaces_;
  namespaces_.clear();
  for (const Table table : {Table::kJobs, Table::kServices}) {
    const Rows& all = rows(table);
    for (auto at = all.begin(); at != all.end();) {
      const std::string ns = at->first.substr(0, at->first.find('/'));
      namespaces_.insert(ns);
      at = all.lower_bound(ns + static_cast<char>('/' + 1));  // behind all of this namespace
    }
  }
  for (const auto& [name, row] : rows(Table::kProjects)) {
    const auto project = nlohmann::json::parse(*row, nullptr, false);
    if (project.is_object()) namespaces_.insert(project.value("namespace", name));
  }
  return namespaces_;
}

void Model::tell(Table table, const std::string& key) {
  for (Reader* reader : readers_) reader->note(table, key);
}

}  // namespace muster::ui
