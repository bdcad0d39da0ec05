// The parameters of an array that are lines of a ConfigMap (spec.array.parametersFrom).
//
// They are taken once, before the first index begins: Muster copies them into a ConfigMap of its own,
// NAME-parameters, which nobody can edit and which goes with the array. From then on only the copy is read.
// So whatever happens to the ConfigMap of the user, all indexes have their parameters from one version of it.
// decisions/0075 says why it is so.
#pragma once

#include <cstdint>
#include <expected>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/reconcilers/arrays/array_status.h"
#include "muster/reconcilers/caches/reconciler_context.h"

namespace muster::reconcilers {

using ParameterLines = std::vector<std::string>;

// A line is so many bytes at most.
inline constexpr std::size_t kMaxParameterLine = 1024;

// The first `count` lines; the error is a clause: "has 3 lines, and …". What ends the last line is no line,
// and a carriage return before the end of a line is not of it.
std::expected<ParameterLines, std::string> parameter_lines(std::string_view text, std::int32_t count);

// The ConfigMap in which they are kept.
std::string parameters_name(std::string_view array);
std::string parameters_json(const crds::TrainingJob& array, const ParameterLines& lines);

class ArrayParameters {
 public:
  explicit ArrayParameters(ReconcilerContext& context) : context_(context) {}

  struct Answer {
    std::shared_ptr<const ParameterLines> lines;  // nullptr: there are none yet
    ArrayRefusal refusal{};                       // why; an empty reason: try again
  };
  // `has_begun`: an index has a job or has ended, so they were taken before.
  client::Task<Answer> take(client::Ptr<Object<crds::TrainingJob>> array, bool has_begun);
  void forget(const client::Key& key) { taken_.erase(key); }

 private:
  struct Taken {
    std::string uid;  // of the array
    std::shared_ptr<const ParameterLines> lines;
  };
  // The copy; an error kNotFound: there is none.
  client::Task<client::Result<Answer>> read_copy(client::Ptr<Object<crds::TrainingJob>> array);
  client::Task<Answer> make_copy(client::Ptr<Object<crds::TrainingJob>> array);

  ReconcilerContext& context_;
  std::map<client::Key, Taken> taken_;
};

}  // namespace muster::reconcilers
