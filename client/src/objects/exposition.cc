#include "muster/client/exposition.h"

#include <algorithm>
#include <boost/fusion/include/adapt_struct.hpp>
#include <boost/fusion/include/std_pair.hpp>
#include <boost/spirit/home/x3.hpp>
#include <charconv>

namespace muster::client {
namespace {

// A sample's line: numbers are judged after the grammar, by the standard library, which is exact.
struct Line {
  std::vector<std::pair<std::string, std::string>> labels;
  std::string value;
  std::string timestamp;  // "": none
};

}  // namespace
}  // namespace muster::client

BOOST_FUSION_ADAPT_STRUCT(muster::client::Line, labels, value, timestamp)

namespace muster::client {
namespace {

namespace x3 = boost::spirit::x3;
namespace grammar {

using x3::char_;
using x3::lit;

struct Escape : x3::symbols<char> {
  Escape() { add("\\\\", '\\')("\\\"", '"')("\\n", '\n'); }
};
const Escape escape;

const auto blanks = x3::omit[*char_(" \t")];
const auto metric_name = x3::raw[char_("a-zA-Z_:") >> *char_("a-zA-Z0-9_:")];

const x3::rule<struct LabelName, std::string> label_name = "label name";
const auto label_name_def = char_("a-zA-Z_") >> *char_("a-zA-Z0-9_");
const x3::rule<struct LabelValue, std::string> label_value = "label value";
const auto label_value_def = lit('"') >> *(escape | ~char_("\"\\\n")) >> lit('"');
const x3::rule<struct Label, std::pair<std::string, std::string>> label = "label";
const auto label_def = label_name >> blanks >> lit('=') >> blanks >> label_value;
const x3::rule<struct Labels, std::vector<std::pair<std::string, std::string>>> labels = "labels";
const auto comma = blanks >> lit(',') >> blanks;
const auto labels_def = lit('{') >> blanks >> -((label % comma) >> -comma) >> blanks >> lit('}');
const x3::rule<struct Token, std::string> token = "number";
const auto token_def = +~char_(" \t\n");
const x3::rule<struct Rest, Line> rest = "sample";
const auto rest_def =
    blanks >> -labels >> blanks >> !lit('{') >> token >> blanks >> -token >> blanks >> x3::eoi;

BOOST_SPIRIT_DEFINE(label_name, label_value, label, labels, token, rest)

}  // namespace grammar

Error error_at(std::size_t line, std::string what) {
  Error error;
  error.code = ErrorCode::kDecode;
  error.message = "metrics, line " + std::to_string(line) + ": " + std::move(what);
  return error;
}

// As Go's ParseFloat takes them, but for hexadecimal and underscores: "+Inf", "NaN", "1e3".
bool read_number(std::string_view text, double& out) {
  if (text.starts_with('+')) text.remove_prefix(1);
  if (text.starts_with('+')) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size();
}

bool read_time(std::string_view text, std::optional<std::int64_t>& out) {
  if (text.empty()) return true;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out.emplace());
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

const std::string* Sample::label(std::string_view key) const {
  const auto it = std::ranges::find(labels, key, [](const auto& l) { return std::string_view(l.first); });
  return it == labels.end() ? nullptr : &it->second;
}

Result<std::vector<Sample>> parse_exposition(std::string_view text, const WantedMetric& wanted) {
  if (text.size() > kMaxExposition)
    return std::unexpected(error_at(1, "more than " + std::to_string(kMaxExposition) + " bytes"));
  std::vector<Sample> samples;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t length = text.find('\n');
    if (length == text.npos) return std::unexpected(error_at(number, "is cut short: has no line feed"));
    std::string_view line = text.substr(0, length);
    text.remove_prefix(length + 1);
    const std::size_t begin = line.find_first_not_of(" \t");
    if (begin == line.npos || line[begin] == '#') continue;
    line.remove_prefix(begin);

    auto at = line.begin();
    if (!x3::parse(at, line.end(), grammar::metric_name))
      return std::unexpected(error_at(number, "does not begin with the name of a metric"));
    const auto name = line.substr(0, static_cast<std::size_t>(at - line.begin()));
    if (wanted && !wanted(name)) continue;
    Line read;
    if (!x3::parse(at, line.end(), grammar::rest, read))
      return std::unexpected(error_at(number, "is no sample: name, {label=\"value\",…}, value, time"));
    Sample sample;
    sample.name = name;
    sample.labels = std::move(read.labels);
    if (!read_number(read.value, sample.value))
      return std::unexpected(error_at(number, "its value is no number"));
    if (!read_time(read.timestamp, sample.timestamp_ms))
      return std::unexpected(error_at(number, "its time is no number of milliseconds"));
    if (samples.size() == kMaxSamples)
      return std::unexpected(error_at(number, "more than " + std::to_string(kMaxSamples) + " samples"));
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace muster::client
