#include "muster/crds/quantity.h"

#include <array>
#include <limits>
#include <optional>

namespace muster::crds {
namespace {

__extension__ using Wide = unsigned __int128;
constexpr Wide kMax = static_cast<Wide>(std::numeric_limits<std::int64_t>::max());

// A factor as a fraction, so that "m" and negative exponents stay integers.
struct Factor {
  Wide numerator;
  Wide denominator;
};

Wide power(unsigned base, int exponent) {
  Wide result = 1;
  for (int i = 0; i < exponent; ++i) result *= base;
  return result;
}

std::optional<Factor> factor_of(std::string_view suffix) {
  if (suffix.empty()) return Factor{1, 1};
  if (suffix == "n") return Factor{1, power(10, 9)};
  if (suffix == "u") return Factor{1, power(10, 6)};
  if (suffix == "m") return Factor{1, 1000};
  if (suffix == "k") return Factor{1000, 1};
  constexpr std::string_view kLetters = "KMGTPE";
  const auto at = kLetters.find(suffix[0]);
  if (at != std::string_view::npos) {
    if (suffix.size() == 2 && suffix[1] == 'i') return Factor{power(1024, static_cast<int>(at) + 1), 1};
    if (suffix.size() == 1 && suffix != "K") return Factor{power(1000, static_cast<int>(at) + 1), 1};
  }
  // e3, E-2: the "E" of exa alone was caught above.
  if ((suffix[0] == 'e' || suffix[0] == 'E') && suffix.size() >= 2) {
    std::string_view digits = suffix.substr(1);
    const bool negative = digits[0] == '-';
    if (digits[0] == '-' || digits[0] == '+') digits.remove_prefix(1);
    if (digits.empty() || digits.size() > 2 || digits.find_first_not_of("0123456789") != digits.npos)
      return {};
    const int exponent = digits.size() == 1 ? digits[0] - '0' : (digits[0] - '0') * 10 + (digits[1] - '0');
    if (exponent > 18) return {};
    return negative ? Factor{1, power(10, exponent)} : Factor{power(10, exponent), 1};
  }
  return {};
}

std::unexpected<std::string> malformed(std::string_view text) {
  return std::unexpected("must be a quantity such as 2, \"2500m\", \"0.5\" or \"4Gi\", is \"" +
                         std::string(text.substr(0, 40)) + "\"");
}

std::unexpected<std::string> too_large(std::string_view text) {
  return std::unexpected("must be a quantity below 2^63 in its smallest unit, is \"" +
                         std::string(text.substr(0, 40)) + "\"");
}

std::string milli_text(std::int64_t milli) {
  return milli % 1000 == 0 ? std::to_string(milli / 1000) : std::to_string(milli) + "m";
}

template <class Unit>
std::expected<Amount<Unit>, std::string> parse_amount(std::string_view text, std::int64_t scale) {
  auto value = parse_quantity(text, scale);
  if (!value) return std::unexpected(std::move(value.error()));
  return Amount<Unit>{*value};
}

}  // namespace

std::expected<std::int64_t, std::string> parse_quantity(std::string_view text, std::int64_t scale) {
  std::string_view rest = text;
  if (!rest.empty() && rest[0] == '+') rest.remove_prefix(1);
  // Digits as one integer with a count of those behind the point; 18 of them fit beside any factor
  // in 128 bits.
  Wide digits = 0;
  int decimals = 0;
  int significant = 0;
  bool point = false;
  bool any = false;
  bool inexact = false;
  std::size_t i = 0;
  for (; i < rest.size(); ++i) {
    const char c = rest[i];
    if (c == '.' && !point) {
      point = true;
      continue;
    }
    if (c < '0' || c > '9') break;
    any = true;
    if (significant == 0 && c == '0' && !point) continue;  // leading zeros
    if (significant >= 19 || decimals >= 18) {
      if (!point) return too_large(text);
      inexact = inexact || c != '0';  // finer than any scale: only rounds up
      continue;
    }
    digits = digits * 10 + static_cast<unsigned>(c - '0');
    significant += digits != 0 ? 1 : 0;
    if (point) ++decimals;
  }
  const std::optional<Factor> factor = factor_of(rest.substr(i));
  if (!any || !factor) return malformed(text);

  // digits < 10^19, numerator <= 2^60, scale 1000: the product may need more than 128 bits only when it is
  // far too large.
  const Wide multiplier = factor->numerator * static_cast<Wide>(scale);
  if (digits != 0 && multiplier > ~static_cast<Wide>(0) / digits) return too_large(text);
  const Wide numerator = digits * multiplier;
  const Wide denominator = factor->denominator * power(10, decimals);
  const Wide value = numerator / denominator + (numerator % denominator != 0 || inexact ? 1 : 0);
  if (value > kMax) return too_large(text);
  return static_cast<std::int64_t>(value);
}

std::expected<MilliGpu, std::string> parse_gpu(std::string_view text) {
  return parse_amount<GpuUnit>(text, 1000);
}
std::expected<MilliCpu, std::string> parse_cpu(std::string_view text) {
  return parse_amount<CpuUnit>(text, 1000);
}
std::expected<Bytes, std::string> parse_memory(std::string_view text) {
  return parse_amount<MemoryUnit>(text, 1);
}
std::expected<MilliLoad, std::string> parse_load(std::string_view text) {
  return parse_amount<LoadUnit>(text, 1000);
}

std::string to_string(MilliGpu amount) {
  return milli_text(amount.value);
}
std::string to_string(MilliCpu amount) {
  return milli_text(amount.value);
}
std::string to_string(MilliLoad amount) {
  return milli_text(amount.value);
}

std::string to_string(Bytes amount) {
  constexpr std::array<std::string_view, 7> kSuffixes = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
  std::int64_t value = amount.value;
  std::size_t suffix = 0;
  while (value != 0 && value % 1024 == 0 && suffix + 1 < kSuffixes.size()) {
    value /= 1024;
    ++suffix;
  }
  return std::to_string(value) + std::string(kSuffixes[suffix]);
}

}  // namespace muster::crds
