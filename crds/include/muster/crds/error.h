// What is wrong with an object, as a value that a person can act on.
#pragma once

#include <expected>
#include <string>
#include <vector>

namespace muster::crds {

struct FieldError {
  std::string object;  // "TrainingJob team-a/llama", "Queue research"; empty: not known (yet)
  std::string field;   // "spec.roles[0].gpus.count"; empty: the object as a whole
  // What is wrong and what is allowed: "must be an integer from 1 to 10000, is \"four\"".
  std::string message;
  std::string location;  // "jobs.yaml:12" where the object came from a file

  bool operator==(const FieldError&) const = default;
};

// One line: "jobs.yaml:12: TrainingJob team-a/llama: spec.roles[0].gpus.count: must be …". Parts that are not
// known are left out.
std::string to_string(const FieldError& error);

template <class T>
using Result = std::expected<T, FieldError>;

}  // namespace muster::crds
