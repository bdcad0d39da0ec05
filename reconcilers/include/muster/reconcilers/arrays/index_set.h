// Some of the indexes of an array, and how they are written: "0-41,43".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::reconcilers {

class IndexSet {
 public:
  // Of an array of `count` indexes, 0 or more; none of them is in it.
  explicit IndexSet(std::int32_t count) : has_(static_cast<std::size_t>(count)) {}
  // Those that the text names. What is no index of the array, or no number, is left out. O(count + text).
  static IndexSet parse(std::string_view text, std::int32_t count);

  bool contains(std::int32_t index) const {
    return index >= 0 && static_cast<std::size_t>(index) < has_.size() &&
           has_[static_cast<std::size_t>(index)];
  }
  void insert(std::int32_t index);
  void erase(std::int32_t index);
  std::int32_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // Ascending, ranges as short as they get; "": none. At most 40,000 bytes for 10,000 indexes. O(count).
  std::string to_text() const;

  bool operator==(const IndexSet&) const = default;

 private:
  std::vector<bool> has_;
  std::int32_t size_ = 0;
};

}  // namespace muster::reconcilers
