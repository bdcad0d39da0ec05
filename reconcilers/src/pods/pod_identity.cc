#include "muster/reconcilers/pods/pod_identity.h"

#include <charconv>

#include "muster/reconcilers/pods/checkpoint.h"
#include "muster/reconcilers/pods/names.h"

namespace muster::reconcilers {
namespace {

bool read_number(const client::KeyValues& labels, std::string_view key, std::int32_t& out) {
  const std::string* text = client::find_value(labels, key);
  if (text == nullptr) return false;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), out);
  return error == std::errc() && end == text->data() + text->size() && out >= 0;
}

}  // namespace

std::optional<PodIdentity> identity_of(const client::Pod& pod) {
  const std::string* role = client::find_value(pod.labels, kRoleLabel);
  if (role == nullptr || client::find_value(pod.labels, kJobLabel) == nullptr) return std::nullopt;
  PodIdentity id;
  id.role = *role;
  if (!read_number(pod.labels, kIndexLabel, id.index) ||
      !read_number(pod.labels, kAttemptLabel, id.attempt) || !read_number(pod.labels, kTryLabel, id.tries)) {
    return std::nullopt;
  }
  return id;
}

client::PodFields pod_fields() {
  client::PodFields fields;
  fields.annotations.emplace_back(kCheckpointAnnotation);
  for (const auto annotation : {kGpusAnnotation, kShareAnnotation, kHoldersAnnotation})
    fields.annotations.emplace_back(annotation);
  for (const auto label : {kJobLabel, kRoleLabel, kIndexLabel, kAttemptLabel, kTryLabel, kServiceLabel,
                           kTrafficLabel, kHolderPodLabel, kActivatorLabel})
    fields.labels.emplace_back(label);
  fields.init_message_label = kHolderPodLabel;
  fields.other_labels = true;  // terms of others may select any pod by any label
  return fields;
}

}  // namespace muster::reconcilers
