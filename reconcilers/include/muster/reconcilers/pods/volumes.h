// PersistentVolumeClaims of a gang: where its volumes allow it to run, and what must happen before it can.
// Muster puts pods on nodes without kube-scheduler, so its duties towards volumes are Muster's: node affinity
// of bound volumes, and the selected node of claims that wait for their first consumer.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/client/error.h"
#include "muster/client/object.h"
#include "muster/crds/training_job.h"
#include "muster/reconcilers/pods/requests.h"

namespace muster::reconcilers {

struct PersistentVolumeClaim {
  client::Meta meta;
  std::string storage_class;  // empty: none
  std::string volume;         // spec.volumeName; empty: not chosen yet
  bool bound = false;         // status.phase Bound, and a volume
  bool lost = false;          // status.phase Lost: its volume is gone
  bool deleting = false;
  bool one_pod_only = false;  // access mode ReadWriteOncePod
  std::string selected_node;  // annotation volume.kubernetes.io/selected-node
  std::string owner_pod;  // name of the pod that controls it: the claim of an ephemeral volume; else empty
};

struct PersistentVolume {
  client::Meta meta;
  NodeTerms node_affinity;  // spec.nodeAffinity.required; empty: any node
  std::string claim_uid;    // spec.claimRef.uid
  bool deleting = false;
};

struct StorageClass {
  client::Meta meta;
  bool waits_for_consumer = false;  // volumeBindingMode WaitForFirstConsumer
  bool provisions = true;           // false: kubernetes.io/no-provisioner, volumes are made by hand
  NodeTerms allowed_topologies;     // empty: any node
};

// Decoders for client::Informer. Errors name the object and the field.
client::Result<PersistentVolumeClaim> decode_claim(std::string_view json);
client::Result<PersistentVolume> decode_volume(std::string_view json);
client::Result<StorageClass> decode_storage_class(std::string_view json);

// A volume with a claim of its own per pod, which Kubernetes makes after the pod. When it waits for its first
// consumer it needs selected_node_patch() with the node of `owner_pod`.
struct EphemeralVolume {
  std::string name;
  std::string storage_class;  // empty: the cluster's default

  bool operator==(const EphemeralVolume&) const = default;
};

// What a role's pods mount.
struct VolumeUse {
  // Names in the job's namespace, sorted, each once; the checkpoint claim included.
  std::vector<std::string> claims;
  std::vector<EphemeralVolume> ephemeral;
};
VolumeUse volumes_of(const crds::TrainingJob& job, const crds::Role& role);
// Some role's pods mount a claim, or have ephemeral volumes.
bool has_volumes(const crds::TrainingJob& job);
// The claim of a pod's ephemeral volume: "<pod>-<volume>".
std::string ephemeral_claim_name(std::string_view pod, std::string_view volume);

// Looks up cached objects; nullptr: not there.
struct VolumeLookup {
  std::function<const PersistentVolumeClaim*(std::string_view name)> claim;  // in the job's namespace
  std::function<const PersistentVolume*(std::string_view name)> volume;
  std::function<const StorageClass*(std::string_view name)> storage_class;
};

struct VolumeTerms {
  // Each of these must hold on the node, each by one of its alternatives.
  std::vector<NodeTerms> required;
  // Claims that need selected_node_patch() with the node of a pod that mounts them, before the pod is created
  // or right after. Until such a claim is bound, it holds its pod to the selected node; if several pods mount
  // it, it blocks them.
  std::vector<std::string> need_selected_node;
  // Why it cannot be placed now, as a sentence a person can act on; empty: it can.
  std::string blocked;
};

// Claims of pods of one role. `pods` is the number of pods of the job that mount them (for
// ReadWriteOncePod). O(claims).
VolumeTerms volume_terms(const std::vector<std::string>& claims, std::int32_t pods,
                         const VolumeLookup& lookup);
// True: nobody has chosen a node for this unbound claim yet, and its StorageClass waits for that.
bool needs_selected_node(const PersistentVolumeClaim& claim, const VolumeLookup& lookup);
// For a whole job: one entry per role, in order, with the topologies of ephemeral volumes; the first
// `blocked` counts.
std::vector<VolumeTerms> volume_terms(const crds::TrainingJob& job, const VolumeLookup& lookup);

inline constexpr std::string_view kSelectedNodeAnnotation = "volume.kubernetes.io/selected-node";
// JSON merge patch of a claim; with its resourceVersion, so that another's choice is not overwritten.
std::string selected_node_patch(std::string_view node, std::string_view resource_version);

}  // namespace muster::reconcilers
