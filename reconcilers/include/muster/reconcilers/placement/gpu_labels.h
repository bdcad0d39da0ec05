// Which labels of nodes say what GPUs they have: those that their NodePools state.
#pragma once

#include <map>
#include <string>

#include "muster/crds/node_pool.h"
#include "muster/placement/node.h"

namespace muster::reconcilers {

class GpuLabelsOfPools {
 public:
  // True: nodes may read otherwise now.
  bool set(const crds::NodePool& pool);
  bool remove(const std::string& pool);
  // Model and memory of a node whose pool states its labels, in place of what node_spec() has read. A node of
  // two pools is used by neither, so it does not matter which of them is asked.
  void read(placement::NodeSpec& node) const;

 private:
  struct Stated {
    crds::LabelSelector nodes;
    crds::GpuLabels labels;

    bool operator==(const Stated&) const = default;
  };
  std::map<std::string, Stated> pools_;  // those that state any
};

}  // namespace muster::reconcilers
