// bench_client: what the client library costs per object and per request, without a control plane.
// See docs/benchmarks.md.
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <stdexcept>

#include "client/requests.h"
#include "client/sample_pod.h"
#include "muster/client/informer.h"
#include "muster/client/pod.h"
#include "muster/client/work_queue.h"
#include "report.h"

namespace muster::bench {
namespace {

using client::Pod;
using std::chrono::steady_clock;

constexpr int kPods = 4000;
constexpr int kRepeats = 7;

double seconds_of(const std::function<void()>& work) {
  const auto start = steady_clock::now();
  work();
  return std::chrono::duration<double>(steady_clock::now() - start).count();
}

// The best of some repetitions: what disturbs only ever makes it slower.
double best_seconds(const std::function<void()>& work) {
  double best = seconds_of(work);
  for (int i = 1; i < kRepeats; ++i) best = std::min(best, seconds_of(work));
  return best;
}

const client::PodFields& fields() {
  static const client::PodFields kFields{
      {"muster.dev/job", "muster.dev/role", "muster.dev/index", "muster.dev/attempt", "muster.dev/try"},
      {"muster.dev/gpus"}};
  return kFields;
}

Pod decoded(const std::string& text) {
  auto pod = client::decode_pod(text, fields());
  if (!pod) throw std::runtime_error("the sample pod cannot be decoded: " + client::to_string(pod.error()));
  return std::move(*pod);
}

std::vector<std::string> texts(bool running, std::int64_t first_version) {
  std::vector<std::string> all;
  for (int i = 0; i < kPods; ++i) all.push_back(sample_pod(i, running, first_version + i));
  return all;
}

void measure_decoding(Report& report, const std::vector<std::string>& pods) {
  std::int64_t gpus = 0;
  const double seconds = best_seconds([&] {
    gpus = 0;
    for (const std::string& text : pods) gpus += client::amount_of(decoded(text).extended, "nvidia.com/gpu");
  });
  if (gpus != kPods) throw std::runtime_error("decoding found " + std::to_string(gpus) + " GPUs");
  report.add("pod: bytes of its JSON", static_cast<double>(pods.front().size()), "B");
  report.add("pod: time to decode", seconds / kPods * 1e6, "us");
  report.add("pod: JSON decoded per second", static_cast<double>(pods.front().size()) * kPods / seconds / 1e6,
             "MB/s");
}

void add_indexes(client::Store<Pod>& store) {
  store.add_index("node", [](const Pod& pod) { return std::vector{pod.node_name}; });
  store.add_index("owner", [](const Pod& pod) { return std::vector{pod.owner_uid}; });
}

// Every pod comes, then starts to run: two events each, decoded, indexed twice and told to a handler.
void measure_store(Report& report, const std::vector<std::string>& pending,
                   const std::vector<std::string>& running) {
  std::size_t heard = 0;
  const double seconds = best_seconds([&] {
    client::Store<Pod> store;
    add_indexes(store);
    heard = 0;
    store.add_handler([&](const client::StoreEvent<Pod>&) { ++heard; });
    store.begin_view();
    store.end_view("1");
    for (const std::string& text : pending) store.apply(decoded(text));
    for (const std::string& text : running) store.apply(decoded(text));
  });
  if (heard != 2 * kPods + 1)
    throw std::runtime_error("the handler heard " + std::to_string(heard) + " events");
  report.add("store: pod events per second, decoding included", 2 * kPods / seconds, "1/s");
}

void measure_memory(Report& report, const std::vector<std::string>& running) {
  client::Store<Pod> store;
  add_indexes(store);
  malloc_trim(0);
  const auto before = mallinfo2().uordblks;
  std::size_t sum = 0;
  for (const std::string& text : running) {
    Pod pod = decoded(text);
    sum += client::memory_of(pod);
    store.apply(std::move(pod));
  }
  const auto after = mallinfo2().uordblks;
  if (store.size() != kPods)
    throw std::runtime_error("the store holds " + std::to_string(store.size()) + " pods");
  report.add("pod: bytes in the cache", static_cast<double>(sum) / kPods, "B", at_most(1023));
  report.add("pod: bytes in a store with two indexes", static_cast<double>(after - before) / kPods, "B");
}

client::Task<void> drain(client::WorkQueue& queue, int& taken) {
  for (;;) {
    const auto key = co_await queue.take();
    if (!key) co_return;
    queue.forget(*key);
    queue.done(*key);
    ++taken;
  }
}

void measure_work_queue(Report& report) {
  constexpr int kKeys = 20'000;
  std::vector<client::Key> keys;
  for (int i = 0; i < kKeys; ++i) keys.push_back("team/job-" + std::to_string(i));
  int taken = 0;
  const double seconds = best_seconds([&] {
    boost::asio::io_context loop(1);
    client::RealClock clock;
    client::RandomSource random(1);
    client::WorkQueue queue(client::Environment{loop.get_executor(), clock, random});
    taken = 0;
    client::spawn(loop.get_executor(), drain(queue, taken));
    for (const auto& key : keys) queue.add(key);
    while (taken < kKeys && loop.run_one() > 0) {
    }
    queue.shut_down();
    loop.run();
  });
  if (taken != kKeys) throw std::runtime_error("the queue gave " + std::to_string(taken) + " keys");
  report.add("work queue: keys added, taken and done per second", kKeys / seconds, "1/s");
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  muster::bench::log_to_standard_error();
  using namespace muster::bench;
  bool json = false;
  CLI::App app(
      "Measures decoding, caching, queueing and requests of the client library. It needs no control plane, "
      "and reports the best of several repetitions.",
      "bench_client");
  app.add_flag("--json", json, "Print one JSON object instead of a table");
  CLI11_PARSE(app, argc, argv);
  try {
    const auto pending = texts(false, 1000), running = texts(true, 100'000);
    Report report("client");
    measure_decoding(report, running);
    measure_store(report, pending, running);
    measure_memory(report, running);
    measure_work_queue(report);
    measure_requests(report, pending);
    report.print(json);
  } catch (const std::exception& error) {
    progress(error.what());
    return 1;
  }
  return 0;
}
