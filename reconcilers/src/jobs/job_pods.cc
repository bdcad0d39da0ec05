#include "muster/reconcilers/jobs/job_pods.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "muster/reconcilers/common/child.h"
#include "muster/reconcilers/common/fan_out.h"
#include "muster/reconcilers/common/json_reader.h"
#include "muster/reconcilers/common/log.h"
#include "muster/reconcilers/placement/placement_specs.h"
#include "muster/reconcilers/pods/gpu_share.h"
#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/pods/pod_builder.h"
#include "muster/reconcilers/pods/pod_identity.h"
#include "muster/reconcilers/sharing/gpu_holders.h"
#include "muster/reconcilers/sharing/hami.h"

namespace muster::reconcilers {
namespace {

using client::Error;
using client::ErrorCode;

// Requests of one job in flight; the client's adaptive limit bounds the sum over all jobs.
constexpr std::size_t kFanOut = 32;
// Pods that are being made at once, over all jobs.
constexpr std::size_t kCreating = 64;

// What makes the pods of a job: one builder for all nodes, or under HAMi-core one for each size of GPUs.
class Builders {
 public:
  Builders(JobPtr job, GpuMeans gpus, bool hami)
      : job_(std::move(job)), gpus_(std::move(gpus)), hami_(hami) {}

  const PodBuilder& of(crds::Bytes gpu_memory) {
    if (!hami_) gpu_memory = {};
    const auto made = all_.find(gpu_memory.value);
    if (made != all_.end()) return made->second;
    PodBuilder builder =
        hami_ ? PodBuilder(under_hami(job_->value, gpu_memory), gpus_) : PodBuilder(job_->value, gpus_);
    return all_.emplace(gpu_memory.value, std::move(builder)).first->second;
  }

 private:
  JobPtr job_;
  GpuMeans gpus_;
  bool hami_;
  std::map<std::int64_t, PodBuilder> all_;  // by bytes
};

// Its owner was a job of this name that is gone. The API server's garbage collector has yet to come to it.
bool is_owned_by_namesake(const crds::Json& object, const std::string& job) {
  return std::ranges::any_of(
      items(find(&object, "metadata", "ownerReferences")), [&](const crds::Json& owner) {
        return text(find(owner, "kind")) == crds::TrainingJob::kKind && text(find(owner, "name")) == job;
      });
}

// Of a job of this name that was deleted without what belongs to it (--cascade=orphan). Nobody collects it.
bool is_left_behind(const crds::Json& object, const std::string& job) {
  return items(find(&object, "metadata", "ownerReferences")).empty() &&
         text(find(&object, "metadata", "labels", kJobLabel)) == job_label(job);
}

}  // namespace

JobPods::JobPods(ReconcilerContext& context, Refused refused)
    : context_(context), refused_(std::move(refused)), creating_(context.env.executor, kCreating) {}

client::Task<bool> JobPods::remove(std::string ns, const std::vector<PodRemoval>& pods) {
  bool all = true;
  const std::function<client::Task<bool>(std::size_t)> one = [this, &ns, &pods, &all](std::size_t i) {
    struct Remove {
      // Puts into the cache at once that the pod is on its way out. So it is not told twice if somebody looks
      // again before the watch says so.
      static void note_leaving(ReconcilerContext& context, const std::string& answer,
                               const std::string& uid) {
        auto told = client::decode_pod(answer, pod_fields());
        if (told && told->meta.uid == uid) context.caches.pods.store().assume(std::move(*told));
      }
      // By the API server's own word: a cache may lack a node that is there.
      static client::Task<bool> confirm_lost(ReconcilerContext& context, std::string node) {
        const client::ObjectRef ref{"", node};
        const auto read = co_await context.api.get(client::resources::kNodes, ref);
        if (!read) co_return read.error().code == ErrorCode::kNotFound;
        const auto object = client::decode_node(*read, "muster.dev/");
        if (!object) co_return false;
        co_return is_out_of_service(*object);
      }
      static client::Task<bool> run(ReconcilerContext& context, std::string ns, PodRemoval pod,
                                    bool& all_gone) {
        const client::ObjectRef ref{ns, pod.name};
        client::DeleteOptions options;
        options.uid = pod.uid;
        options.grace_period_seconds = pod.grace_seconds;
        if (pod.grace_seconds == 0) {
          const bool is_lost = co_await confirm_lost(context, pod.node);
          if (!is_lost) co_return true;
          log_warn("pod removed by force: its node is lost",
                   {{"pod", client::make_key(ns, pod.name)}, {"node", pod.node}});
        }
        const auto gone = co_await context.api.remove(client::resources::kPods, ref, options);
        // kConflict: the pod that was meant is gone, and another has its name already.
        if (gone || gone.error().code == ErrorCode::kNotFound || gone.error().code == ErrorCode::kConflict) {
          ++context.totals.pods_deleted;
          if (gone) note_leaving(context, *gone, pod.uid);
        } else {
          log_warn("pod not deleted",
                   {{"pod", client::make_key(ns, pod.name)}, {"error", client::to_string(gone.error())}});
          all_gone = false;
        }
        co_return !context.api.writes_stopped();
      }
    };
    return Remove::run(context_, ns, pods[i], all);
  };
  co_await fan_out(context_.env.executor, pods.size(), kFanOut, one);
  co_return all;
}

// The job still is what the pods are made for: same object, same attempt, not suspended or edited meanwhile.
bool JobPods::still_wanted(const JobPtr& job, std::size_t pod) const {
  const JobPtr now = context_.caches.jobs.store().find(job->meta.key());
  if (now == job) return !context_.api.writes_stopped();
  if (!now || now->meta.uid != job->meta.uid || now->value.metadata.deletion_timestamp ||
      effective(now, context_.caches)->value.spec.suspend)
    return false;
  const auto& was = job->value.status.assignment;
  const auto& is = now->value.status.assignment;
  return is.attempt == was.attempt && is.pods.size() == was.pods.size() && is.pods[pod] == was.pods[pod] &&
         !context_.api.writes_stopped();
}

client::Task<bool> JobPods::create(client::Key key, const std::vector<std::size_t>& which) {
  const auto permit = co_await creating_.acquire(which.size());
  if (!permit) co_return false;
  co_return co_await create_now(key, which);
}

client::Task<bool> JobPods::create_now(client::Key key, const std::vector<std::size_t>& which) {
  // As committed: write_status put the server's answer into the store.
  const JobPtr job = context_.caches.jobs.store().find(key);
  if (!job || job->value.status.assignment.attempt == 0) co_return false;
  const bool has_hosts = co_await ensure(job, Companion::kHosts);
  if (!has_hosts) co_return false;
  const std::string& in = job->value.status.assignment.pool;
  const auto pool = context_.caches.node_pools.store().find(in);
  Builders builders(effective(job, context_.caches), context_.placement.gpu_means(in),
                    pool && enforces_by_hami(pool->value.spec));
  bool all = true;
  const std::function<client::Task<bool>(std::size_t)> one = [this, &job, &which, &builders,
                                                              &all](std::size_t i) {
    struct Create {
      static client::Task<bool> run(JobPods* self, const JobPtr& for_job, std::size_t pod,
                                    Builders& builders_of, bool& all_made) {
        if (!self->still_wanted(for_job, pod)) {
          all_made = false;
          co_return false;
        }
        const auto& assignment = for_job->value.status.assignment;
        const auto& place = assignment.pods[pod];
        crds::Bytes gpu_memory{};
        HeldDevices held;
        if (shares_gpus(for_job->value.spec, place)) {
          auto now = self->context_.gpu_holders == nullptr ? std::nullopt
                                                           : self->context_.gpu_holders->devices(place);
          if (!now) {  // changed since it was looked at
            all_made = false;
            co_return true;
          }
          held = *std::move(now);
          gpu_memory = self->context_.placement.gpu_memory_of(place.node);
          const auto& roles = for_job->value.spec.roles;
          const auto role = std::ranges::find(roles, place.role, &crds::Role::name);
          if (role != roles.end() && role->gpus) held.memory_limits = memory_limits(*role->gpus, gpu_memory);
        }
        std::string name =
            pod_name(for_job->meta.name, place.role, place.index, assignment.attempt, place.tries);
        const Made made =
            co_await self->create_one(for_job, builders_of.of(gpu_memory).pod(place, held), std::move(name));
        if (made != Made::kYes) all_made = false;
        co_return made != Made::kRefused;  // the others would be refused as well
      }
    };
    return Create::run(this, job, which[i], builders, all);
  };
  co_await fan_out(context_.env.executor, which.size(), kFanOut, one);
  co_return all;
}

client::Task<JobPods::Made> JobPods::create_one(JobPtr job, std::string body, std::string name) {
  const client::Key key = job->meta.key();
  expect(key, body);
  auto answer = co_await context_.api.create(client::resources::kPods, job->meta.ns, std::move(body),
                                             std::string(kFieldManager));
  const bool read_it =
      !answer && (answer.error().outcome_unknown() || answer.error().code == ErrorCode::kAlreadyExists);
  if (read_it) {
    // The name says which pod it is: if it is there, it is ours, made by an earlier try of the same write.
    const client::ObjectRef ref{job->meta.ns, name};
    answer = co_await context_.api.get(client::resources::kPods, ref);
  } else if (answer) {
    ++context_.totals.pods_created;
  }
  if (!answer) {
    const bool is_known = !read_it || answer.error().code == ErrorCode::kNotFound;
    if (is_known) settle(key, name);
    co_return refused_(job, answer.error()) ? Made::kRefused : Made::kNotNow;
  }
  const Told told = take_in(*answer, job->meta.uid);
  if (told != Told::kUnreadable) settle(key, name);
  if (told == Told::kOthers) {
    // A pod of that name belongs to somebody else (or to a deleted job of the same name): wait until
    // it has gone.
    log_warn("pod name is taken", {{"job", key}, {"pod", client::make_key(job->meta.ns, name)}});
  }
  co_return told == Told::kOurs ? Made::kYes : Made::kNotNow;
}

// The server has this pod.
JobPods::Told JobPods::take_in(const std::string& answer, const std::string& owner_uid) {
  auto pod = client::decode_pod(answer, pod_fields());
  if (!pod) return Told::kUnreadable;
  if (pod->owner_uid != owner_uid) return Told::kOthers;
  context_.caches.pods.store().assume(std::move(*pod));
  return Told::kOurs;
}

void JobPods::expect(const client::Key& job, const std::string& body) {
  auto asked = client::decode_pod(body, pod_fields());
  if (!asked) return;  // then nor can the cache's pod be read, and it counts for nothing
  const auto pod = std::make_shared<const client::Pod>(*std::move(asked));
  on_their_way_[job][pod->meta.name] = pod;
  if (context_.gpu_holders != nullptr) context_.gpu_holders->expect(*pod);
}

// The outcome of the request for this pod is known: the cache has the pod, or it is not made. If it was
// charged as it was asked for (on_their_way()), the cache's pod is charged in its place by now, or it holds
// nothing.
void JobPods::settle(const client::Key& job, const std::string& pod) {
  const auto found = on_their_way_.find(job);
  if (found == on_their_way_.end()) return;
  const auto asked = found->second.extract(pod);
  if (found->second.empty()) on_their_way_.erase(found);
  if (asked.empty()) return;
  const auto& as_asked = *asked.mapped();
  if (!context_.caches.pods.store().find(as_asked.meta.key())) context_.placement.pod_gone(as_asked);
  if (context_.gpu_holders != nullptr) context_.gpu_holders->settle(as_asked);
}

std::vector<client::Ptr<client::Pod>> JobPods::on_their_way(const client::Key& job) const {
  std::vector<client::Ptr<client::Pod>> pods;
  const auto found = on_their_way_.find(job);
  if (found == on_their_way_.end()) return pods;
  for (const auto& [name, asked] : found->second) {
    if (!context_.caches.pods.store().find(asked->meta.key())) pods.push_back(asked);
  }
  return pods;
}

client::Task<bool> JobPods::find_out(client::Key job) {
  const auto found = on_their_way_.find(job);
  if (found == on_their_way_.end()) co_return true;
  std::vector<client::Ptr<client::Pod>> unknown;
  for (const auto& [name, asked] : found->second) unknown.push_back(asked);
  bool all = true;
  const std::function<client::Task<bool>(std::size_t)> one = [this, &job, &unknown, &all](std::size_t i) {
    struct Read {
      static client::Task<bool> run(JobPods* self, const client::Key& of_job, const client::Pod& asked,
                                    bool& all_told) {
        const client::ObjectRef ref{asked.meta.ns, asked.meta.name};
        const auto answer = co_await self->context_.api.get(client::resources::kPods, ref);
        const bool is_told = answer ? self->take_in(*answer, asked.owner_uid) != Told::kUnreadable
                                    : answer.error().code == ErrorCode::kNotFound;
        if (is_told)
          self->settle(of_job, asked.meta.name);
        else
          all_told = false;
        co_return is_told;  // the others would get no answer as well
      }
    };
    return Read::run(this, job, *unknown[i], all);
  };
  co_await fan_out(context_.env.executor, unknown.size(), kFanOut, one);
  co_return all;
}

client::Task<bool> JobPods::ensure(JobPtr job, Companion which) {
  const auto written = co_await write(job, which);
  if (!written) refused_(job, written.error());
  co_return written.has_value();
}

client::Task<client::Result<void>> JobPods::write(JobPtr job, Companion which) {
  const bool is_service = which == Companion::kService;
  const client::Resource& resource =
      is_service ? client::resources::kServices : client::resources::kConfigMaps;
  const client::Key key =
      client::make_key(job->meta.ns, fmt::format("{}/{}", job->meta.name, resource.plural));
  // The Service selects the pods of one attempt. The files change with the spec, and those of an elastic gang
  // with its size.
  const bool by_text = !is_service && crds::is_elastic(job->value.spec);
  std::string body = by_text ? hosts_config_map_json(job->value) : std::string();
  std::string version = fmt::format("{}/{}", job->meta.uid, job->value.metadata.generation);
  if (is_service) version = fmt::format("{}/{}", job->meta.uid, job->value.status.assignment.attempt);
  if (by_text) version = fmt::format("{}/{}", job->meta.uid, std::hash<std::string>{}(body));
  const auto known = companions_made_.find(key);
  client::Result<void> done;
  if (known != companions_made_.end() && known->second == version) co_return done;
  const std::string name = is_service ? service_name(job->meta.name) : hosts_config_map_name(job->meta.name);
  if (!by_text) body = is_service ? service_json(job->value) : hosts_config_map_json(job->value);
  const auto made = co_await context_.api.create(resource, job->meta.ns, body, std::string(kFieldManager));
  if (made) {
    companions_made_[key] = version;
    co_return done;
  }
  if (made.error().code != ErrorCode::kAlreadyExists && !made.error().outcome_unknown()) {
    done = std::unexpected(made.error());
    co_return done;
  }
  const client::ObjectRef ref{job->meta.ns, name};
  const auto there = co_await context_.api.get(resource, ref);
  if (!there) {
    done = std::unexpected(there.error());
    co_return done;
  }
  const auto object = crds::Json::parse(*there, nullptr, false);
  if (!is_owned_by(object, job->meta.uid) && !is_left_behind(object, job->meta.name)) {
    Error taken;
    taken.code = ErrorCode::kAlreadyExists;
    taken.message =
        fmt::format("{} {}/{} exists and does not belong to this job; delete it or rename the job",
                    resource.plural, job->meta.ns, name);
    if (is_owned_by_namesake(object, job->meta.name)) {
      taken.code = ErrorCode::kConflict;  // again in a moment
      taken.message = fmt::format("{} {}/{} of a job that had this name before is being collected",
                                  resource.plural, job->meta.ns, name);
    }
    done = std::unexpected(taken);
    co_return done;
  }
  client::PatchOptions options;
  options.field_manager = kFieldManager;
  const auto brought_up_to_date = co_await context_.api.patch(resource, ref, std::move(body), options);
  if (!brought_up_to_date) {
    done = std::unexpected(brought_up_to_date.error());
    co_return done;
  }
  companions_made_[key] = version;
  co_return done;
}

void JobPods::forget(const client::Key& key) {
  companions_made_.erase(key + "/services");
  companions_made_.erase(key + "/configmaps");
}

}  // namespace muster::reconcilers
