// What the page knows of the cluster: tables of rows, each row a piece of JSON under a key. It keeps account,
// for each browser, of what has changed since that browser was told.
#pragma once

#include <array>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "one/service_past.h"
#include "tables.h"
#include "who/rights.h"

namespace muster::ui {

using Text = std::shared_ptr<const std::string>;  // JSON; nullptr: there is none

class Model {
 public:
  // One browser. The model outlives it.
  class Reader {
   public:
    // Is told only what `rights` let it see, and not even that there is anything else. `on_change` is called
    // when there is something to tell and was nothing before. It must not read.
    Reader(Model& model, std::function<void()> on_change,
           std::shared_ptr<const Rights> rights = std::make_shared<const Rights>(Rights::all()));
    ~Reader();
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;

    // {"<table>":{"<key>":{…},…},…}: everything. What has changed before is told with it.
    std::string snapshot();
    bool has_changes() const;
    // From now on. What it may see no longer is told as gone, what it may see now as new.
    void set_rights(std::shared_ptr<const Rights> rights);
    // In the same form, but only rows that have changed since the last call of snapshot() or changes(), as
    // they are now; null: the row is gone.
    std::string changes();

   private:
    friend class Model;
    void note(Table table, const std::string& key);
    std::string text_of(Table table, const std::string& key, const std::string& row) const;

    Model& model_;
    std::function<void()> on_change_;
    std::shared_ptr<const Rights> rights_;
    std::array<std::set<std::string>, kTableNames.size()> changed_;
    std::list<Reader*>::iterator self_;
  };

  // A text that equals what is there changes nothing. nullptr: as erase().
  void set(Table table, const std::string& key, Text row);
  void erase(Table table, const std::string& key);
  // Rows of something are still to come. At first nothing is.
  void set_loading(bool is_loading) { is_loading_ = is_loading; }
  bool is_loading() const { return is_loading_; }
  // Asked for about one service: browsers are not told of it.
  ServicePast& service_past() { return service_past_; }
  // Those of jobs, services and Projects. Good until the next change.
  const std::set<std::string>& namespaces();

 private:
  using Rows = std::map<std::string, Text>;
  Rows& rows(Table table) { return tables_[static_cast<std::size_t>(table)]; }
  void tell(Table table, const std::string& key);

  std::array<Rows, kTableNames.size()> tables_;
  ServicePast service_past_;
  std::list<Reader*> readers_;
  std::set<std::string> namespaces_;
  bool namespaces_changed_ = false;
  bool is_loading_ = false;
};

}  // namespace muster::ui
