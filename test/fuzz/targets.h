// What is fuzzed: every place where bytes come in that others wrote. Each target takes any bytes and aborts
// if what it promises is broken; crashes and undefined behaviour are found by the sanitizers.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace muster::fuzz {

using Target = void (*)(std::string_view input);

void documents(std::string_view input);   // YAML files of `muster validate`
void exposition(std::string_view input);  // metrics that a pod answers
void kubeconfig(std::string_view input);  // the file that says where the cluster is
void node(std::string_view input);        // a node's JSON
void objects(std::string_view input);     // a Muster object's JSON: defaults, schema, types and back
void pod(std::string_view input);         // a pod's JSON
void scalars(std::string_view input);     // quantities, durations, times
void watch(std::string_view input);       // a watch's stream; its first byte says how it is cut to pieces

// An assertion that holds in every build.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

}  // namespace muster::fuzz
