// What a request asks for, taken apart.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::server {

// Of "/api/job?namespace=nlp&name=a%2Fb": the path, and the values with their percent signs resolved.
struct Target {
  std::string path;
  // "": it is not there.
  std::string value(std::string_view name) const;
  std::vector<std::pair<std::string, std::string>> query{};
};
Target parse_target(std::string_view text);

}  // namespace muster::server
