// Starting programs.
#include "muster/common/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <thread>

namespace muster::common {
namespace {

struct Ended {
  std::string printed;
  int exit_status = -1;  // -1: it did not end by itself
};

// The program's standard output until its end.
Ended run(ProcessStart start) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  start.out = ends[1];
  const auto pid = start_process(start);
  ::close(ends[1]);
  Ended result;
  if (pid) {
    char buffer[512];
    for (ssize_t count; (count = ::read(ends[0], buffer, sizeof buffer)) > 0;)
      result.printed.append(buffer, static_cast<std::size_t>(count));
    int status = 0;
    EXPECT_EQ(::waitpid(*pid, &status, 0), *pid);
    if (WIFEXITED(status)) result.exit_status = WEXITSTATUS(status);
  } else {
    ADD_FAILURE() << pid.error().message();
  }
  ::close(ends[0]);
  return result;
}

TEST(Process, GetsItsArgumentsAsTheyAre) {
  const Ended shell = run({{"sh", "-c", "printf '<%s>' \"$@\"; exit 3", "name", "a b", "", "\"'$x", "é"}});
  EXPECT_EQ(shell.printed, "<a b><><\"'$x><é>");
  EXPECT_EQ(shell.exit_status, 3);
  EXPECT_EQ(run({{"/bin/echo"}}).printed, "\n") << "no arguments at all";
}

TEST(Process, HasOurEnvironmentWithWhatIsAdded) {
  ::setenv("MUSTER_TEST_KEPT", "ours", 1);
  ::setenv("MUSTER_TEST_REPLACED", "ours", 1);
  const Ended shell = run({{"sh", "-c", "echo $MUSTER_TEST_KEPT,$MUSTER_TEST_REPLACED,$MUSTER_TEST_ADDED"},
                           {{"MUSTER_TEST_REPLACED", "theirs"}, {"MUSTER_TEST_ADDED", "a=b:c"}}});
  EXPECT_EQ(shell.printed, "ours,theirs,a=b:c\n");
  EXPECT_STREQ(std::getenv("MUSTER_TEST_REPLACED"), "ours") << "ours stays as it is";
  EXPECT_EQ(std::getenv("MUSTER_TEST_ADDED"), nullptr);
}

TEST(Process, HasTheStreamsItIsGiven) {
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ProcessStart cat{{"cat"}};
  cat.in = nothing;
  const Ended ended = run(cat);
  EXPECT_EQ(ended.printed, "");
  EXPECT_EQ(ended.exit_status, 0);
  ::close(nothing);
}

TEST(Process, WhatCannotBeRunIsAnErrorAndLeavesNoProcess) {
  const std::string directory = std::filesystem::temp_directory_path();
  for (const std::string& program :
       {std::string("muster-no-such-program"), std::string("/nowhere/at/all"), directory}) {
    const auto pid = start_process({{program, "x"}});
    ASSERT_FALSE(pid) << program;
    EXPECT_EQ(pid.error(),
              program == directory ? std::errc::permission_denied : std::errc::no_such_file_or_directory)
        << program << ": " << pid.error().message();
  }
  EXPECT_FALSE(start_process({}));
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child is left over";
  EXPECT_EQ(errno, ECHILD);
}

TEST(Process, StartsWithNoSignalBlockedAndCallsTheHook) {
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &blocked, &before), 0);
  ProcessStart shell{{"sh", "-c", "grep SigBlk /proc/self/status"}};
  shell.before_exec = [] { ::setpgid(0, 0); };
  const Ended ended = run(shell);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_NE(ended.printed.find("SigBlk:\t0000000000000000"), std::string::npos) << ended.printed;
  ProcessStart hooked{{"true"}};
  hooked.before_exec = [] { ::_exit(42); };
  EXPECT_EQ(run(hooked).exit_status, 42);
}

// A process that inherits another one's pipe would keep its reader waiting.
TEST(Process, ThreadsStartProcessesSideBySide) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([i] {
      for (int n = 0; n < 5; ++n)
        EXPECT_EQ(run({{"echo", std::to_string(i)}}).printed, std::to_string(i) + "\n");
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace muster::common
