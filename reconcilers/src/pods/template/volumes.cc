#include "muster/reconcilers/pods/volumes.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "muster/reconcilers/common/json_reader.h"
#include "pods/template/node_terms.h"

namespace muster::reconcilers {
namespace {

using client::Error;
using client::ErrorCode;

Error decode_error(std::string_view kind, const client::Meta& meta, const crds::FieldError& error) {
  return Error{.code = ErrorCode::kDecode,
               .message = std::string(kind) + " " + meta.key() + ": " + error.field + ": " + error.message};
}

bool is_deleting(const Json& object) {
  return find(&object, "metadata", "deletionTimestamp") != nullptr;
}

// The node that nobody but `node` is.
NodeTerms only_node(const std::string& node) {
  return {NodeTerm{.labels = {}, .fields = {{"metadata.name", NodeOperator::kIn, {node}}}}};
}

// What one claim says about where its pods may go.
struct ClaimTerms {
  NodeTerms required;
  bool needs_node = false;
  std::string blocked;
};

ClaimTerms blocked(std::string why) {
  return {.required = {}, .needs_node = false, .blocked = std::move(why)};
}

std::string in_quotes(std::string_view text) {
  return "\"" + std::string(text) + "\"";
}

ClaimTerms bound_terms(const PersistentVolumeClaim& claim, const VolumeLookup& lookup) {
  const std::string which =
      "PersistentVolume " + in_quotes(claim.volume) + " of claim " + in_quotes(claim.meta.name);
  const PersistentVolume* volume = lookup.volume(claim.volume);
  if (volume == nullptr) return blocked(which + " does not exist; restore it or make the claim anew");
  if (volume->deleting) return blocked(which + " is being deleted; use another claim");
  if (!volume->claim_uid.empty() && volume->claim_uid != claim.meta.uid) {
    return blocked(which + " belongs to another claim; make this claim anew");
  }
  return {.required = volume->node_affinity, .needs_node = false, .blocked = {}};
}

ClaimTerms unbound_terms(const PersistentVolumeClaim& claim, std::int32_t pods, const VolumeLookup& lookup) {
  const std::string which = "PersistentVolumeClaim " + in_quotes(claim.meta.name);
  if (!claim.volume.empty()) return blocked(which + " is being bound to volume " + in_quotes(claim.volume));
  if (claim.storage_class.empty()) {
    return blocked(which + " is not bound and has no StorageClass; make a volume for it or name a class");
  }
  const std::string by = "StorageClass " + in_quotes(claim.storage_class);
  const StorageClass* storage = lookup.storage_class(claim.storage_class);
  if (storage == nullptr) return blocked(which + " is not bound and its " + by + " does not exist");
  if (!storage->waits_for_consumer)
    return blocked(which + " is not bound yet; " + by +
                   " makes its volume at once, so look at the claim's events");
  if (!storage->provisions) {
    return blocked(which + " is not bound and " + by +
                   " makes no volumes; bind it to one by its spec.volumeName");
  }
  if (claim.selected_node.empty())
    return {.required = storage->allowed_topologies, .needs_node = true, .blocked = {}};
  if (pods <= 1) return {.required = only_node(claim.selected_node), .needs_node = false, .blocked = {}};
  return blocked(which + " is not bound yet; its volume is being made for node " +
                 in_quotes(claim.selected_node) + ", and where the gang can use it is known only then");
}

ClaimTerms terms_of(const std::string& name, std::int32_t pods, const VolumeLookup& lookup) {
  const std::string which = "PersistentVolumeClaim " + in_quotes(name);
  const PersistentVolumeClaim* claim = lookup.claim(name);
  if (claim == nullptr) return blocked(which + " does not exist in the job's namespace; create it");
  if (claim->deleting) return blocked(which + " is being deleted; create it anew or use another");
  if (claim->lost) return blocked(which + " has lost its volume; make the claim anew");
  if (claim->one_pod_only && pods > 1) {
    return blocked(which + " is ReadWriteOncePod, but " + std::to_string(pods) +
                   " pods of the job mount it; use ReadWriteMany");
  }
  return claim->bound ? bound_terms(*claim, lookup) : unbound_terms(*claim, pods, lookup);
}

// TopologySelectorTerm: keys with values, all of which must hold.
NodeTerms read_topologies(const Json* list) {
  NodeTerms all;
  for (const Json& item : items(list)) {
    NodeTerm term;
    for (const Json& expression : items(find(item, "matchLabelExpressions"))) {
      NodeRequirement r{text(find(expression, "key")), NodeOperator::kIn, {}};
      for (const Json& value : items(find(expression, "values"))) r.values.push_back(text(&value));
      term.labels.push_back(std::move(r));
    }
    // As Kubernetes has it, one term without expressions allows every node.
    if (term.labels.empty()) return {};
    all.push_back(std::move(term));
  }
  return all;
}

void add_terms(VolumeTerms& to, ClaimTerms from, const std::string& claim) {
  if (to.blocked.empty()) to.blocked = std::move(from.blocked);
  if (from.needs_node) to.need_selected_node.push_back(claim);
  const bool known = std::ranges::find(to.required, from.required) != to.required.end();
  if (!from.required.empty() && !known) to.required.push_back(std::move(from.required));
}

}  // namespace

client::Result<PersistentVolumeClaim> decode_claim(std::string_view json) {
  PersistentVolumeClaim claim;
  const auto object = read_object(json, "PersistentVolumeClaim");
  if (!object) return std::unexpected(object.error());
  claim.meta = meta_of(*object);
  const Json* meta = find(*object, "metadata");
  const Json* annotations = find(meta, "annotations");
  claim.selected_node = text(find(annotations, kSelectedNodeAnnotation));
  // The older way to name the class; where both are stated it counts.
  claim.storage_class = text(find(annotations, "volume.beta.kubernetes.io/storage-class"));
  const Json* spec = find(*object, "spec");
  if (claim.storage_class.empty()) claim.storage_class = text(find(spec, "storageClassName"));
  claim.volume = text(find(spec, "volumeName"));
  const std::string phase = text(find(&*object, "status", "phase"));
  claim.bound = phase == "Bound" && !claim.volume.empty();
  claim.lost = phase == "Lost";
  claim.deleting = is_deleting(*object);
  for (const Json& mode : items(find(spec, "accessModes"))) {
    if (text(&mode) == "ReadWriteOncePod") claim.one_pod_only = true;
  }
  for (const Json& owner : items(find(meta, "ownerReferences"))) {
    if (is_true(find(owner, "controller")) && text(find(owner, "kind")) == "Pod")
      claim.owner_pod = text(find(owner, "name"));
  }
  return claim;
}

client::Result<PersistentVolume> decode_volume(std::string_view json) {
  PersistentVolume volume;
  const auto object = read_object(json, "PersistentVolume");
  if (!object) return std::unexpected(object.error());
  volume.meta = meta_of(*object);
  const Json* spec = find(*object, "spec");
  const std::string field = "spec.nodeAffinity.required.nodeSelectorTerms";
  auto terms = read_node_terms(find(spec, "nodeAffinity", "required", "nodeSelectorTerms"), field);
  if (!terms) return std::unexpected(decode_error("PersistentVolume", volume.meta, terms.error()));
  volume.node_affinity = std::move(*terms);
  volume.claim_uid = text(find(spec, "claimRef", "uid"));
  volume.deleting = is_deleting(*object);
  return volume;
}

client::Result<StorageClass> decode_storage_class(std::string_view json) {
  StorageClass storage;
  const auto object = read_object(json, "StorageClass");
  if (!object) return std::unexpected(object.error());
  storage.meta = meta_of(*object);
  storage.waits_for_consumer = text(find(*object, "volumeBindingMode")) == "WaitForFirstConsumer";
  storage.provisions = text(find(*object, "provisioner")) != "kubernetes.io/no-provisioner";
  storage.allowed_topologies = read_topologies(find(*object, "allowedTopologies"));
  return storage;
}

VolumeUse volumes_of(const crds::TrainingJob& job, const crds::Role& role) {
  VolumeUse use;
  if (job.spec.checkpoint && !job.spec.checkpoint->claim_name.empty())
    use.claims.push_back(job.spec.checkpoint->claim_name);
  for (const Json& volume : items(find(role.pod_template.value.get(), "spec", "volumes"))) {
    const std::string claim = text(find(&volume, "persistentVolumeClaim", "claimName"));
    if (!claim.empty()) use.claims.push_back(claim);
    const Json* own = find(&volume, "ephemeral", "volumeClaimTemplate");
    if (own != nullptr)
      use.ephemeral.push_back({text(find(volume, "name")), text(find(own, "spec", "storageClassName"))});
  }
  std::ranges::sort(use.claims);
  const auto rest = std::ranges::unique(use.claims);
  use.claims.erase(rest.begin(), rest.end());
  return use;
}

bool has_volumes(const crds::TrainingJob& job) {
  return std::ranges::any_of(job.spec.roles, [&](const crds::Role& role) {
    const auto use = volumes_of(job, role);
    return !use.claims.empty() || !use.ephemeral.empty();
  });
}

std::string ephemeral_claim_name(std::string_view pod, std::string_view volume) {
  return std::string(pod) + "-" + std::string(volume);
}

VolumeTerms volume_terms(const std::vector<std::string>& claims, std::int32_t pods,
                         const VolumeLookup& lookup) {
  VolumeTerms all;
  for (const std::string& claim : claims) add_terms(all, terms_of(claim, pods, lookup), claim);
  return all;
}

bool needs_selected_node(const PersistentVolumeClaim& claim, const VolumeLookup& lookup) {
  if (claim.bound || claim.lost || claim.deleting || !claim.volume.empty() || !claim.selected_node.empty())
    return false;
  const StorageClass* storage = lookup.storage_class(claim.storage_class);
  return storage != nullptr && storage->waits_for_consumer && storage->provisions;
}

std::vector<VolumeTerms> volume_terms(const crds::TrainingJob& job, const VolumeLookup& lookup) {
  std::vector<VolumeUse> uses;
  std::map<std::string, std::int32_t> pods;
  for (const crds::Role& role : job.spec.roles) {
    uses.push_back(volumes_of(job, role));
    for (const std::string& claim : uses.back().claims) pods[claim] += crds::most_replicas(role);
  }
  std::vector<VolumeTerms> all;
  for (const VolumeUse& use : uses) {
    VolumeTerms& terms = all.emplace_back();
    for (const std::string& claim : use.claims) add_terms(terms, terms_of(claim, pods[claim], lookup), claim);
    for (const auto& [name, class_name] : use.ephemeral) {
      const StorageClass* storage = class_name.empty() ? nullptr : lookup.storage_class(class_name);
      if (storage != nullptr) {
        add_terms(terms, {.required = storage->allowed_topologies, .needs_node = false, .blocked = {}}, name);
      } else if (!class_name.empty()) {
        add_terms(terms,
                  blocked("StorageClass " + in_quotes(class_name) + " of volume " + in_quotes(name) +
                          " does not exist"),
                  name);
      }
    }
  }
  return all;
}

std::string selected_node_patch(std::string_view node, std::string_view resource_version) {
  Json meta = {{"annotations", {{std::string(kSelectedNodeAnnotation), node}}}};
  if (!resource_version.empty()) meta["resourceVersion"] = resource_version;
  return Json{{"metadata", std::move(meta)}}.dump();
}

}  // namespace muster::reconcilers
