// What is read from the last words of a server that does not come up.
#include "muster/reconcilers/lifecycle/start_problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::reconcilers {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

client::Pod ended(std::string message, std::int32_t code = 1, std::string reason = "Error") {
  client::Pod pod;
  pod.meta.name = "web-0-1";
  pod.node_name = "node-3";
  pod.phase = client::PodPhase::kFailed;
  pod.ended = {{"main", code, std::move(reason), std::move(message), 0}};
  return pod;
}
client::Pod waits(std::string reason, std::string message) {
  client::Pod pod;
  pod.meta.name = "web-0-1";
  pod.node_name = "node-3";
  pod.waiting_reason = std::move(reason);
  pod.waiting_message = std::move(message);
  return pod;
}

TEST(StartProblem, OfAPodThatWaitsIsThatOfItsImageOrItsContainer) {
  for (const char* reason : {"ErrImagePull", "ImagePullBackOff", "InvalidImageName"}) {
    const auto problem = problem_of_waiting(waits(reason, "serve:2: not found"));
    ASSERT_TRUE(problem) << reason;
    EXPECT_EQ(problem->reason, "ImageNotPulled");
    EXPECT_EQ(problem->message,
              std::string("pod web-0-1 on node node-3: ") + reason + ": serve:2: not found");
  }
  const auto secret = problem_of_waiting(waits("CreateContainerConfigError", "secret \"hf\" not found"));
  ASSERT_TRUE(secret);
  EXPECT_EQ(secret->reason, "ContainerNotCreated");
  EXPECT_THAT(secret->message, HasSubstr("secret \"hf\" not found"));
  EXPECT_FALSE(problem_of_waiting(waits("", "")));
  EXPECT_FALSE(problem_of_waiting(waits("CrashLoopBackOff", "")));
}

TEST(StartProblem, OfAPodThatEndedIsReadFromTheLineThatSaysIt) {
  struct Case {
    const char *message, *reason, *line;
  };
  const std::vector<Case> cases = {
      {"Loading weights\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\nbye\n",
       "OutOfGPUMemory", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."},
      {"ValueError: Free memory on device (3.1/79.1 GiB) on startup is less than desired", "OutOfGPUMemory",
       "on startup is less than desired"},
      {"ValueError: No available memory for the cache blocks. Try increasing it", "OutOfGPUMemory",
       "Try increasing it"},
      {"  raise x\nhuggingface_hub.errors.GatedRepoError: 401 Client Error.\n", "ModelNotAvailable",
       "huggingface_hub.errors.GatedRepoError: 401 Client Error."},
      {"requests.exceptions.HTTPError: 404 Client Error: Not Found for url: https://hub/m",
       "ModelNotAvailable", "Not Found for url: https://hub/m"},
      {"curl: (22) The requested URL returned error: 403", "ModelNotAvailable", "returned error: 403"},
      {"An error occurred (NoSuchKey) when calling the GetObject operation", "ModelNotAvailable",
       "GetObject operation"},
      {"Traceback\nKeyError: 'rope'\n\n", "ProgramFailsAtStart", "KeyError: 'rope'"},
      {"took 404 ms, 401 blocks", "ProgramFailsAtStart", "took 404 ms, 401 blocks"},
      {"", "ProgramFailsAtStart", "container main ended with exit code 1"},
  };
  for (const auto& c : cases) {
    const auto problem = problem_of_end(ended(c.message));
    EXPECT_EQ(problem.reason, c.reason) << c.message;
    EXPECT_THAT(problem.message, EndsWith(c.line)) << c.message;
    EXPECT_THAT(problem.message, HasSubstr("pod web-0-1 on node node-3"));
    EXPECT_TRUE(is_start_problem(problem.reason));
  }
  EXPECT_EQ(problem_of_end(ended("", 137, "OOMKilled")).reason, "OutOfMemory");
  EXPECT_EQ(problem_of_end(ended("", 0, "Completed")).reason, "ProgramFailsAtStart");
  EXPECT_EQ(problem_of_end(client::Pod{}).reason, "ProgramFailsAtStart");
  EXPECT_FALSE(is_start_problem("Starting"));
}

TEST(StartProblem, WhatOthersWroteIsCutAndOneLine) {
  const auto problem = problem_of_end(ended("first\n" + std::string(5000, 'x')));
  EXPECT_LT(problem.message.size(), 400U);
  EXPECT_EQ(problem.message.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace muster::reconcilers
