#include <algorithm>
#include <array>
#include <limits>

#include "muster/client/pod.h"

namespace muster::client {

namespace {

__extension__ using Wide = unsigned __int128;

struct Suffix {
  std::string_view text;
  int power_of_two;
  int power_of_ten;
};
// k8s.io/apimachinery/pkg/api/resource: binary and decimal suffixes.
constexpr std::array<Suffix, 16> kSuffixes{{{"", 0, 0},
                                            {"Ki", 10, 0},
                                            {"Mi", 20, 0},
                                            {"Gi", 30, 0},
                                            {"Ti", 40, 0},
                                            {"Pi", 50, 0},
                                            {"Ei", 60, 0},
                                            {"n", 0, -9},
                                            {"u", 0, -6},
                                            {"m", 0, -3},
                                            {"k", 0, 3},
                                            {"M", 0, 6},
                                            {"G", 0, 9},
                                            {"T", 0, 12},
                                            {"P", 0, 15},
                                            {"E", 0, 18}}};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// "e3", "E-6": false where it is not an exponent.
bool parse_exponent(std::string_view text, int& out) {
  if (text.size() < 2 || (text[0] != 'e' && text[0] != 'E')) return false;
  text.remove_prefix(1);
  const bool negative = text[0] == '-';
  if (text[0] == '-' || text[0] == '+') text.remove_prefix(1);
  if (text.empty() || text.size() > 3 || !std::all_of(text.begin(), text.end(), is_digit)) return false;
  out = 0;
  for (char c : text) out = out * 10 + (c - '0');
  if (negative) out = -out;
  return true;
}

bool parse_suffix(std::string_view text, int& power_of_two, int& power_of_ten) {
  for (const Suffix& suffix : kSuffixes) {
    if (suffix.text != text) continue;
    power_of_two = suffix.power_of_two;
    power_of_ten = suffix.power_of_ten;
    return true;
  }
  power_of_two = 0;
  return parse_exponent(text, power_of_ten);
}

// Digits before and after the point as mantissa * 10^-fraction, trailing zeros of the fraction left out.
bool take_digits(std::string_view& text, Wide& mantissa, int& fraction) {
  constexpr Wide kMost = ~Wide{0} / 16;
  std::size_t i = 0, digits = 0;
  mantissa = 0;
  fraction = 0;
  int zeros = 0;
  bool point = false;
  for (; i < text.size() && (is_digit(text[i]) || (text[i] == '.' && !point)); ++i) {
    if (text[i] == '.') {
      point = true;
      continue;
    }
    ++digits;
    if (point && text[i] == '0') {
      ++zeros;
      continue;
    }
    for (int z = point ? zeros : 0; z >= 0; --z) {
      if (mantissa > kMost) return false;
      mantissa = mantissa * 10 + (z == 0 ? static_cast<unsigned>(text[i] - '0') : 0u);
      if (point) ++fraction;
    }
    if (point) zeros = 0;
  }
  text.remove_prefix(i);
  return digits > 0;
}

}  // namespace

bool parse_quantity(std::string_view text, std::int64_t scale, std::int64_t& out) {
  const bool negative = !text.empty() && text.front() == '-';
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) text.remove_prefix(1);
  Wide value = 0;
  int fraction = 0, power_of_two = 0, power_of_ten = 0;
  if (!take_digits(text, value, fraction)) return false;
  if (!parse_suffix(text, power_of_two, power_of_ten)) return false;
  power_of_ten -= fraction;
  out = 0;
  if (value == 0) return true;
  if (__builtin_mul_overflow(value, static_cast<Wide>(scale), &value)) return false;
  if (__builtin_mul_overflow(value, Wide{1} << power_of_two, &value)) return false;
  for (; power_of_ten > 0; --power_of_ten) {
    if (__builtin_mul_overflow(value, Wide{10}, &value)) return false;
  }
  bool rest = false;
  for (; power_of_ten < 0 && value != 0; ++power_of_ten) {
    rest = rest || value % 10 != 0;
    value /= 10;
  }
  if (rest) ++value;
  if (value > static_cast<Wide>(std::numeric_limits<std::int64_t>::max())) return false;
  out = negative ? -static_cast<std::int64_t>(value) : static_cast<std::int64_t>(value);
  return true;
}

}  // namespace muster::client
