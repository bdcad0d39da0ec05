#include "packing/bound.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace muster::bench {
namespace {

constexpr int kSteps = 400;  // of the subgradient method
constexpr int kMilliPerGpu = 1000;
constexpr std::size_t kMaxModels = 12;  // all sets of more would be too many

// The most milli-GPU of these pods within so many GPUs and CPUs, parts of pods allowed.
double knapsack(double gpu, double cpu, std::vector<const TracePod*> pods) {
  std::ranges::stable_sort(pods, [](const TracePod* a, const TracePod* b) {
    return static_cast<double>(a->cpu_milli) * static_cast<double>(b->milli()) <
           static_cast<double>(b->cpu_milli) * static_cast<double>(a->milli());
  });
  double taken = 0;
  for (const TracePod* pod : pods) {
    const auto wanted = static_cast<double>(pod->milli()), costs = static_cast<double>(pod->cpu_milli);
    const double part = std::min({1.0, (gpu - taken) / wanted, costs > 0 ? cpu / costs : 1.0});
    if (part <= 0) break;
    taken += part * wanted;
    cpu -= part * costs;
  }
  return taken;
}

double bound_by_models(const std::vector<TraceNode>& nodes, const std::vector<const TracePod*>& pods) {
  std::map<std::string, std::pair<double, double>> models;  // GPU, CPU
  for (const TraceNode& n : nodes) {
    models[n.model].first += n.gpus * kMilliPerGpu;
    models[n.model].second += static_cast<double>(n.cpu_milli);
  }
  double best = 0;
  for (const auto& [model, has] : models) best += has.first;
  if (models.size() > kMaxModels) return best;
  for (std::size_t bits = 0; bits < (std::size_t{1} << models.size()); ++bits) {
    std::set<std::string> inside;
    double gpu = 0, cpu = 0, elsewhere = 0;
    std::size_t i = 0;
    for (const auto& [model, has] : models) {
      if ((bits >> i++ & 1) == 0) continue;
      inside.insert(model);
      gpu += has.first;
      cpu += has.second;
    }
    std::vector<const TracePod*> may;
    for (const TracePod* pod : pods) {
      const auto in = std::ranges::count_if(pod->models, [&](const auto& m) { return inside.contains(m); });
      const bool any = pod->models.empty();
      if (any ? !inside.empty() : in > 0) may.push_back(pod);
      const bool other =
          any ? inside.size() < models.size() : in < static_cast<std::ptrdiff_t>(pod->models.size());
      if (other) elsewhere += static_cast<double>(pod->milli());
    }
    best = std::min(best, elsewhere + knapsack(gpu, cpu, std::move(may)));
  }
  return best;
}

// What one GPU can hold at most, by what each size is worth: unbounded knapsack over whole milli-GPU.
struct Content {
  double worth = 0;
  std::map<std::int64_t, int> of_size;
};
Content best_content(const std::map<std::int64_t, double>& worth) {
  std::array<double, kMilliPerGpu + 1> most{};
  std::array<std::int64_t, kMilliPerGpu + 1> last{};
  for (int room = 1; room <= kMilliPerGpu; ++room) {
    const auto r = static_cast<std::size_t>(room);
    most[r] = most[r - 1];
    last[r] = 0;
    for (const auto& [size, value] : worth) {
      if (size > room) break;
      const double with = most[static_cast<std::size_t>(room - size)] + value;
      if (with > most[r]) most[r] = with, last[r] = size;
    }
  }
  Content best{most[kMilliPerGpu], {}};
  for (std::int64_t room = kMilliPerGpu; room > 0;) {
    const std::int64_t size = last[static_cast<std::size_t>(room)];
    if (size > 0) ++best.of_size[size];
    room -= size > 0 ? size : 1;
  }
  return best;
}

double bound_by_content(const std::vector<TraceNode>& nodes, const std::vector<const TracePod*>& pods) {
  double gpus = 0;
  for (const TraceNode& n : nodes) gpus += n.gpus;
  std::map<std::int64_t, double> demand, price;  // by size, in GPUs of that size
  for (const TracePod* pod : pods) demand[pod->gpu_milli] += pod->gpus;
  double best = gpus * kMilliPerGpu;
  for (int step = 0; step < kSteps; ++step) {
    std::map<std::int64_t, double> worth;
    double bound = 0;
    for (const auto& [size, wanted] : demand) {
      worth[size] = std::max(0.0, static_cast<double>(size) - price[size]);
      bound += wanted * price[size];
    }
    const Content content = best_content(worth);
    bound += gpus * content.worth;
    best = std::min(best, bound);
    // Dearer where the best content asks for more than there is.
    for (const auto& [size, wanted] : demand) {
      const auto found = content.of_size.find(size);
      const double used = found == content.of_size.end() ? 0 : gpus * found->second;
      const double change = (used - wanted) / gpus * 100 / (1 + step * 0.1);
      price[size] = std::clamp(price[size] + change, 0.0, static_cast<double>(size));
    }
  }
  return best;
}

}  // namespace

double packing_bound(const std::vector<TraceNode>& nodes, const std::vector<TracePod>& arrived) {
  std::vector<const TracePod*> pods;
  for (const TracePod& pod : arrived) {
    if (pod.milli() > 0) pods.push_back(&pod);
  }
  return std::min(bound_by_models(nodes, pods), bound_by_content(nodes, pods));
}

}  // namespace muster::bench
