// The page in a real browser: browse.mjs.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "fixture.h"
#include "muster/testcluster/process.h"

namespace muster::test {

// The folder of playwright-core; nullopt: there is no browser here.
inline std::optional<std::string> page_modules() {
  const char* cache = std::getenv("MUSTER_CACHE");
  const char* home = std::getenv("HOME");
  const char* stated = std::getenv("MUSTER_PAGE_MODULES");
  const std::string modules = stated != nullptr ? stated
                              : cache != nullptr
                                  ? std::string(cache) + "/page-1"
                                  : std::string(home == nullptr ? "" : home) + "/.cache/muster/page-1";
  if (!std::filesystem::exists(modules + "/node_modules") || !std::filesystem::exists("/usr/bin/chromium"))
    return std::nullopt;
  return modules;
}

// "": all is well, and there are pictures in build/release/page. nullopt: there is no browser here.
inline std::optional<std::string> browse(const std::string& url, const json& plan) {
  const auto modules = page_modules();
  if (!modules) return std::nullopt;
  const auto result = testcluster::run_command(
      {.arguments = {"node", MUSTER_BROWSE, url, plan.dump(), std::string(MUSTER_PICTURES)},
       .environment = {{"MUSTER_PAGE_MODULES", *modules}},
       .log = {}},
      {}, 240s);
  if (!result) return result.error();
  return result->ok() ? "" : result->out + result->err + " (pictures: " MUSTER_PICTURES ")";
}

// An entry of the plan.
inline json view(const char* hash, const char* name, std::vector<std::string> expects,
                 std::vector<std::string> forbids = {}) {
  return {{"hash", hash}, {"name", name}, {"expects", expects}, {"forbids", forbids}};
}

}  // namespace muster::test
