#include "muster/common/process.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/process/args.hpp>
#include <boost/process/child.hpp>
#include <boost/process/env.hpp>
#include <boost/process/environment.hpp>
#include <boost/process/error.hpp>
#include <boost/process/exe.hpp>
#include <boost/process/extend.hpp>
#include <boost/process/search_path.hpp>
#include <mutex>

namespace muster::common {
namespace {

namespace bp = boost::process;

// In the child: only what is safe in a signal handler.
void prepare(const ProcessStart& start) {
  if (start.before_exec) start.before_exec();
  if (start.in >= 0) ::dup2(start.in, STDIN_FILENO);
  if (start.out >= 0) ::dup2(start.out, STDOUT_FILENO);
  if (start.err >= 0) ::dup2(start.err, STDERR_FILENO);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
}

std::string find_program(const std::string& name) {
  return name.find('/') == std::string::npos ? bp::search_path(name).string() : name;
}

}  // namespace

std::expected<pid_t, std::error_code> start_process(const ProcessStart& start) {
  const auto missing = std::make_error_code(std::errc::no_such_file_or_directory);
  if (start.arguments.empty()) return std::unexpected(std::make_error_code(std::errc::invalid_argument));
  const std::string program = find_program(start.arguments[0]);
  if (program.empty()) return std::unexpected(missing);
  bp::environment environment = boost::this_process::environment();
  for (const auto& [name, value] : start.environment) environment[name] = value;
  const std::vector<std::string> arguments(start.arguments.begin() + 1, start.arguments.end());

  // Boost.Process learns through a pipe whether the program could be run. A process that another thread
  // starts meanwhile would keep that pipe open, and we would wait for its end.
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  std::error_code error;
  bp::child child(
      bp::exe = program, bp::args = arguments, environment, error,
      bp::extend::on_exec_setup = [&start](auto&) { prepare(start); },
      // Boost.Process does not wait until the process that could not run the program is gone.
      bp::extend::on_error =
          [](auto& executor, const std::error_code&) {
            if (executor.pid > 0) ::waitpid(executor.pid, nullptr, 0);
          });
  if (error) return std::unexpected(error);
  const pid_t pid = child.id();
  child.detach();
  return pid;
}

}  // namespace muster::common
