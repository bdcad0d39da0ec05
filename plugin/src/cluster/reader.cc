#include "cluster/reader.h"

namespace muster::plugin {
namespace {

using crds::Json;

// Not one that begins with "kubectl": Flux takes away what such managers wrote, and so would resume what
// somebody suspended.
constexpr const char* kFieldManager = "muster-plugin";

client::Error unreadable(std::string message) {
  return {.code = client::ErrorCode::kDecode, .message = std::move(message)};
}

// `read` makes a T of the JSON of each.
template <class T, class Read>
client::Task<client::Result<std::vector<T>>> list_all(client::ApiClient& api, client::Resource resource,
                                                      std::string ns, std::string selector, Read read) {
  std::vector<T> all;
  client::ListOptions options;
  options.label_selector = std::move(selector);
  options.resource_version = "0";
  do {
    auto page = co_await api.list(resource, ns, options);
    if (!page) co_return std::unexpected(page.error());
    auto list = Json::parse(page->body, nullptr, false);
    if (list.is_discarded() || !list.is_object())
      co_return std::unexpected(unreadable("the list is no JSON"));
    if (list.contains("items")) {
      for (auto& item : list["items"]) {
        client::Result<T> object = read(std::move(item));
        if (!object) co_return std::unexpected(object.error());
        all.push_back(std::move(*object));
      }
    }
    options.continue_token = page->continue_token;
    options.resource_version.clear();  // the token says which
  } while (!options.continue_token.empty());
  co_return all;
}

template <class Kind>
client::Result<Kind> read_object(const Json& item) {
  auto object = crds::from_json<Kind>(item);
  if (!object) return std::unexpected(unreadable(crds::to_string(object.error())));
  return std::move(*object);
}

client::Result<client::Node> read_node(const Json& item) {
  return client::decode_node(item.dump(), crds::kGroup);
}

client::Result<Json> as_it_came(Json item) {
  return item;
}

client::Result<Json> read_json(const client::Result<std::string>& body) {
  if (!body) return std::unexpected(body.error());
  auto object = Json::parse(*body, nullptr, false);
  if (object.is_discarded()) return std::unexpected(unreadable("the answer is no JSON"));
  return object;
}

// People wait: a server that is not there is said soon.
client::ApiOptions api_options() {
  client::ApiOptions options;
  options.timeout = std::chrono::seconds{20};
  options.max_repeats = 2;
  options.user_agent = "kubectl-muster";
  return options;
}

}  // namespace

Reader::Reader(const client::ClientConfig& config)
    : random_(client::RandomSource::seed_from_system()),
      env_{io_.get_executor(), clock_, random_},
      transport_(env_, config),
      api_(env_, transport_, api_options()) {}

crds::Time Reader::now() const {
  return std::chrono::floor<std::chrono::seconds>(clock_.wall());
}

template <class Kind>
client::Result<std::vector<Kind>> Reader::list(const std::string& ns) {
  return wait_for(list_all<Kind>(api_, resource_of<Kind>(), ns, {}, read_object<Kind>));
}
client::Result<std::vector<client::Node>> Reader::nodes() {
  return wait_for(list_all<client::Node>(api_, client::resources::kNodes, {}, {}, read_node));
}
client::Result<std::vector<Json>> Reader::list_json(const client::Resource& resource, const std::string& ns,
                                                    const std::string& label_selector) {
  return wait_for(list_all<Json>(api_, resource, ns, label_selector, as_it_came));
}

template <class Kind>
client::Result<Kind> Reader::get(const std::string& ns, const std::string& name) {
  const auto object = read_json(wait_for(api_.get(resource_of<Kind>(), {ns, name})));
  if (!object) return std::unexpected(object.error());
  return read_object<Kind>(*object);
}

client::Result<Json> Reader::create(const client::Resource& resource, const std::string& ns,
                                    const Json& object) {
  return read_json(wait_for(api_.create(resource, ns, object.dump(), kFieldManager)));
}

client::Result<Json> Reader::patch(const client::Resource& resource, client::ObjectRef ref, const Json& body,
                                   const std::string& subresource) {
  client::PatchOptions options;
  options.field_manager = kFieldManager;
  options.subresource = subresource;
  return read_json(wait_for(api_.patch(resource, std::move(ref), body.dump(), options)));
}

template client::Result<std::vector<crds::Queue>> Reader::list(const std::string&);
template client::Result<std::vector<crds::Project>> Reader::list(const std::string&);
template client::Result<std::vector<crds::NodePool>> Reader::list(const std::string&);
template client::Result<std::vector<crds::TrainingJob>> Reader::list(const std::string&);
template client::Result<crds::TrainingJob> Reader::get(const std::string&, const std::string&);
template client::Result<crds::InferenceService> Reader::get(const std::string&, const std::string&);

}  // namespace muster::plugin
