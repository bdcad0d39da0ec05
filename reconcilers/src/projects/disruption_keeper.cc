#include "muster/reconcilers/projects/disruption_keeper.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/reconcilers/common/log.h"
#include "muster/reconcilers/common/objects.h"
#include "muster/reconcilers/pods/names.h"

namespace muster::reconcilers {
namespace {

using client::ErrorCode;
using crds::Json;

// What nobody adds to for so long is read again when it is needed: it may be much, of many namespaces.
constexpr client::Duration kInMemory = std::chrono::minutes{10};
constexpr client::Duration kAfterRefusal = std::chrono::seconds{30};

std::string config_map(const std::string& ns, std::size_t file, std::string lines) {
  const Json labels = {{std::string(kManagedByLabel), std::string(kManagedBy)},
                       {std::string(kDisruptionsLabel), "true"}};
  return Json{{"apiVersion", "v1"},
              {"kind", "ConfigMap"},
              {"metadata", {{"name", disruptions_name(file)}, {"namespace", ns}, {"labels", labels}}},
              {"data", {{std::string(kDisruptionsKey), std::move(lines)}}}}
      .dump();
}

bool is_namespace_going(const ReconcilerContext& context, const std::string& ns) {
  const auto there = context.caches.namespaces.store().find(ns);
  return !there || there->terminating;
}

}  // namespace

void DisruptionKeeper::note(const crds::TrainingJob& job) {
  if (job.status.disruptions.empty()) return;
  OfNamespace& of = namespaces_[job.metadata.ns];
  for (const auto& one : job.status.disruptions) of.told.push_back({job.metadata.name, user_of(job), one});
}

client::Task<void> DisruptionKeeper::keep() {
  std::vector<std::string> names;
  for (const auto& [ns, of] : namespaces_) names.push_back(ns);
  const auto now = context_.env.clock.now();
  for (const auto& ns : names) {
    OfNamespace& of = namespaces_.at(ns);
    if (now < of.not_before) continue;
    if (!of.told.empty() || !of.history.changed().empty()) {
      of.used = now;
      co_await keep_one(ns, of);
    }
    const bool is_refused = !of.is_loaded || !of.history.changed().empty();
    const bool is_due = !of.told.empty() || is_refused;
    if (is_refused) of.not_before = now + kAfterRefusal;
    if (is_namespace_going(context_, ns) || (!is_due && now - of.used >= kInMemory)) namespaces_.erase(ns);
  }
}

client::Task<void> DisruptionKeeper::keep_one(std::string ns, OfNamespace& of) {
  if (!of.is_loaded) of.is_loaded = co_await load(ns, of.history);
  if (!of.is_loaded) co_return;
  auto told = std::exchange(of.told, {});
  std::ranges::stable_sort(told, {}, [](const PastDisruption& one) { return one.what.at; });
  for (auto& one : told) of.history.note(std::move(one));
  const auto files = std::exchange(of.history.changed(), {});
  for (const std::size_t file : files) {
    const bool written = co_await write(ns, of.history, file);
    if (!written) of.history.changed().insert(file);
  }
}

client::Task<bool> DisruptionKeeper::load(std::string ns, DisruptionHistory& history) {
  for (std::size_t file = 0; file < DisruptionHistory::kFiles; ++file) {
    const client::ObjectRef ref{ns, disruptions_name(file)};
    const auto read = co_await context_.api.get(client::resources::kConfigMaps, ref);
    // They are begun one after the other.
    if (!read && read.error().code == ErrorCode::kNotFound) break;
    if (!read) {
      log_warn("disruptions not read", {{"namespace", ns}, {"error", client::to_string(read.error())}});
      co_return false;
    }
    const auto object = Json::parse(*read, nullptr, false);
    const auto lines = Json::json_pointer("/data/" + std::string(kDisruptionsKey));
    if (object.is_object() && object.contains(lines) && object[lines].is_string())
      history.load(file, object[lines].get_ref<const std::string&>());
  }
  co_return true;
}

client::Task<bool> DisruptionKeeper::write(std::string ns, DisruptionHistory& history, std::size_t file) {
  client::PatchOptions options;
  options.type = client::PatchType::kApply;
  options.field_manager = kFieldManager;
  options.force = true;
  const client::ObjectRef ref{ns, disruptions_name(file)};
  std::string body = config_map(ns, file, history.text_of(file));
  const auto written =
      co_await context_.api.patch(client::resources::kConfigMaps, ref, std::move(body), options);
  if (written || is_namespace_going(context_, ns)) co_return true;
  log_warn("disruptions not written", {{"namespace", ns}, {"error", client::to_string(written.error())}});
  co_return false;
}

}  // namespace muster::reconcilers
