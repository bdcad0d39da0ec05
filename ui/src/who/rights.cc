#include "who/rights.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace muster::ui {
namespace {

bool sees_in(const Rights::OfKind& right, std::string_view key) {
  return right.everywhere || right.namespaces.contains(key.substr(0, key.find('/')));
}

}  // namespace

bool Rights::sees(Table table, std::string_view key) const {
  switch (table) {
    case Table::kAbout:
      return true;
    case Table::kQueues:
      return of(Kind::kQueues).everywhere;
    case Table::kProjects:
      return of(Kind::kProjects).everywhere;
    case Table::kUsage:
      return of(key.starts_with("queue/") ? Kind::kQueues : Kind::kProjects).everywhere;
    case Table::kPools:
      return of(Kind::kPools).everywhere;
    case Table::kNodes:
      return of(Kind::kNodes).everywhere;
    case Table::kJobs:
    case Table::kPlaces:
      return sees_in(of(Kind::kJobs), key);
    case Table::kServices:
      return sees_in(of(Kind::kServices), key);
  }
  return false;
}

std::string Rights::about(const std::string& key, const std::string& row) const {
  const auto name = std::ranges::find(kKindNames, key);
  if (name == kKindNames.end()) return row;
  const OfKind& right = kinds[static_cast<std::size_t>(name - kKindNames.begin())];
  if (right.everywhere) return row;
  if (right.namespaces.empty())
    return nlohmann::json{{"state", "forbidden"}, {"message", "You may not list " + key + "."}}.dump();
  auto about = nlohmann::json::parse(row, nullptr, false);
  if (!about.is_object()) return row;
  about["namespaces"] = right.namespaces;
  return about.dump();
}

Rights Rights::all() {
  Rights rights;
  for (OfKind& right : rights.kinds) right.everywhere = true;
  return rights;
}

}  // namespace muster::ui
