#include "muster/reconcilers/arrays/array.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "muster/crds/text.h"
#include "muster/reconcilers/arrays/array_objects.h"
#include "muster/reconcilers/common/fan_out.h"
#include "muster/reconcilers/common/log.h"
#include "muster/reconcilers/lifecycle/job_status.h"
#include "muster/reconcilers/pods/names.h"

namespace muster::reconcilers {
namespace {

using client::Error;
using client::ErrorCode;

constexpr std::size_t kFanOut = 16;
// Ends that come within this time are recorded together. The places of those that have ended are free at
// once, and the next indexes begin at once: only their jobs stay for so long.
constexpr client::Duration kRecordInterval = std::chrono::seconds{1};
// What was refused is tried again: who forbids it may do so no more, and whoever has the name may be gone.
constexpr client::Duration kRefusedInterval = std::chrono::seconds{10};
constexpr std::size_t kMaxNewsTold = 10;
// After a look the array is left alone for so many times as long as the look took.
constexpr int kRestsFor = 4;
// One look makes and deletes so many jobs at most. Then comes the next one: of an array with thousands of
// indexes those that have ended meanwhile are recorded, and those whose turn has come begin, while others go.
constexpr std::size_t kMaxBatch = 128;
// The reason of a refusal that is nobody's fault. It is tried again, and the user is not told.
constexpr const char* kTransient = "Transient";

ArrayRefusal refusal_of(const Error& error) {
  const std::string text = error.message.empty() ? client::to_string(error) : error.message;
  switch (error.code) {
    case ErrorCode::kForbidden:
      return {"Forbidden", text, false};
    case ErrorCode::kInvalid:
    case ErrorCode::kBadRequest:
    case ErrorCode::kRequestTooLarge:
      return {"InvalidSpec", text, true};
    default:
      return {kTransient, text, false};
  }
}

// Lines of a ConfigMap, for indexes that are to begin.
bool needs_lines(const crds::TrainingJob& array) {
  const auto& spec = *array.spec.array;
  if (!spec.parameters_from || array.spec.suspend) return false;
  const auto ended = ended_as(array.status);
  return !ended || is_retry_due(spec, array.status.array ? array.status.array->retried : 0, ended);
}

}  // namespace

client::Task<Outcome> ArrayReconciler::reconcile(client::Key key, Job array, Wish wish) {
  Outcome outcome;
  std::shared_ptr<const ParameterLines> lines;
  if (wish.refused.reason.empty() && needs_lines(array->value)) {
    auto answer = co_await parameters_.take(array, has_begun(array));
    if (!answer.lines && answer.refusal.reason.empty()) co_return Outcome::retry();
    lines = std::move(answer.lines);
    wish.refused = std::move(answer.refusal);
    if (!lines) outcome.no_later_than(kRefusedInterval);
  }
  const auto began = context_.env.clock.now();
  const Indexes indexes = indexes_of(array);
  ArrayPlan plan = plan_for(array, indexes);
  if (!wish.refused.reason.empty()) plan.create.clear();
  const auto last = refused_.find(key);
  const ArrayRefusal refused = !wish.refused.reason.empty() ? wish.refused
                               : last != refused_.end()     ? last->second
                                                            : ArrayRefusal{};
  auto status = array_status(array->value, plan, indexes.jobs, refused, context_.now());
  status.met_dependencies = std::move(wish.met_dependencies);
  const auto looked = context_.env.clock.now();
  rests_until_[key] = looked + kRestsFor * (looked - began);
  const Written written = co_await write(key, array, status);
  if (written == Written::kFailed) {
    sure_.erase(key);
    co_return Outcome::retry();
  }
  std::vector<Job> leaving;
  if (written == Written::kStands) {
    tell(array, plan, indexes);
    for (const std::size_t i : plan.remove) leaving.push_back(indexes.objects[i]);
  } else {
    outcome.no_later_than(compare(array->value.status, status) == ArrayNews::kRecord
                              ? kRecordInterval
                              : context_.status_interval);
    const ArrayRecord stands = record_of(*array->value.spec.array, array->value.status);
    for (const std::size_t i : plan.remove) {  // what follows from the record that stands, or from none
      if (!indexes.seen[i].has_ended() || stands.has(indexes.seen[i].index))
        leaving.push_back(indexes.objects[i]);
    }
  }
  const bool is_all = plan.create.size() <= kMaxBatch && leaving.size() <= kMaxBatch;
  // Where names are taken, those behind them have their turn all the same.
  if (refused.reason.empty()) plan.create.resize(std::min(plan.create.size(), kMaxBatch));
  leaving.resize(std::min(leaving.size(), kMaxBatch));
  // The places of those that have ended are free: who begins does not wait until their jobs are gone.
  const Outcome of_new =
      co_await begin(key, array, std::move(plan.create), lines.get(), written == Written::kDeferred);
  const bool are_gone = co_await remove(array, std::move(leaving));
  if (!are_gone || of_new.failed) co_return Outcome::retry();
  if (!is_all) outcome.no_later_than({});
  if (of_new.after) outcome.no_later_than(*of_new.after);
  co_return outcome;
}

// Makes the jobs of these indexes, if any.
client::Task<Outcome> ArrayReconciler::begin(const client::Key& key, Job array,
                                             std::vector<std::int32_t> indexes, const ParameterLines* lines,
                                             bool is_record_deferred) {
  const auto last = refused_.find(key);
  if (indexes.empty()) {
    if (last == refused_.end()) co_return Outcome::done();
    refused_.erase(key);
    co_return Outcome::again({});
  }
  const bool may_create = co_await is_sure(key, array);
  if (!may_create) co_return Outcome::retry();
  const Job now = context_.caches.jobs.store().find(key);
  // The record was old: again, by the new one.
  if (!now || now->meta.uid != array->meta.uid) co_return Outcome::retry();
  if (is_record_deferred && record_of(*now->value.spec.array, now->value.status) !=
                                record_of(*array->value.spec.array, array->value.status))
    co_return Outcome::retry();
  if (lines == nullptr && now->value.spec.array->parameters_from) co_return Outcome::retry();
  ArrayRefusal said = co_await create(now, std::move(indexes), lines);
  if (said.reason == kTransient) {
    log_warn("not made", {{"array", key}, {"error", said.message}});
    co_return Outcome::retry();
  }
  if (said.reason.empty()) {
    refused_.erase(key);
    co_return Outcome::done();
  }
  const bool is_news = last == refused_.end() || last->second.reason != said.reason;
  refused_[key] = std::move(said);
  co_return Outcome::again(is_news ? client::Duration{} : kRefusedInterval);
}

std::optional<client::Duration> ArrayReconciler::rest_of(const client::Key& key) const {
  const auto found = rests_until_.find(key);
  const auto now = context_.env.clock.now();
  if (found == rests_until_.end() || found->second <= now) return std::nullopt;
  return found->second - now;
}

// An index has a job, or has ended: the parameters were taken before.
bool ArrayReconciler::has_begun(const Job& array) const {
  return reconcilers::has_begun(array->value.status) ||
         !context_.caches.jobs.store().by_index(kByOwner, array->meta.uid).empty();
}

void ArrayReconciler::forget(const client::Key& key) {
  written_.erase(key);
  sure_.erase(key);
  refused_.erase(key);
  rests_until_.erase(key);
  parameters_.forget(key);
}

ArrayReconciler::Indexes ArrayReconciler::indexes_of(const Job& array) const {
  Indexes all;
  for (const auto& job : context_.caches.jobs.store().by_index(kByOwner, array->meta.uid)) {
    const auto index = index_in(array->value, job->value);
    if (!index || job->status_unreadable) continue;
    all.objects.push_back(job);
    all.jobs.push_back(&job->value);
    all.seen.push_back(seen_as_index(job->value, *index));
  }
  return all;
}

ArrayPlan ArrayReconciler::plan_for(const Job& array, const Indexes& indexes) const {
  const auto& [spec, status] = std::tie(array->value.spec, array->value.status);
  return plan_array(*spec.array, spec.suspend, ended_as(status), record_of(*spec.array, status),
                    indexes.seen);
}

client::Task<ArrayReconciler::Written> ArrayReconciler::write(const client::Key& key, Job array,
                                                              crds::TrainingJobStatus wanted) {
  const auto& before = array->value.status;
  const ArrayNews news = compare(before, wanted);
  if (news == ArrayNews::kNone) co_return Written::kStands;
  const auto now = context_.env.clock.now();
  const auto interval = news == ArrayNews::kCounters ? context_.status_interval : kRecordInterval;
  const auto last = written_.find(key);
  if (news != ArrayNews::kUrgent && last != written_.end() && now - last->second < interval)
    co_return Written::kDeferred;
  written_[key] = now;
  crds::TrainingJob changed;
  changed.metadata = array->value.metadata;
  changed.status = std::move(wanted);
  ++context_.totals.status_writes;
  const auto done = co_await write_status(context_.api, context_.caches.jobs.store(), std::move(changed));
  if (!done) {
    log_warn("status not written", {{"array", key}, {"error", client::to_string(done.error())}});
    co_return Written::kFailed;
  }
  // The API server has taken it for the resourceVersion that we had: nobody has written in between.
  sure_[key] = array->meta.uid;
  co_return Written::kStands;
}

// Whether what the watch has shown of the array is not older than this process's time as the leader. Then it
// has shown all jobs as well that were made or deleted before. Afterwards only this process writes the
// array's status, and the cache has what it has written.
client::Task<bool> ArrayReconciler::is_sure(const client::Key& key, const Job& array) {
  const auto known = sure_.find(key);
  if (known != sure_.end() && known->second == array->meta.uid) co_return true;
  const client::ObjectRef ref{array->meta.ns, array->meta.name};
  const auto read = co_await context_.api.get(resource_of<crds::TrainingJob>(), ref);
  if (!read) co_return false;
  const auto there = client::decode_meta(*read);
  if (!there || there->uid != array->meta.uid || there->resource_version != array->meta.resource_version)
    co_return false;  // the watch will tell
  sure_[key] = array->meta.uid;
  co_return true;
}

client::Task<bool> ArrayReconciler::remove(Job array, std::vector<Job> jobs) {
  bool all = true;
  const std::function<client::Task<bool>(std::size_t)> one = [&](std::size_t i) {
    struct Remove {
      static client::Task<bool> run(ReconcilerContext& context, Job job, bool& all_gone) {
        client::DeleteOptions options;
        options.uid = job->meta.uid;
        options.propagation_policy = "Background";
        // It may have begun and even ended since it was seen. Then it does not go.
        const bool has_begun = job->value.status.attempt != 0;
        if (!has_begun) options.resource_version = job->meta.resource_version;
        const client::ObjectRef ref{job->meta.ns, job->meta.name};
        const auto gone = co_await context.api.remove(resource_of<crds::TrainingJob>(), ref, options);
        const bool is_another = !gone && gone.error().code == ErrorCode::kConflict && has_begun;
        const bool is_gone = gone || is_another || gone.error().code == ErrorCode::kNotFound;
        if (is_gone) context.caches.jobs.store().assume_deleted(job->meta.key(), job->meta.uid);
        all_gone = all_gone && is_gone;
        co_return !context.api.writes_stopped();
      }
    };
    return Remove::run(context_, jobs[i], all);
  };
  co_await fan_out(context_.env.executor, jobs.size(), kFanOut, one);
  co_return all;
}

// All of them, side by side. What was refused last is returned; others may have been made.
client::Task<ArrayRefusal> ArrayReconciler::create(Job array, std::vector<std::int32_t> indexes,
                                                   const ParameterLines* lines) {
  static const ParameterLines kNone;
  const IndexJobs jobs(array->value, lines == nullptr ? kNone : *lines);
  ArrayRefusal refused;
  const std::function<client::Task<bool>(std::size_t)> one = [&](std::size_t i) {
    struct Create {
      static client::Task<bool> run(ArrayReconciler* self, Job of, const IndexJobs& bodies,
                                    std::int32_t index, ArrayRefusal& said) {
        std::string body = bodies.json(index).dump(-1, ' ', false, crds::Json::error_handler_t::replace);
        auto refusal = co_await self->create_one(of, index, std::move(body));
        if (!refusal.reason.empty()) said = std::move(refusal);
        // A name that is taken is the matter of one index.
        co_return (said.reason.empty() || said.reason == "NameTaken") && !self->context_.api.writes_stopped();
      }
    };
    return Create::run(this, array, jobs, indexes[i], refused);
  };
  co_await fan_out(context_.env.executor, indexes.size(), kFanOut, one);
  co_return refused;
}

client::Task<ArrayRefusal> ArrayReconciler::create_one(Job array, std::int32_t index, std::string body) {
  auto& store = context_.caches.jobs.store();
  const auto made = co_await context_.api.create(resource_of<crds::TrainingJob>(), array->meta.ns,
                                                 std::move(body), std::string(kFieldManager));
  if (made) {
    auto job = decode_object<crds::TrainingJob>(*made);
    if (job) store.assume(std::move(*job));
    co_return ArrayRefusal{};
  }
  if (made.error().code != ErrorCode::kAlreadyExists) co_return refusal_of(made.error());
  // An earlier request of ours of which nobody knew, or somebody else's.
  const client::ObjectRef ref{array->meta.ns, index_job_name(array->meta.name, index)};
  const auto read = co_await read_again<crds::TrainingJob>(context_.api, store, ref);
  if (!read) co_return ArrayRefusal{kTransient, client::to_string(read.error()), false};
  const auto there = store.find(client::make_key(ref.ns, ref.name));
  if (there && there->owner_uid == array->meta.uid) co_return ArrayRefusal{};
  co_return ArrayRefusal{
      "NameTaken",
      fmt::format("TrainingJob {} is there already and is not of this array: index {} waits for its name",
                  ref.name, index),
      false};
}

void ArrayReconciler::note(const Job& array, client::EventType type, const std::string& reason,
                           const char* action, const std::string& text) const {
  context_.events.record(event_target(array->value), type, reason, action, text);
  log_info(text, {{"array", array->meta.key()}, {"reason", reason}});
}

// The record stands.
void ArrayReconciler::tell(const Job& array, const ArrayPlan& plan, const Indexes& indexes) const {
  if (plan.retries > 0) {
    note(
        array, client::EventType::kNormal, "IndexesRetried", "Retry",
        fmt::format("{} that had failed {} run again, by spec.array.retryFailed {}: indexes {}", plan.retries,
                    plan.retries == 1 ? "is" : "are", plan.record.retried, plan.record.again.to_text()));
  }
  std::size_t told = 0;
  for (const std::int32_t index : plan.news) {
    if (!plan.record.failed.contains(index) || ++told > kMaxNewsTold) continue;
    const auto of = std::ranges::find(indexes.seen, index, &IndexJob::index);
    const auto& status = indexes.jobs[static_cast<std::size_t>(of - indexes.seen.begin())]->status;
    const auto* why = crds::find_condition(status.conditions, "Failed");
    note(array, client::EventType::kWarning, "IndexFailed", "Record",
         fmt::format("index {} has failed: {}", index, why == nullptr ? "" : why->message));
  }
  if (!plan.end) return;
  const bool is_complete = plan.end->kind == ArrayEnd::Kind::kComplete;
  note(array, is_complete ? client::EventType::kNormal : client::EventType::kWarning, plan.end->reason,
       is_complete ? "Complete" : "Fail", plan.end->message);
}

}  // namespace muster::reconcilers
