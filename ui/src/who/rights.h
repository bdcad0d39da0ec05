// Which rows of the model (model.h) somebody may see.
#pragma once

#include <array>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>

#include "tables.h"

namespace muster::ui {

// Kinds of objects, by the names that Table::kAbout has for them.
enum class Kind : std::uint8_t { kQueues, kProjects, kPools, kNodes, kJobs, kServices };
inline constexpr std::array<std::string_view, 6> kKindNames = {"queues", "projects", "pools",
                                                               "nodes",  "jobs",     "services"};

struct Rights {
  // May list the kind: everywhere, or in these namespaces.
  struct OfKind {
    bool everywhere = false;
    std::set<std::string, std::less<>> namespaces{};
    bool operator==(const OfKind&) const = default;
  };
  std::array<OfKind, kKindNames.size()> kinds{};

  bool operator==(const Rights&) const = default;
  OfKind& of(Kind kind) { return kinds[static_cast<std::size_t>(kind)]; }
  const OfKind& of(Kind kind) const { return kinds[static_cast<std::size_t>(kind)]; }

  bool sees(Table table, std::string_view key) const;
  // What a row of Table::kAbout says to whoever has these rights.
  std::string about(const std::string& key, const std::string& row) const;

  static Rights all();
};

}  // namespace muster::ui
