// Watches what the user may read, and keeps the model of it up to date.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model.h"
#include "muster/client/api.h"
#include "muster/client/task_group.h"

namespace muster::ui {

// Thread: the client's executor only. Client and model outlive it.
//
// Each kind is read of all namespaces if that is allowed; else of those of `namespaces` in which it is
// allowed. What may not be read at all is asked for again every half minute, since rights may be given
// meanwhile. Table::kAbout has a row for each kind that says which of this is so:
//
//   {"state":"loading"|"read"|"forbidden"|"missing"|"failing","namespaces":["…"],"message":"…"}
//
// missing: the API server does not know the kind. failing: what is shown may be old; the message says why.
class ClusterView {
 public:
  ClusterView(client::ApiClient& api, Model& model, std::vector<std::string> namespaces);
  ~ClusterView();
  ClusterView(const ClusterView&) = delete;
  ClusterView& operator=(const ClusterView&) = delete;

  void start(client::TaskGroup& tasks);

  class Watched;  // one kind that is watched

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::ui
