#include "muster/reconcilers/arrays/index_set.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace muster::reconcilers {
namespace {

std::optional<std::int32_t> number_in(std::string_view text) {
  std::int32_t n = -1;
  const auto [next, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  return error == std::errc() && next == text.data() + text.size() && n >= 0 ? std::optional(n)
                                                                             : std::nullopt;
}

}  // namespace

IndexSet IndexSet::parse(std::string_view text, std::int32_t count) {
  IndexSet set(count);
  while (!text.empty()) {
    const auto comma = std::min(text.find(','), text.size());
    const std::string_view range = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const auto dash = range.find('-');
    const auto first = number_in(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number_in(range.substr(dash + 1));
    if (!first || !last) continue;
    for (std::int32_t i = *first; i <= std::min(*last, count - 1); ++i) set.insert(i);
  }
  return set;
}

void IndexSet::insert(std::int32_t index) {
  if (index < 0 || static_cast<std::size_t>(index) >= has_.size() || contains(index)) return;
  has_[static_cast<std::size_t>(index)] = true;
  ++size_;
}

void IndexSet::erase(std::int32_t index) {
  if (!contains(index)) return;
  has_[static_cast<std::size_t>(index)] = false;
  --size_;
}

std::string IndexSet::to_text() const {
  std::string text;
  for (std::size_t i = 0; i < has_.size(); ++i) {
    if (!has_[i]) continue;
    const std::size_t first = i;
    while (i + 1 < has_.size() && has_[i + 1]) ++i;
    if (!text.empty()) text += ',';
    text += std::to_string(first);
    if (i > first) text += '-' + std::to_string(i);
  }
  return text;
}

}  // namespace muster::reconcilers
