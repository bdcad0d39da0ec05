// MIG slices: what a profile takes of a GPU, and the slices that a node has cut already.
#include <algorithm>
#include <charconv>
#include <string_view>

#include "node/node.h"
#include "node/wide.h"

namespace muster::placement {

std::optional<MigProfile> mig_profile(const std::string& text) {
  MigProfile p;
  const char* const end = text.data() + text.size();
  const auto [g, no_compute] = std::from_chars(text.data(), end, p.compute);
  if (no_compute != std::errc() || end - g < 2 || g[0] != 'g' || g[1] != '.') return std::nullopt;
  const auto [b, no_memory] = std::from_chars(g + 2, end, p.gigabytes);
  if (no_memory != std::errc() || std::string_view(b, end).substr(0, 2) != "gb") return std::nullopt;
  const bool suffix = end - b == 2 || b[2] == '+' || b[2] == '.';  // "1g.10gb+me", "1g.5gb.me"
  if (!suffix || p.compute < 1 || p.compute > 7 || p.gigabytes < 1 || p.gigabytes > 4096) return std::nullopt;
  return p;
}

std::int32_t mig_memory_slices(const MigProfile& profile, Bytes gpu_memory) {
  if (gpu_memory.value <= 0) return kMaxMemorySlices;
  // A profile's GB are decimal, and less than the GPU's name says: of 80 GB an eighth is called 10gb.
  const Wide asked = static_cast<Wide>(profile.gigabytes) * 1'000'000'000 * 8;
  return static_cast<std::int32_t>(
      std::min<Wide>((asked + gpu_memory.value - 1) / gpu_memory.value, kMaxMemorySlices));
}

std::int32_t cut_slices(const NodeSpec& node, const std::string& profile) {
  const auto found = node.mig.find(profile);
  return found == node.mig.end() ? 0 : std::max(0, found->second);
}

std::int64_t CutSlices::free(View view) const {
  std::int64_t left = std::int64_t{count} - used;
  if (view == View::kForNominated) left += nominated;
  if (view != View::kTarget) left -= leaving;
  return std::max<std::int64_t>(0, left);
}

std::int32_t Node::cut_index(const std::string& profile) {
  const auto found =
      std::find_if(cut.begin(), cut.end(), [&](const CutSlices& c) { return c.profile == profile; });
  const auto index = static_cast<std::int32_t>(found - cut.begin());
  if (found == cut.end()) cut.push_back({profile, cut_slices(spec, profile), 0, 0, 0});
  return index;
}

std::int64_t free_cut_slices(const Node& node, const std::string& profile, View view) {
  const auto found = std::find_if(node.cut.begin(), node.cut.end(),
                                  [&](const CutSlices& c) { return c.profile == profile; });
  return found == node.cut.end() ? cut_slices(node.spec, profile) : found->free(view);
}

}  // namespace muster::placement
