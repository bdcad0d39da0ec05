// Lists the pods of a cluster and follows them: pods [KUBECONFIG]
#include <boost/asio/io_context.hpp>
#include <iostream>

#include "muster/client/config.h"
#include "muster/client/curl_transport.h"
#include "muster/client/informer.h"
#include "muster/client/pod.h"

using namespace muster::client;

int main(int argc, char** argv) {
  boost::asio::io_context io(1);
  RealClock clock;
  RandomSource random(RandomSource::seed_from_system());
  const Environment env{io.get_executor(), clock, random};

  KubeconfigOptions options;
  if (argc > 1) options.path = argv[1];
  const auto config = load_config(options);
  if (!config) return std::cerr << to_string(config.error()) << std::endl, 1;

  CurlTransport transport(env, *config);
  ApiClient api(env, transport);
  const PodFields fields;
  Informer<Pod> pods(api, resources::kPods, [&](std::string_view json) { return decode_pod(json, fields); });
  pods.store().add_handler([&](const StoreEvent<Pod>& event) {
    if (auto* e = std::get_if<Added<Pod>>(&event)) std::cout << "+ " << e->now->meta.key() << std::endl;
    if (auto* e = std::get_if<Updated<Pod>>(&event)) std::cout << "~ " << e->now->meta.key() << std::endl;
    if (auto* e = std::get_if<Deleted<Pod>>(&event)) std::cout << "- " << e->last->meta.key() << std::endl;
    if (std::holds_alternative<Synced>(event)) std::cout << pods.store().size() << " pods" << std::endl;
  });
  spawn(env.executor, pods.run());
  io.run();
}
