#include "reader.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace muster::plugin {
namespace {

template <class Kind>
client::Resource resource_of() {
  return {std::string(crds::kGroup), std::string(crds::kVersion), std::string(Kind::kPlural),
          Kind::kNamespaced};
}

client::Error unreadable(std::string message) {
  return {.code = client::ErrorCode::kDecode, .message = std::move(message)};
}

// `read` makes a T of the JSON of each.
template <class T, class Read>
client::Task<client::Result<std::vector<T>>> list_all(client::ApiClient& api, client::Resource resource,
                                                      std::string ns, Read read) {
  std::vector<T> all;
  client::ListOptions options;
  options.resource_version = "0";
  do {
    auto page = co_await api.list(resource, ns, options);
    if (!page) co_return std::unexpected(page.error());
    const auto list = crds::Json::parse(page->body, nullptr, false);
    if (list.is_discarded() || !list.is_object())
      co_return std::unexpected(unreadable("the list is no JSON"));
    for (const auto& item : list.value("items", crds::Json::array())) {
      client::Result<T> object = read(item);
      if (!object) co_return std::unexpected(object.error());
      all.push_back(std::move(*object));
    }
    options.continue_token = page->continue_token;
    options.resource_version.clear();  // the token says which
  } while (!options.continue_token.empty());
  co_return all;
}

template <class Kind>
client::Result<Kind> read_object(const crds::Json& item) {
  auto object = crds::from_json<Kind>(item);
  if (!object) return std::unexpected(unreadable(crds::to_string(object.error())));
  return std::move(*object);
}

client::Result<client::Node> read_node(const crds::Json& item) {
  return client::decode_node(item.dump(), crds::kGroup);
}

template <class Kind>
client::Task<client::Result<Kind>> get_one(client::ApiClient& api, std::string ns, std::string name) {
  auto body = co_await api.get(resource_of<Kind>(), {ns, name});
  if (!body) co_return std::unexpected(body.error());
  auto object = crds::from_text<Kind>(*body);
  if (!object) co_return std::unexpected(unreadable(crds::to_string(object.error())));
  co_return std::move(*object);
}

template <class T>
client::Task<void> keep(client::Task<T> task, std::optional<T>& result) {
  result = co_await std::move(task);
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

template <class T>
T Reader::wait_for(client::Task<T> task) {
  std::optional<T> result;
  client::spawn(env_.executor, keep(std::move(task), result));
  io_.restart();
  while (!result) io_.run_one();
  return std::move(*result);
}

crds::Time Reader::now() const {
  return std::chrono::floor<std::chrono::seconds>(clock_.wall());
}

template <class Kind>
client::Result<std::vector<Kind>> Reader::list(const std::string& ns) {
  return wait_for(list_all<Kind>(api_, resource_of<Kind>(), ns, read_object<Kind>));
}
client::Result<std::vector<client::Node>> Reader::nodes() {
  return wait_for(list_all<client::Node>(api_, client::resources::kNodes, {}, read_node));
}
template <class Kind>
client::Result<Kind> Reader::get(const std::string& ns, const std::string& name) {
  return wait_for(get_one<Kind>(api_, ns, name));
}

template client::Result<std::vector<crds::Queue>> Reader::list(const std::string&);
template client::Result<std::vector<crds::Project>> Reader::list(const std::string&);
template client::Result<std::vector<crds::NodePool>> Reader::list(const std::string&);
template client::Result<std::vector<crds::TrainingJob>> Reader::list(const std::string&);
template client::Result<crds::TrainingJob> Reader::get(const std::string&, const std::string&);
template client::Result<crds::InferenceService> Reader::get(const std::string&, const std::string&);

}  // namespace muster::plugin
