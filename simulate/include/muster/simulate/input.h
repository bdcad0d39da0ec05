// What a simulation is fed with: objects of Kubernetes and of Muster, when each is applied, and what is
// expected of the outcome. docs/simulate.md is the reference.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "muster/client/pod.h"
#include "muster/crds/crds.h"
#include "muster/crds/documents.h"
#include "muster/placement/node.h"
#include "muster/reconcilers/placement/node_topology.h"
#include "muster/reconcilers/pods/requests.h"
#include "muster/simulate/course.h"

namespace muster::simulate {

// Annotations of a workload that say how it behaves.
struct Behaviour {
  crds::Duration age{0};  // submitted so long before it is applied
  std::optional<crds::Duration> runs_for;
  std::optional<crds::Duration> running_for;
  std::optional<crds::Duration> checkpoint_age;
  crds::Duration saves_in{0};
  crds::Duration starts_in{0};            // from when its pods are made until they work
  crds::Duration resizes_in{0};           // it stands still so long when it is resized in place
  std::vector<Instant> program_fails_at;  // the program of one of its pods, if it runs then
  std::optional<Course> gpu_utilization;  // in percent; absent: it uses its GPUs
  std::optional<Course> load;             // crds::MilliLoad of all replicas; absent: none is told
};

struct NodeObject {
  client::Node node;
  std::optional<Instant> fail_at, recover_at;
};
// GPUs of a node (ResourceSlice); what the slice does not say is empty.
struct NodeDevices {
  std::string slice;
  std::string node;
  std::int32_t gpus = 0;
  std::string model;
  crds::Bytes memory;              // of one
  std::vector<std::int32_t> numa;  // of each; empty: not known
  // By their taints, from 0 in the slice. What is to be left is not to be given out either.
  std::vector<std::int32_t> not_to_be_given_out, to_be_left;
};
struct PriorityClass {
  std::string name;
  std::int32_t value = 0;
  bool global_default = false;
  bool operator==(const PriorityClass&) const = default;
};
// `needs` per role; with `invalid` it can never run, and says so. Of templates only what placement and a
// Project's policy look at.
struct JobObject {
  crds::TrainingJob job;
  Behaviour behaviour;
  std::vector<reconcilers::PodNeeds> needs;
  std::string invalid;
};
struct ServiceObject {
  crds::InferenceService service;
  std::string revision;       // of what its replicas are made from
  crds::TrainingJob replica;  // what each of them is; of no priority class where it names none
  Behaviour behaviour;
  std::vector<reconcilers::PodNeeds> needs;  // of each role of a replica
  std::string invalid;
};
// A pod of somebody else.
struct PodObject {
  client::Pod pod;
};
struct NamespaceObject {
  std::string name;
};

using Object = std::variant<NodeObject, reconcilers::NodeTopology, NodeDevices, PriorityClass, crds::NodePool,
                            crds::Queue, crds::Project, PodObject, NamespaceObject, JobObject, ServiceObject>;

// One object applied (or deleted) at one instant.
struct Change {
  Instant at{0};
  bool remove = false;
  std::string key;  // "TrainingJob team-a/big": the same object in several changes has the same
  std::shared_ptr<const Object> object;
  crds::Document source;  // for errors; its object is gone
};

// Checked when all decisions of its instant are taken.
struct Expectation {
  Instant at{0};
  crds::Json body;  // jobs, events, queues; as its schema has it
  crds::Document source;
};

// What the clock on the wall shows at instant 0, if nothing says otherwise: a Monday.
inline constexpr crds::Time kUsualBegin{std::chrono::sys_days{std::chrono::year{2024} / 1 / 1}};

struct Input {
  crds::Time begin = kUsualBegin;  // by a Calendar; schedules of Queues and Projects go by it
  std::vector<Change> changes;     // in the order of the files
  std::vector<Expectation> expectations;
  std::vector<crds::FieldError> errors;  // none: the rest can be simulated
  // What the operator would say in a condition, and go on: schedules that do not count.
  std::vector<crds::FieldError> warnings;
};

// Files, folders, "-" for `in`. Everything that is wrong is in `errors`, with file, line, field and
// what is allowed.
Input read_input(const std::vector<std::string>& files, std::istream& in);
// The same from text.
Input read_text(std::string_view text, const std::string& name);

}  // namespace muster::simulate
