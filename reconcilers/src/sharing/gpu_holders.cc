#include "muster/reconcilers/sharing/gpu_holders.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/reconcilers/common/json_reader.h"
#include "muster/reconcilers/common/log.h"
#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/pods/pod_end.h"
#include "muster/reconcilers/pods/pod_identity.h"

namespace muster::reconcilers {
namespace {

using client::ErrorCode;
using State = HolderPod::State;

// When to look again whether a sharer has come to be.
constexpr client::Duration kSoon = std::chrono::seconds{1};

std::string say(const NodeGpu& gpu) {
  return fmt::format("GPU {} of node {}", gpu.index, gpu.node);
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> words;
  std::size_t at = 0;
  while (at < list.size()) {
    const auto end = std::min(list.find(',', at), list.size());
    words.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

// Why the holders that the pod was made with hold its GPU no more; "": they do.
std::string why_lost(const NodeGpu& gpu, const HolderPod& there, const std::string& uid) {
  if (there.uid == uid && there.state == State::kHolds) return {};
  const char* what = there.uid != uid                 ? "is gone"
                     : there.state == State::kLeaving ? "was deleted"
                                                      : "does not hold it any more";
  return fmt::format("{} is not held for it: holder pod {} {}", say(gpu),
                     holder_pod_name(gpu.node, gpu.index), what);
}

}  // namespace

GpuHolders::GpuHolders(ReconcilerContext& context, Options options,
                       std::function<void(const client::Key&)> look_again)
    : context_(context), options_(std::move(options)), look_again_(std::move(look_again)) {}

client::Key GpuHolders::pod_key(const NodeGpu& gpu) const {
  return client::make_key(options_.pods.ns, holder_pod_name(gpu.node, gpu.index));
}
client::Ptr<client::Pod> GpuHolders::pod_of(const NodeGpu& gpu) const {
  return context_.caches.pods.store().find(pod_key(gpu));
}

HolderPod GpuHolders::look(const NodeGpu& gpu) const {
  const auto pod = pod_of(gpu);
  if (pod && !gpu_held_by(*pod)) {
    HolderPod taken;
    taken.state = State::kStarting;
    taken.message = "a pod of that name exists and is no holder pod; delete it";
    return taken;
  }
  auto there = read_holder_pod(pod.get(), context_.now());
  if (leaving_.contains(there.uid)) there.state = State::kLeaving;
  if (there.state != State::kHolds) return there;
  // A plugin that gives one GPU to several, by its own sharing: only one of them can share it out.
  for (auto other = there_.lower_bound({gpu.node, 0}); other != there_.end() && other->node == gpu.node;
       ++other) {
    if (other->index >= gpu.index) break;
    const auto beside = pod_of(*other);
    if (!beside || read_holder_pod(beside.get(), context_.now()).device != there.device) continue;
    there.state = State::kFailed;
    there.reason = "DeviceGivenTwice";
    there.message = fmt::format("the device plugin gave {} to pod {} as well: it must not share GPUs itself",
                                there.device, beside->meta.name);
  }
  return there;
}

bool GpuHolders::is_own(const client::Pod& pod) const {
  return pod.meta.ns == options_.pods.ns && gpu_held_by(pod).has_value();
}

void GpuHolders::tell(const client::Key& gpu) {
  const auto found = followers_.find(gpu);
  if (found == followers_.end()) return;
  const auto jobs = std::move(found->second);
  followers_.erase(found);
  for (const auto& job : jobs) look_again_(job);
}

void GpuHolders::note(const client::Pod& pod, bool is_gone) {
  const auto gpu = gpu_held_by(pod);
  if (!gpu || !is_own(pod)) return;
  if (is_gone) {
    there_.erase(*gpu);
    leaving_.erase(pod.meta.uid);
  } else {
    there_.insert(*gpu);
  }
  tell(key_of(*gpu));
}

void GpuHolders::expect(const client::Pod& pod) {
  for (const auto& gpu : gpus_shared_by(pod)) ++expected_[gpu];
}
void GpuHolders::settle(const client::Pod& pod) {
  for (const auto& gpu : gpus_shared_by(pod)) {
    const auto found = expected_.find(gpu);
    if (found != expected_.end() && --found->second == 0) expected_.erase(found);
  }
}

Holding GpuHolders::holding(const client::Key& job, const crds::PodAssignment& place, bool shares,
                            const client::Pod* pod) {
  Holding sum;
  const auto* uids = pod == nullptr ? nullptr : client::find_value(pod->annotations, kHoldersAnnotation);
  const auto holders = uids == nullptr ? std::vector<std::string>{} : split(*uids);
  for (std::size_t i = 0; i < place.gpus.size(); ++i) {
    const NodeGpu gpu{place.node, place.gpus[i]};
    if (!shares && (pod != nullptr || !there_.contains(gpu))) continue;
    const auto there = look(gpu);
    const auto key = key_of(gpu);
    if (pod != nullptr) {
      followers_[key].insert(job);
      if (sum.lost.empty()) sum.lost = why_lost(gpu, there, i < holders.size() ? holders[i] : "");
      continue;
    }
    if (!shares) {
      sum.ready = false;  // also while nobody knows whether the pod was made: the request may be on its way
      sum.message =
          fmt::format("{} is still held by holder pod {}", say(gpu), holder_pod_name(gpu.node, gpu.index));
    } else if (there.state == State::kFailed) {
      sum.ready = false;
      sum.refused = there.reason;
      sum.message = fmt::format("holder pod {}: {}", there.name, there.message);
    } else if (there.state != State::kHolds) {
      sum.ready = false;
      const auto problem = problems_.find(key);
      const auto& why = problem != problems_.end() ? problem->second : there.message;
      if (!why.empty() && sum.refused.empty())
        sum.message = fmt::format("{} is not reserved yet: pod {}: {}", say(gpu),
                                  holder_pod_name(gpu.node, gpu.index), why);
      if (there.due && (!sum.again || *there.due < *sum.again)) sum.again = there.due;
    }
    followers_[key].insert(job);
  }
  return sum;
}

std::optional<HeldDevices> GpuHolders::devices(const crds::PodAssignment& place) const {
  HeldDevices held;
  for (const auto index : place.gpus) {
    const auto there = look({place.node, index});
    if (there.state != State::kHolds) return std::nullopt;
    const char* comma = held.ids.empty() ? "" : ",";
    held.ids += comma + there.device;
    held.holders += comma + there.uid;
  }
  return held;
}

client::Task<Outcome> GpuHolders::reconcile(client::Key key) {
  const auto gpu = gpu_of_key(key);
  if (!gpu) co_return Outcome::done();
  if (expected_.contains(key)) co_return Outcome::again(kSoon);
  const bool may_be_made = there_.contains(*gpu) && !pod_of(*gpu);  // the last answer was lost
  if (may_be_made) {
    const client::ObjectRef ref{options_.pods.ns, holder_pod_name(gpu->node, gpu->index)};
    const auto answer = co_await context_.api.get(client::resources::kPods, ref);
    if (!answer && answer.error().code != ErrorCode::kNotFound) co_return Outcome::retry();
    auto read = answer ? client::decode_pod(*answer, pod_fields()) : client::Result<client::Pod>();
    if (answer && read) context_.caches.pods.store().assume(std::move(*read));
    if (!pod_of(*gpu)) {
      there_.erase(*gpu);
      tell(key);
    }
  }
  const bool is_assigned = !context_.caches.jobs.store().by_index(kBySharedGpu, key).empty();
  const auto sharers = context_.caches.pods.store().by_index(kBySharedGpu, key).size();
  const auto there = look(*gpu);
  const auto pod = pod_of(*gpu);
  // A pod that we have begun to delete goes, also if the first request did not get through.
  if (pod && !pod->deleting && leaving_.contains(pod->meta.uid)) co_return co_await remove(there);
  switch (duty(is_assigned, sharers, there)) {
    case Duty::kNothing:
      break;
    case Duty::kMake:
      // It would stay there until Kubernetes collects it. Its jobs lose their places in a moment.
      if (!context_.caches.nodes.store().find(gpu->node)) co_return Outcome::again(kSoon);
      co_return co_await make(key, *gpu);
    case Duty::kRemove:
      co_return co_await remove(there);
  }
  if (problems_.erase(key) > 0) tell(key);
  if (!is_assigned && sharers == 0 && there.state == State::kAbsent) followers_.erase(key);
  co_return Outcome::done();
}

client::Task<Outcome> GpuHolders::make(const client::Key& key, const NodeGpu& gpu) {
  const bool has_image = co_await find_image();
  if (!has_image) co_return Outcome::retry();
  const auto jobs = context_.caches.jobs.store().by_index(kBySharedGpu, key);
  if (jobs.empty() || context_.api.writes_stopped()) co_return Outcome::retry();
  const auto means = context_.placement.gpu_means(jobs.front()->value.status.assignment.pool);
  std::string body = holder_pod_json(gpu, means.resource, options_.pods).dump();
  there_.insert(gpu);  // from now on it may be: nobody starts on the whole GPU
  auto answer = co_await context_.api.create(client::resources::kPods, options_.pods.ns, std::move(body),
                                             std::string(kFieldManager));
  const bool read_it =
      !answer && (answer.error().outcome_unknown() || answer.error().code == ErrorCode::kAlreadyExists);
  if (read_it) {
    const client::ObjectRef ref{options_.pods.ns, holder_pod_name(gpu.node, gpu.index)};
    answer = co_await context_.api.get(client::resources::kPods, ref);
  } else if (answer) {
    ++context_.totals.pods_created;
    log_info("makes a holder pod", {{"node", gpu.node}, {"gpu", std::to_string(gpu.index)}});
  }
  if (!answer) {
    const bool is_known = !read_it || answer.error().code == ErrorCode::kNotFound;
    if (is_known && !pod_of(gpu)) there_.erase(gpu);
    const auto why = "the API server does not take it: " + client::to_string(answer.error());
    log_warn("holder pod not made", {{"gpu", key}, {"error", why}});
    auto& problem = problems_[key];
    const bool is_new = std::exchange(problem, why) != why;
    if (is_new || is_known) tell(key);
    co_return Outcome::retry();
  }
  problems_.erase(key);
  auto pod = client::decode_pod(*answer, pod_fields());
  if (!pod) co_return Outcome::retry();
  context_.caches.pods.store().assume(std::move(*pod));
  co_return Outcome::done();
}

client::Task<Outcome> GpuHolders::remove(const HolderPod& there) {
  if (context_.api.writes_stopped()) co_return Outcome::retry();
  const std::string uid = there.uid;
  // From now on no sharer's pod is made there, because the answer may take long.
  leaving_.insert(uid);
  client::DeleteOptions options;
  options.uid = uid;
  const client::ObjectRef ref{options_.pods.ns, there.name};
  const auto gone = co_await context_.api.remove(client::resources::kPods, ref, options);
  if (!gone && gone.error().code != ErrorCode::kNotFound && gone.error().code != ErrorCode::kConflict) {
    log_warn("holder pod not deleted", {{"pod", there.name}, {"error", client::to_string(gone.error())}});
    co_return Outcome::retry();
  }
  if (!gone) co_return Outcome::done();  // the watch has not said so yet, or it is another's by now
  ++context_.totals.pods_deleted;
  auto told = client::decode_pod(*gone, pod_fields());
  if (told && told->meta.uid == uid) context_.caches.pods.store().assume(std::move(*told));
  co_return Outcome::done();
}

// Holder pods run Muster's own image, unless an option names another: nodes can pull it, and its program
// knows how to hold a GPU. Several GPUs may ask at once, and each waits for an answer of its own. Each sets
// image and secrets as a whole, so it does not matter how many do.
client::Task<bool> GpuHolders::find_image() {
  if (!options_.pods.image.empty()) co_return true;
  std::string image;
  std::vector<std::string> secrets;
  if (!options_.own_pod.empty()) {
    const client::ObjectRef ref{options_.pods.ns, options_.own_pod};
    const auto read = co_await context_.api.get(client::resources::kPods, ref);
    if (!read && read.error().code != ErrorCode::kNotFound) co_return false;
    const auto pod = read ? crds::Json::parse(*read, nullptr, false) : crds::Json();
    for (const auto& container : items(find(&pod, "spec", "containers"))) {
      if (image.empty()) image = text(find(container, "image"));
    }
    for (const auto& secret : items(find(&pod, "spec", "imagePullSecrets")))
      secrets.push_back(text(find(secret, "name")));
  }
  options_.pods.image = image.empty() ? options_.fallback_image : std::move(image);
  options_.pods.pull_secrets = std::move(secrets);
  co_return true;
}

}  // namespace muster::reconcilers
