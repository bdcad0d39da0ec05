#include "node/links.h"

#include <algorithm>
#include <tuple>

#include "node/numa.h"

namespace muster::placement {

bool links_differ(const NodeSpec& node) {
  const auto n = static_cast<std::size_t>(std::max(0, node.gpus));
  if (n < 2 || node.gpu_links.size() != n) return false;
  bool differ = false;
  for (std::size_t i = 0; i < n; ++i) {
    if (node.gpu_links[i].size() != n) return false;
    for (std::size_t j = 0; j < i; ++j) differ = differ || node.gpu_links[i][j] != node.gpu_links[1][0];
  }
  return differ;
}

namespace {

constexpr std::size_t kExact = 16;

// A set as it is compared; larger is better.
struct Rank {
  std::int64_t inside = -1, minus_zones = 0, fits = 0, left = 0, minus_idle = 0;
  auto key() const { return std::tie(inside, minus_zones, fits, left, minus_idle); }
  bool operator>(const Rank& o) const { return key() > o.key(); }
};

class Search {
 public:
  explicit Search(const LinkQuery& q) : q_(q), gain_(q.idle.size()), among_(q.idle.size()) {
    for (std::size_t i = 0; i < q_.idle.size(); ++i) {
      for (const std::int32_t own : q_.own) gain_[i] += link(q_.idle[i], own);
      for (const std::int32_t other : q_.idle) {
        if (other == q_.idle[i]) continue;
        among_[i] += link(q_.idle[i], other);
        best_link_ = std::max(best_link_, link(q_.idle[i], other));
      }
    }
  }

  std::vector<std::int32_t> run() {
    if (q_.idle.size() <= kExact) {
      extend(0);
    } else {
      for (std::size_t i = 0; i < q_.idle.size(); ++i) grow(i);
    }
    return best_;
  }

 private:
  // Links come as somebody wrote them; what is below 0 is no link.
  std::int64_t link(std::int32_t a, std::int32_t b) const {
    const auto& row = q_.node.gpu_links[static_cast<std::size_t>(a)];
    return std::max(0, row[static_cast<std::size_t>(b)]);
  }

  void add(std::size_t i) {
    chosen_.push_back(i);
    inside_ += gain_[i];
    for (std::size_t k = 0; k < gain_.size(); ++k) {
      if (k != i) gain_[k] += link(q_.idle[k], q_.idle[i]);
    }
  }
  void drop() {
    const std::size_t i = chosen_.back();
    chosen_.pop_back();
    for (std::size_t k = 0; k < gain_.size(); ++k) {
      if (k != i) gain_[k] -= link(q_.idle[k], q_.idle[i]);
    }
    inside_ -= gain_[i];
  }

  void judge() {
    Rank rank;
    rank.inside = inside_;
    if (best_rank_.inside > rank.inside) return;
    std::vector<std::int32_t> zones;
    const auto note = [&](std::int32_t gpu) {
      const std::int32_t zone = zone_at(q_.node, gpu);
      if (std::find(zones.begin(), zones.end(), zone) == zones.end()) zones.push_back(zone);
    };
    std::int64_t touching = 0, pairs = 0;
    for (const std::size_t i : chosen_) {
      note(q_.idle[i]);
      touching += among_[i];
      for (const std::size_t k : chosen_) pairs += k < i ? link(q_.idle[i], q_.idle[k]) : 0;
    }
    const auto zone = static_cast<std::size_t>(std::max(0, zones.front()));
    rank.fits = zones.size() == 1 && zone < q_.zone_fits.size() && q_.zone_fits[zone] ? 1 : 0;
    for (const std::int32_t gpu : q_.idle)
      rank.minus_idle -= std::count(zones.begin(), zones.end(), zone_at(q_.node, gpu));
    for (const std::int32_t gpu : q_.own) note(gpu);
    rank.minus_zones = -static_cast<std::int64_t>(zones.size());
    rank.left = pairs - touching;
    if (!(rank > best_rank_)) return;
    best_rank_ = rank;
    best_.clear();
    for (const std::size_t i : chosen_) best_.push_back(q_.idle[i]);
    std::sort(best_.begin(), best_.end());
  }

  void extend(std::size_t from) {
    const auto open = static_cast<std::size_t>(q_.count) - chosen_.size();
    if (open == 0) return judge();
    if (q_.idle.size() - from < open) return;
    const std::int64_t most =
        *std::max_element(gain_.begin() + static_cast<std::ptrdiff_t>(from), gain_.end());
    const auto n = static_cast<std::int64_t>(open);
    if (inside_ + n * most + n * (n - 1) / 2 * best_link_ < best_rank_.inside) return;
    for (std::size_t i = from; i < q_.idle.size(); ++i) {
      add(i);
      extend(i + 1);
      drop();
    }
  }

  void grow(std::size_t first) {
    add(first);
    while (chosen_.size() < static_cast<std::size_t>(q_.count)) {
      std::size_t next = gain_.size();
      for (std::size_t i = 0; i < gain_.size(); ++i) {
        if (std::find(chosen_.begin(), chosen_.end(), i) != chosen_.end()) continue;
        if (next == gain_.size() || gain_[i] > gain_[next]) next = i;
      }
      add(next);
    }
    judge();
    while (!chosen_.empty()) drop();
  }

  const LinkQuery& q_;
  std::vector<std::int64_t> gain_;   // links to what is chosen and owned
  std::vector<std::int64_t> among_;  // links to all idle ones
  std::int64_t best_link_ = 0, inside_ = 0;
  std::vector<std::size_t> chosen_;
  std::vector<std::int32_t> best_;
  Rank best_rank_;
};

}  // namespace

std::vector<std::int32_t> best_connected(const LinkQuery& query) {
  return Search(query).run();
}

}  // namespace muster::placement
