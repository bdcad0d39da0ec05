#include "pool/ranking.h"

#include <algorithm>

namespace muster::placement {
namespace {

constexpr std::size_t kMaxRanked = 1 << 20;   // nodes in all rankings together; some 50 bytes each
constexpr std::size_t kMaxChanges = 1 << 20;  // that are remembered

// std heaps have the largest first.
bool worse(const Rank& a, const Rank& b) {
  return b.before(a);
}

}  // namespace

void Rankings::push(std::vector<Rank>& heap, const Rank& rank) {
  heap.push_back(rank);
  std::push_heap(heap.begin(), heap.end(), worse);
}

void Rankings::pop(std::vector<Rank>& heap) {
  std::pop_heap(heap.begin(), heap.end(), worse);
  heap.pop_back();
}

void Rankings::find_solution(std::size_t nodes) {
  if (all_.size() * nodes <= kMaxRanked && changes_.size() <= kMaxChanges) return;
  all_.clear();
  changes_.clear();
}

}  // namespace muster::placement
