// What keeps a server from starting, in one word for people and tools: by what its pod's status says.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "muster/client/pod.h"

namespace muster::reconcilers {

// The words, as in the reason of a condition.
inline constexpr std::string_view kImageNotPulled = "ImageNotPulled";
inline constexpr std::string_view kContainerNotCreated = "ContainerNotCreated";  // a Secret is missing, …
inline constexpr std::string_view kModelNotAvailable = "ModelNotAvailable";      // 401, 403, 404 of its store
inline constexpr std::string_view kOutOfGpuMemory = "OutOfGPUMemory";
inline constexpr std::string_view kOutOfMemory = "OutOfMemory";  // of the container
inline constexpr std::string_view kProgramFailsAtStart = "ProgramFailsAtStart";

struct StartProblem {
  std::string_view reason;
  std::string message;  // names the pod, and quotes what was said
};

// Why the pod's containers are not started; nullopt: nothing keeps them, or nobody says. Known while it
// waits, not only when the time is up.
std::optional<StartProblem> problem_of_waiting(const client::Pod& pod);
// Why the pod's program ended before it was ever ready. Which it is, is read from the last words of its
// container: the termination message, or the end of its log.
StartProblem problem_of_end(const client::Pod& pod);
bool is_start_problem(std::string_view reason);

}  // namespace muster::reconcilers
