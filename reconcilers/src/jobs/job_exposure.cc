#include "muster/reconcilers/jobs/job_exposure.h"

#include <nlohmann/json.hpp>

#include "muster/reconcilers/common/child.h"
#include "muster/reconcilers/common/log.h"
#include "muster/reconcilers/common/objects.h"
#include "muster/reconcilers/jobs/pod_refusal.h"
#include "muster/reconcilers/lifecycle/job_status.h"
#include "muster/reconcilers/pods/expose.h"
#include "muster/reconcilers/sessions/gateway.h"

namespace muster::reconcilers {
namespace {

using client::ErrorCode;

constexpr client::Duration kKeepInterval = std::chrono::minutes{1};
// While something stands in the way, or the answer was no answer.
constexpr client::Duration kRefusedInterval = std::chrono::seconds{10};

// Its Service was made, as far as the status knows.
bool was_exposed(const crds::TrainingJob& job) {
  const auto* c = crds::find_condition(job.status.conditions, "Exposed");
  return !job.status.endpoints.empty() || (c != nullptr && c->reason != "NothingExposed");
}

}  // namespace

client::Task<std::optional<Exposure>> JobExposure::keep(JobPtr job) {
  std::optional<Exposure> said;
  const client::Key key = job->meta.key();
  const bool has_ended = is_finished(job->value.status);
  if (!job->problem.empty() || (has_ended && !was_published(job->value))) co_return said;
  if (has_ended || job->value.spec.expose.empty()) {
    kept_.erase(key);
    said.emplace();
    if (!has_ended && was_exposed(job->value)) said = co_await remove(job);
    if (said && was_published(job->value)) said->published = co_await routes_.keep(job, std::nullopt);
    co_return said;
  }
  crds::Json wanted = expose_service_json(job->value);
  auto gateway = routes_.gateway_of(job->value);
  std::string content = wanted.dump();
  if (gateway) {
    content += route_json(job->value, job->value.spec.expose.front(), *gateway).dump();
    for (const auto& url : external_urls(job->value, *gateway)) content += url;
  }
  const auto now = context_.env.clock.now();
  if (const auto known = kept_.find(key);
      known != kept_.end() && known->second.content == content && now - known->second.at < *again(job))
    co_return known->second.said;
  said = co_await keep_service(job, std::move(wanted));
  if (said && said->problem.empty()) said->published = co_await routes_.keep(job, std::move(gateway));
  kept_[key] = {std::move(content), now, said};
  co_return said;
}

client::Task<std::optional<Exposure>> JobExposure::keep_service(JobPtr job, crds::Json wanted) {
  std::optional<Exposure> said;
  const auto kept =
      co_await keep_child(context_.api, client::resources::kServices, std::move(wanted), job->meta.uid);
  if (kept) {
    said.emplace();
  } else if (const auto refused = decision_on_refusal(kept.error())) {
    said = Exposure{refused->reason == "NameTaken" ? "NameTaken" : "ServiceRefused", refused->message};
  } else {
    log_warn("service not kept", {{"job", job->meta.key()}, {"error", client::to_string(kept.error())}});
  }
  co_return said;
}

std::optional<client::Duration> JobExposure::again(const JobPtr& job) const {
  if (is_finished(job->value.status))
    return was_published(job->value) ? std::optional(kRefusedInterval) : std::nullopt;
  const auto known = kept_.find(job->meta.key());
  if (known == kept_.end()) return was_exposed(job->value) ? std::optional(kRefusedInterval) : std::nullopt;
  const auto& said = known->second.said;
  const bool is_well = said && said->problem.empty() && said->published && said->published->problem.empty();
  return is_well ? kKeepInterval : kRefusedInterval;
}

client::Task<std::optional<Exposure>> JobExposure::remove(JobPtr job) {
  std::optional<Exposure> said;
  const auto gone = co_await remove_child(context_.api, client::resources::kServices,
                                          {job->meta.ns, expose_service_name(job->meta.name)}, job->meta.uid);
  if (gone || gone.error().code == ErrorCode::kConflict)  // that one is not this job's
    said.emplace();
  else
    log_warn("service not removed", {{"job", job->meta.key()}, {"error", client::to_string(gone.error())}});
  co_return said;
}

}  // namespace muster::reconcilers
