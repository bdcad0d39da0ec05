#include "cluster.h"

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "muster/client/informer.h"
#include "rows/rows.h"

namespace muster::ui {
namespace {

using nlohmann::json;

constexpr auto kAskAgain = std::chrono::seconds{30};      // for a right that was missing
constexpr auto kTryAgain = std::chrono::seconds{3};       // after any other error
constexpr auto kLookAtWatches = std::chrono::seconds{1};  // whether they still work

client::Resource muster_resource(std::string_view plural, bool namespaced) {
  return {std::string(crds::kGroup), std::string(crds::kVersion), std::string(plural), namespaced};
}

std::string said(const client::Error& error) {
  return error.message.empty() ? client::to_string(error) : error.message;
}

bool is_refused(const client::Error& error) {
  return error.code == client::ErrorCode::kForbidden;
}

}  // namespace

// What is known of one kind without knowing its type.
class ClusterView::Watched {
 public:
  Watched(std::string about, client::Resource resource)
      : about_(std::move(about)), resource_(std::move(resource)) {}
  virtual ~Watched() = default;
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  const std::string& about() const { return about_; }  // its key in Table::kAbout
  const client::Resource& resource() const { return resource_; }
  // Starts to watch `ns`; "": all.
  virtual void watch(client::ApiClient& api, client::TaskGroup& tasks, const std::string& ns) = 0;
  virtual bool is_watched() const = 0;
  virtual bool is_synced() const = 0;
  virtual std::optional<client::Error> last_error() const = 0;

  std::vector<std::string> namespaces;   // that it is read of; empty: all
  std::optional<client::Error> refusal;  // why it is not watched
  std::function<void()> on_synced = [] {};

 private:
  std::string about_;
  client::Resource resource_;
};

namespace {

template <client::Cached T>
class WatchedKind final : public ClusterView::Watched {
 public:
  using Decode = client::Decoder<T>;
  using Seen = std::function<void(const client::Key&, client::Ptr<T>)>;  // nullptr: gone

  WatchedKind(std::string about, client::Resource resource, Decode decode, Seen seen)
      : Watched(std::move(about), std::move(resource)), decode_(std::move(decode)), seen_(std::move(seen)) {}

  void watch(client::ApiClient& api, client::TaskGroup& tasks, const std::string& ns) override {
    client::WatcherOptions options;
    options.ns = ns;
    auto informer = std::make_unique<client::Informer<T>>(api, resource(), decode_, std::move(options));
    informer->store().add_handler([this](const client::StoreEvent<T>& event) { hear(event); });
    tasks.spawn(informer->run());
    informers_.push_back(std::move(informer));
  }
  bool is_watched() const override { return !informers_.empty(); }
  bool is_synced() const override {
    return std::ranges::all_of(informers_, [](const auto& i) { return i->store().synced(); });
  }
  std::optional<client::Error> last_error() const override {
    for (const auto& informer : informers_) {
      if (informer->watcher().last_error()) return informer->watcher().last_error();
    }
    return std::nullopt;
  }

  void each(const std::function<void(const client::Key&, const client::Ptr<T>&)>& use) const {
    for (const auto& informer : informers_) {
      for (const auto& [key, object] : informer->store().all()) use(key, object);
    }
  }

 private:
  void hear(const client::StoreEvent<T>& event) {
    if (const auto* added = std::get_if<client::Added<T>>(&event))
      seen_(added->now->meta.key(), added->now);
    else if (const auto* updated = std::get_if<client::Updated<T>>(&event))
      seen_(updated->now->meta.key(), updated->now);
    else if (const auto* deleted = std::get_if<client::Deleted<T>>(&event))
      seen_(deleted->last->meta.key(), nullptr);
    else
      on_synced();
  }

  Decode decode_;
  Seen seen_;
  std::vector<std::unique_ptr<client::Informer<T>>> informers_;
};

// Not at version "0": from its cache the API server gives a whole list, whatever the limit.
client::ListOptions one_object() {
  client::ListOptions options;
  options.limit = 1;
  return options;
}

// Finds out of which namespaces the kind may be read, and watches those. An error that is no refusal is
// returned, and nothing is watched yet.
client::Task<std::optional<client::Error>> begin(client::ApiClient& api, client::TaskGroup& tasks,
                                                 const std::vector<std::string>& namespaces,
                                                 ClusterView::Watched& kind) {
  const auto everywhere = co_await api.list(kind.resource(), "", one_object());
  if (everywhere) {
    kind.watch(api, tasks, "");
    co_return std::nullopt;
  }
  if (!kind.resource().namespaced || !is_refused(everywhere.error())) co_return everywhere.error();
  std::vector<std::string> allowed;
  client::Error refusal = everywhere.error();
  for (const std::string& ns : namespaces) {
    const auto there = co_await api.list(kind.resource(), ns, one_object());
    if (there)
      allowed.push_back(ns);
    else if (is_refused(there.error()))
      refusal = there.error();
    else
      co_return there.error();
  }
  if (allowed.empty()) co_return refusal;
  kind.namespaces = allowed;
  for (const std::string& ns : allowed) kind.watch(api, tasks, ns);
  co_return std::nullopt;
}

client::Task<void> follow(client::ApiClient& api, client::TaskGroup& tasks,
                          const std::vector<std::string>& namespaces, ClusterView::Watched& kind) {
  while (true) {
    kind.refusal = co_await begin(api, tasks, namespaces, kind);
    if (!kind.refusal) co_return;
    const bool is_patient = is_refused(*kind.refusal) || kind.refusal->code == client::ErrorCode::kNotFound;
    const client::Duration pause = is_patient ? kAskAgain : kTryAgain;
    if (!co_await api.environment().clock.sleep_for(pause)) co_return;
  }
}

Text about(const ClusterView::Watched& kind) {
  json row = json::object();
  const auto error = kind.is_watched() ? kind.last_error() : kind.refusal;
  if (error && !kind.is_watched() && is_refused(*error)) {
    row["state"] = "forbidden";
  } else if (error && !kind.is_watched() && error->code == client::ErrorCode::kNotFound) {
    row["state"] = "missing";
  } else if (error) {
    row["state"] = "failing";
  } else {
    row["state"] = kind.is_watched() && kind.is_synced() ? "read" : "loading";
  }
  if (error) row["message"] = said(*error);
  if (!kind.namespaces.empty()) row["namespaces"] = kind.namespaces;
  return std::make_shared<const std::string>(row.dump(-1, ' ', false, json::error_handler_t::replace));
}

}  // namespace

struct ClusterView::Impl {
  Impl(client::ApiClient& client, Model& tables, std::vector<std::string> in)
      : api(client), model(tables), namespaces(std::move(in)) {
    add_rows("queues", muster_resource(crds::Queue::kPlural, false), queue_row, Table::kQueues, "queue/");
    add_rows("projects", muster_resource(crds::Project::kPlural, false), project_row, Table::kProjects,
             "project/");
    add_rows("jobs", muster_resource(crds::TrainingJob::kPlural, true), job_row, Table::kJobs, std::nullopt);
    add_services();
    add_nodes();
    for (const auto& kind : kinds) kind->on_synced = [this] { tell(); };
    tell();
  }

  // `usage`: what stands before the key in Table::kUsage. Without it the extra row is what the job holds.
  void add_rows(const std::string& name, client::Resource resource, client::Decoder<Row> decode, Table table,
                std::optional<std::string> usage) {
    const auto seen = [this, table, usage](const client::Key& key, const client::Ptr<Row>& row) {
      model.set(table, key, row ? row->row : nullptr);
      model.set(usage ? Table::kUsage : Table::kPlaces, usage.value_or("") + key, row ? row->extra : nullptr);
    };
    kinds.push_back(std::make_unique<WatchedKind<Row>>(name, std::move(resource), std::move(decode), seen));
  }

  void add_services() {
    const auto seen = [this](const client::Key& key, const client::Ptr<Row>& row) {
      model.set(Table::kServices, key, row ? row->row : nullptr);
      if (!row) return model.service_past().forget(key);
      ServiceSample sample = row->sample.value_or(ServiceSample{});
      sample.at = seconds_of(std::chrono::floor<std::chrono::seconds>(api.environment().clock.wall()));
      model.service_past().note(key, sample);
    };
    kinds.push_back(std::make_unique<WatchedKind<Row>>(
        "services", muster_resource(crds::InferenceService::kPlural, true), service_row, seen));
  }

  void add_nodes() {
    auto all_pools = std::make_unique<WatchedKind<PoolRow>>(
        "pools", muster_resource(crds::NodePool::kPlural, false), pool_row,
        [this](const client::Key& key, const client::Ptr<PoolRow>& row) {
          model.set(Table::kPools, key, row ? row->row : nullptr);
          pools_changed = true;
        });
    auto all_nodes = std::make_unique<WatchedKind<client::Node>>(
        "nodes", client::resources::kNodes,
        [](std::string_view text) { return client::decode_node(text, crds::kGroup); },
        [this](const client::Key& key, const client::Ptr<client::Node>& node) {
          model.set(Table::kNodes, key, node ? node_row(*node, pool_rows()) : nullptr);
        });
    pools = all_pools.get();
    nodes = all_nodes.get();
    kinds.push_back(std::move(all_pools));
    kinds.push_back(std::move(all_nodes));
  }

  std::vector<const PoolRow*> pool_rows() const {
    std::vector<const PoolRow*> rows;
    pools->each([&](const client::Key&, const client::Ptr<PoolRow>& row) { rows.push_back(row.get()); });
    return rows;
  }

  void tell() {
    for (const auto& kind : kinds) model.set(Table::kAbout, kind->about(), about(*kind));
    model.set_loading(std::ranges::any_of(
        kinds, [](const auto& kind) { return kind->is_watched() ? !kind->is_synced() : !kind->refusal; }));
    if (!std::exchange(pools_changed, false)) return;
    const auto rows = pool_rows();
    nodes->each([&](const client::Key& key, const client::Ptr<client::Node>& node) {
      model.set(Table::kNodes, key, node_row(*node, rows));
    });
  }

  static client::Task<void> keep_telling(Impl& self) {
    do {
      self.tell();
    } while (co_await self.api.environment().clock.sleep_for(kLookAtWatches));
  }

  client::ApiClient& api;
  Model& model;
  std::vector<std::string> namespaces;
  std::vector<std::unique_ptr<Watched>> kinds;
  WatchedKind<PoolRow>* pools = nullptr;
  WatchedKind<client::Node>* nodes = nullptr;
  bool pools_changed = false;  // which nodes are in which pool is then looked at again
};

ClusterView::ClusterView(client::ApiClient& api, Model& model, std::vector<std::string> namespaces)
    : impl_(std::make_unique<Impl>(api, model, std::move(namespaces))) {}
ClusterView::~ClusterView() = default;

void ClusterView::start(client::TaskGroup& tasks) {
  for (const auto& kind : impl_->kinds) tasks.spawn(follow(impl_->api, tasks, impl_->namespaces, *kind));
  tasks.spawn(Impl::keep_telling(*impl_));
}

}  // namespace muster::ui
