#include "muster/reconcilers/services/revisions.h"

#include <algorithm>
#include <functional>

#include "muster/crds/codec.h"
#include "muster/reconcilers/common/child.h"
#include "muster/reconcilers/common/json_reader.h"
#include "muster/reconcilers/common/owner.h"
#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/services/service_objects.h"

namespace muster::reconcilers {
namespace {

using crds::Json;

constexpr std::size_t kMaxImages = 8, kMaxImage = 512;  // the schema's

}  // namespace

Json revision_json(const crds::InferenceService& service, std::string_view revision, std::int64_t number) {
  crds::InferenceService kept;
  kept.spec = service.spec;
  take_over_the_rest(kept.spec, {});
  Json spec = crds::to_json(kept)["spec"];
  for (const char* field : {"replicas", "port", "rollout"}) spec.erase(field);
  return {{"apiVersion", "apps/v1"},
          {"kind", "ControllerRevision"},
          {"metadata",
           {{"name", service.metadata.name + "-" + std::string(revision)},
            {"namespace", service.metadata.ns},
            {"labels",
             {{std::string(kServiceLabel), service.metadata.name},
              {std::string(kRevisionLabel), std::string(revision)}}},
            {"ownerReferences", owner_references(service)}}},
          {"revision", number},
          {"data", {{"spec", std::move(spec)}}}};
}

std::optional<KeptRevision> read_revision(const Json& object, const std::string& owner_uid) {
  if (!is_owned_by(object, owner_uid)) return std::nullopt;
  const Json* labels = find(&object, "metadata", "labels");
  const Json* number = find(&object, "revision");
  const Json* spec = find(&object, "data", "spec");
  if (number == nullptr || !number->is_number_integer() || spec == nullptr) return std::nullopt;
  KeptRevision kept;
  kept.name = text(find(labels, kRevisionLabel));
  kept.number = number->get<std::int64_t>();
  kept.object = text(find(&object, "metadata", "name"));
  kept.uid = text(find(&object, "metadata", "uid"));
  Json service{{"metadata", *find(&object, "metadata")}, {"spec", *spec}};
  const auto read = crds::from_json<crds::InferenceService>(service);
  if (!read || kept.name.empty() || kept.number < 1) return std::nullopt;
  kept.created = read->metadata.creation_timestamp.value_or(crds::Time{});
  kept.spec = read->spec;
  return kept;
}

const KeptRevision* find_revision(const std::vector<KeptRevision>& all, std::string_view name) {
  const auto found = std::ranges::find(all, name, &KeptRevision::name);
  return found == all.end() ? nullptr : &*found;
}

std::int64_t next_number(const std::vector<KeptRevision>& all) {
  std::int64_t highest = 0;
  for (const auto& one : all) highest = std::max(highest, one.number);
  return highest + 1;
}

crds::InferenceService with_revision(crds::InferenceService service, const KeptRevision& revision) {
  crds::InferenceServiceSpec spec = revision.spec;
  take_over_the_rest(spec, service.spec);
  service.spec = std::move(spec);
  return service;
}

std::vector<const KeptRevision*> surplus(const std::vector<KeptRevision>& all,
                                         const std::set<std::string>& in_use, std::int32_t limit) {
  std::vector<const KeptRevision*> others;
  for (const auto& one : all) {
    if (!in_use.contains(one.name)) others.push_back(&one);
  }
  std::ranges::sort(others, std::ranges::greater{}, &KeptRevision::number);
  const auto stay = std::min(others.size(), static_cast<std::size_t>(std::max(0, limit)));
  others.erase(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(stay));
  return others;
}

std::vector<std::string> images_of(const crds::InferenceServiceSpec& spec) {
  std::vector<std::string> all;
  const auto note = [&all](const crds::RawJson& pod_template) {
    for (const Json& container : items(find(pod_template.value.get(), "spec", "containers"))) {
      std::string image = text(find(&container, "image"));
      if (image.size() > kMaxImage) image.resize(kMaxImage);
      if (image.empty() || all.size() == kMaxImages) continue;
      if (std::ranges::find(all, image) != all.end()) continue;
      all.push_back(std::move(image));
    }
  };
  if (spec.roles.empty()) note(spec.pod_template);
  for (const crds::ServiceRole& role : spec.roles) note(role.pod_template);
  return all;
}

}  // namespace muster::reconcilers
