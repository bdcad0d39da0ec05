// Child processes: started, waited for with a deadline, ended by their own pid.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <expected>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace muster::testcluster {

// The error is a sentence for the one who reads the test's output.
template <class T>
using Result = std::expected<T, std::string>;

using Milliseconds = std::chrono::milliseconds;

// Calls `done` until it returns true; false if `timeout` passes first. Calls it at least once.
template <class Predicate>
bool wait_until(Milliseconds timeout, Predicate&& done, Milliseconds step = Milliseconds(20)) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!done()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(step);
  }
  return true;
}

// A process by pid and start time, so that a pid used again for another process is not mistaken for it.
struct ProcessId {
  pid_t pid = 0;
  std::uint64_t start_time = 0;  // field 22 of /proc/<pid>/stat, in clock ticks since boot

  bool operator==(const ProcessId&) const = default;
};

// nullopt if there is no such process or it is a zombie.
std::optional<ProcessId> find_process(pid_t pid);
bool is_alive(const ProcessId& id);
// Sends SIGSTOP and waits until no thread of it runs: the signal stops a thread when it is scheduled next, and what a
// server with many threads answers until then surprises a test. False if it is not stopped within `timeout`.
bool stop_process(const ProcessId& id, Milliseconds timeout = std::chrono::seconds(10));
// Sends SIGTERM, and SIGKILL if it is still there after `grace`; waits until it is gone, reaping it if it is
// our child. True if it is gone (also if it was before). Nothing is sent to a pid that has passed to another.
bool end_process(const ProcessId& id, Milliseconds grace);

struct ProcessSpec {
  std::vector<std::string> arguments;  // arguments[0] is the program: a path, or looked up on PATH
  std::vector<std::pair<std::string, std::string>> environment;  // added to ours
  std::filesystem::path log;  // standard output and error are appended; empty: they stay ours
  // True: ends with us (PR_SET_PDEATHSIG, SIGKILL). The kernel's idea of "us" is the *thread* that calls
  // spawn(), so call it from one that lives as long as the process is needed: usually main.
  // False: it outlives us, in a session of its own.
  bool ends_with_parent = true;
};
Result<ProcessId> spawn(const ProcessSpec& spec);

struct CommandResult {
  int exit_code = -1;  // 128 + n if it was ended by signal n
  std::string out;
  std::string err;

  bool ok() const { return exit_code == 0; }
};
// Runs a command to its end, with `input` on its standard input. Past `timeout` it is killed, exit_code is
// 124 and err says so.
Result<CommandResult> run_command(const ProcessSpec& spec, const std::string& input = {},
                                  Milliseconds timeout = std::chrono::seconds(60));

// The last `lines` lines of a file; empty if it cannot be read.
std::string tail(const std::filesystem::path& file, int lines);

}  // namespace muster::testcluster
