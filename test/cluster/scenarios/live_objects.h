// Objects of a scenario in a cluster.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fixture.h"
#include "compressed.h"

namespace muster::test {

class LiveObjects {
 public:
  explicit LiveObjects(Cluster& cluster) : cluster_(cluster) {}

  // Every namespace that any document names, with the label by which its Project adopts it.
  void make_namespaces(const Documents& documents);
  // Creates or edits the object of a document, without its status; but nodes have theirs. Of two workloads,
  // Queues or Projects the one that is applied first is the older one to the operator, too: age counts in
  // seconds and then by name, so it may wait for the next second.
  void apply(const json& document);
  void remove(const json& document);
  void set_down(const json& node, bool is_down);
  void wait_for_nodes();     // until all that apply() has made are Ready
  void wait_for_projects();  // until all have their namespace

  // Writes the assignment that the document states, as the operator would.
  void assign(const json& document, const Documents& documents);
  // It runs: writes that it will have done so for as long as the document says when the scenario begins, with
  // its checkpoint. `begin`: since the epoch.
  void date_back(const json& document, seconds begin);

  std::uint64_t version() const;  // of the newest write
  // How jobs, services and the tree of queues differ from the report of a simulation.
  std::vector<std::string> differences(const json& report) const;
  // What of an Expectation's `jobs` does not hold.
  std::vector<std::string> unmet(const json& expectation) const;

 private:
  json live_form(const json& document) const;
  void wait_for_seniority(const json& document);
  void must(const testcluster::Result<testcluster::HttpResponse>& answer, const std::string& what) const;
  void put_status(const json& document, const json& status, const std::string& what);
  void date_pods_back(const json& document, seconds begin);

  Cluster& cluster_;
  std::vector<std::string> new_nodes_;  // paths
  std::string last_key_, last_kind_;
  seconds last_age_{0}, last_second_{0};
};

}  // namespace muster::test
