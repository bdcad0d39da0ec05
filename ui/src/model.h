// What the page knows of the cluster: tables of rows, each row a piece of JSON under a key. It keeps account,
// for each browser, of what has changed since that browser was told.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

namespace muster::ui {

enum class Table : std::uint8_t {
  kAbout,     // what is read, and what may not be
  kQueues,    // by name
  kProjects,  // by name
  kUsage,     // GPU time by day: "queue/NAME", "project/NAME"
  kPools,     // by name
  kNodes,     // by name
  kJobs,      // by "namespace/name"
  kPlaces,    // the GPUs that a job holds; the same keys
  kServices,  // by "namespace/name"
};
inline constexpr std::array<std::string_view, 9> kTableNames = {
    "about", "queues", "projects", "usage", "pools", "nodes", "jobs", "places", "services"};

using Text = std::shared_ptr<const std::string>;  // JSON; nullptr: there is none

class Model {
 public:
  // One browser. The model outlives it.
  class Reader {
   public:
    // `on_change` is called when there is something to tell and was nothing before. It must not read.
    Reader(Model& model, std::function<void()> on_change);
    ~Reader();
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;

    // {"<table>":{"<key>":{…},…},…}: everything. What has changed before is told with it.
    std::string snapshot();
    bool has_changes() const;
    // In the same form, but only rows that have changed since the last call of snapshot() or changes(), as
    // they are now; null: the row is gone.
    std::string changes();

   private:
    friend class Model;
    void note(Table table, const std::string& key);

    Model& model_;
    std::function<void()> on_change_;
    std::array<std::set<std::string>, kTableNames.size()> changed_;
    std::list<Reader*>::iterator self_;
  };

  // A text that equals what is there changes nothing. nullptr: as erase().
  void set(Table table, const std::string& key, Text row);
  void erase(Table table, const std::string& key);

 private:
  using Rows = std::map<std::string, Text>;
  Rows& rows(Table table) { return tables_[static_cast<std::size_t>(table)]; }
  void tell(Table table, const std::string& key);

  std::array<Rows, kTableNames.size()> tables_;
  std::list<Reader*> readers_;
};

}  // namespace muster::ui
