#include "muster/common/quantity.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>

#include "quoted.h"

namespace muster::common {
namespace {

__extension__ using Wide = unsigned __int128;
constexpr Wide kMaxAmount = static_cast<Wide>(std::numeric_limits<std::int64_t>::max());
// An exponent beyond this makes any amount too large, or one of the smallest unit; so it may stand for all of
// them, and sums with the length of a text do not overflow.
constexpr std::int64_t kMaxExponent = std::int64_t{1} << 40;

// What a suffix multiplies by: 2^two * 10^ten.
struct Factor {
  int two = 0;
  std::int64_t ten = 0;
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::optional<Factor> read_exponent(std::string_view digits) {
  if (digits.starts_with('+')) {
    digits.remove_prefix(1);
    if (digits.starts_with('-')) return {};
  }
  std::int64_t exponent = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, status] = std::from_chars(digits.data(), end, exponent);
  if (status != std::errc() || stop != end) return {};
  return Factor{0, std::clamp(exponent, -kMaxExponent, kMaxExponent)};
}

std::optional<Factor> read_suffix(std::string_view suffix) {
  struct Known {
    std::string_view text;
    Factor factor;
  };
  static constexpr std::array<Known, 16> kKnown = {{{"", {0, 0}},
                                                    {"m", {0, -3}},
                                                    {"Ki", {10, 0}},
                                                    {"Mi", {20, 0}},
                                                    {"Gi", {30, 0}},
                                                    {"Ti", {40, 0}},
                                                    {"Pi", {50, 0}},
                                                    {"Ei", {60, 0}},
                                                    {"k", {0, 3}},
                                                    {"M", {0, 6}},
                                                    {"G", {0, 9}},
                                                    {"T", {0, 12}},
                                                    {"P", {0, 15}},
                                                    {"E", {0, 18}},
                                                    {"u", {0, -6}},
                                                    {"n", {0, -9}}}};
  for (const Known& known : kKnown) {
    if (known.text == suffix) return known.factor;
  }
  if (suffix[0] == 'e' || suffix[0] == 'E') return read_exponent(suffix.substr(1));
  return {};
}

// A number without its sign: its digits with the point left out, and where the point is among them.
struct Decimal {
  std::string_view whole, fraction;

  std::int64_t size() const { return static_cast<std::int64_t>(whole.size() + fraction.size()); }
  unsigned digit(std::int64_t i) const {
    const auto at = static_cast<std::size_t>(i);
    return static_cast<unsigned>((at < whole.size() ? whole[at] : fraction[at - whole.size()]) - '0');
  }
};

// Takes the digits off the front of `text`.
Decimal take_digits(std::string_view& text) {
  const auto take = [&text] {
    const auto end = static_cast<std::size_t>(std::ranges::find_if_not(text, is_digit) - text.begin());
    const std::string_view digits = text.substr(0, end);
    text.remove_prefix(end);
    return digits;
  };
  Decimal number{take(), {}};
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    number.fraction = take();
  }
  return number;
}

// number * 10^shift * multiplier, rounded up; nullopt: beyond int64.
std::optional<Wide> scaled(const Decimal& number, std::int64_t shift, Wide multiplier) {
  std::int64_t first = 0, end = number.size();
  while (first < end && number.digit(first) == 0) ++first;
  while (end > first && number.digit(end - 1) == 0) --end;
  if (first == end) return 0;
  // The digits before `point` are the whole part; it may lie before the first digit or behind the last one.
  const std::int64_t point = static_cast<std::int64_t>(number.whole.size()) + shift;
  constexpr std::int64_t kMaxDigits = 19;  // of kMaxAmount
  if (point - first > kMaxDigits) return {};
  Wide whole = 0;
  for (std::int64_t i = first; i < point; ++i) whole = whole * 10 + (i < end ? number.digit(i) : 0);
  // The fraction times the multiplier, from its last digit to the point: no step loses anything, because what
  // a division leaves over only says that the end is to be rounded up.
  Wide part = 0;
  bool rest = false;
  const auto divide = [&] {
    rest = rest || part % 10 != 0;
    part /= 10;
  };
  for (std::int64_t i = end - 1; i >= std::max(point, first); --i) {
    part += multiplier * number.digit(i);
    divide();
  }
  for (std::int64_t zeros = first - point; zeros > 0 && part != 0; --zeros) divide();
  if (__builtin_mul_overflow(whole, multiplier, &whole)) return {};
  if (__builtin_add_overflow(whole, part + (rest ? 1 : 0), &whole)) return {};
  return whole > kMaxAmount ? std::nullopt : std::optional(whole);
}

std::unexpected<std::string> too_large(std::string_view text, bool negative) {
  return std::unexpected((negative ? "must be a quantity above -2^63 in its smallest unit, is "
                                   : "must be a quantity below 2^63 in its smallest unit, is ") +
                         quoted(text));
}

}  // namespace

std::expected<std::int64_t, std::string> parse_quantity(std::string_view text, std::int64_t scale) {
  std::string_view rest = text;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  const Decimal number = take_digits(rest);
  const auto factor = read_suffix(rest);
  if (number.size() == 0 || !factor) {
    return std::unexpected("must be a quantity such as 2, \"2500m\", \"0.5\" or \"4Gi\", is " + quoted(text));
  }
  const auto amount = scaled(number, factor->ten, (Wide{1} << factor->two) * static_cast<Wide>(scale));
  if (!amount) return too_large(text, negative);
  const auto value = static_cast<std::int64_t>(*amount);
  return negative ? -value : value;
}

std::expected<std::int64_t, std::string> parse_amount(std::string_view text, std::int64_t scale) {
  auto value = parse_quantity(text, scale);
  if (value && *value < 0) {
    return std::unexpected("must be a quantity of 0 or more, such as 2, \"2500m\", \"0.5\" or \"4Gi\", is " +
                           quoted(text));
  }
  return value;
}

}  // namespace muster::common
