#include "job_volumes.h"

#include <algorithm>
#include <map>

#include "muster/reconcilers/common/log.h"
#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/pods/pod_identity.h"

namespace muster::reconcilers {
namespace {

client::Task<void> select_node(ReconcilerContext& context, client::Key key, std::string node) {
  const auto claim = context.caches.claims.store().find(key);
  if (!claim || claim->selected_node == node) co_return;
  client::PatchOptions options;
  options.field_manager = kFieldManager;
  const client::ObjectRef ref{claim->meta.ns, claim->meta.name};
  std::string body = selected_node_patch(node, claim->meta.resource_version);
  const auto patched =
      co_await context.api.patch(client::resources::kPersistentVolumeClaims, ref, std::move(body), options);
  // The pods are made all the same: kubelet waits for the volume, and a conflict shows as a change
  // of the claim.
  if (!patched)
    log_warn("claim not told its node", {{"claim", key}, {"error", client::to_string(patched.error())}});
}

}  // namespace

client::Task<void> select_nodes(ReconcilerContext& context, JobPtr job, const Translation& wish,
                                const crds::Assignment& assignment) {
  const auto& roles = job->value.spec.roles;
  for (std::size_t r = 0; r < roles.size() && r < wish.volumes.size(); ++r) {
    const auto first = std::find_if(assignment.pods.begin(), assignment.pods.end(),
                                    [&](const crds::PodAssignment& p) { return p.role == roles[r].name; });
    if (first == assignment.pods.end()) continue;
    for (const auto& name : wish.volumes[r].need_selected_node) {
      co_await select_node(context, client::make_key(job->meta.ns, name), first->node);
    }
  }
}

client::Task<void> select_nodes_of_ephemeral(ReconcilerContext& context, JobPtr job,
                                             const std::vector<client::Ptr<client::Pod>>& pods) {
  std::map<std::string, std::vector<EphemeralVolume>> volumes;  // by role
  for (const auto& role : job->value.spec.roles) {
    auto use = volumes_of(job->value, role);
    if (!use.ephemeral.empty()) volumes[role.name] = std::move(use.ephemeral);
  }
  if (volumes.empty()) co_return;
  const VolumeLookup lookup = volume_lookup(context.caches, job->meta.ns);
  for (const auto& pod : pods) {
    const auto id = identity_of(*pod);
    if (!id || !volumes.contains(id->role)) continue;
    for (const auto& volume : volumes[id->role]) {
      const client::Key key =
          client::make_key(job->meta.ns, ephemeral_claim_name(pod->meta.name, volume.name));
      const auto claim = context.caches.claims.store().find(key);
      if (claim && needs_selected_node(*claim, lookup)) co_await select_node(context, key, pod->node_name);
    }
  }
}

}  // namespace muster::reconcilers
