#include "muster/testcluster/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "muster/common/process.h"

namespace muster::testcluster {
namespace {

using Clock = std::chrono::steady_clock;

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() { close(); }

  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

struct Pipe {
  FileDescriptor read;
  FileDescriptor write;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends;
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return std::unexpected(std::string("pipe: ") + std::strerror(errno));
  return Pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

// What the child's first three descriptors become; -1 leaves ours.
struct Streams {
  int in = -1;
  int out = -1;
  int err = -1;
};

// In the child, before the program takes its place.
void tie_to(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // It died before the line above.
  ::setpgid(0, 0);                          // A ^C on the terminal is ours to handle, not the child's.
}

Result<pid_t> start(const ProcessSpec& spec, const Streams& streams) {
  if (spec.arguments.empty()) return std::unexpected("no program given");
  common::ProcessStart program{spec.arguments, spec.environment, streams.in, streams.out, streams.err};
  program.before_exec = [tied = spec.ends_with_parent, parent = ::getpid()] {
    if (tied) {
      tie_to(parent);
    } else {
      ::setsid();
    }
  };
  const auto pid = common::start_process(program);
  if (!pid) return std::unexpected("cannot run " + spec.arguments[0] + ": " + pid.error().message());
  return *pid;
}

int exit_code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Moves bytes both ways until the child closed its ends or the deadline passed; false at the deadline.
bool exchange(Pipe& in, Pipe& out, Pipe& err, const std::string& input, CommandResult& result,
              Clock::time_point deadline) {
  std::size_t sent = 0;
  if (input.empty()) in.write.close();
  while (out.read.open() || err.read.open()) {
    const auto left = std::chrono::duration_cast<Milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    std::array<pollfd, 3> polled = {pollfd{out.read.get(), POLLIN, 0}, pollfd{err.read.get(), POLLIN, 0},
                                    pollfd{in.write.get(), POLLOUT, 0}};
    if (::poll(polled.data(), polled.size(), static_cast<int>(left)) < 0 && errno != EINTR) return false;
    const auto drain = [](pollfd& entry, FileDescriptor& fd, std::string& into) {
      if (!fd.open() || !(entry.revents & (POLLIN | POLLHUP | POLLERR))) return;
      std::array<char, 65536> buffer;
      const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
      if (got > 0) into.append(buffer.data(), static_cast<std::size_t>(got));
      if (got == 0) fd.close();
    };
    drain(polled[0], out.read, result.out);
    drain(polled[1], err.read, result.err);
    if (in.write.open() && (polled[2].revents & (POLLOUT | POLLERR | POLLHUP))) {
      const std::size_t piece = std::min<std::size_t>(input.size() - sent, 4096);
      const ssize_t wrote = ::write(in.write.get(), input.data() + sent, piece);
      if (wrote > 0) sent += static_cast<std::size_t>(wrote);
      if (sent == input.size() || (wrote < 0 && errno != EAGAIN && errno != EINTR)) in.write.close();
    }
  }
  return true;
}

// The fields of a stat file from the third on, the state. The second is the name, which may hold anything, also
// spaces and brackets.
std::optional<std::istringstream> fields_from_state(const std::filesystem::path& stat) {
  std::ifstream file(stat);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  const auto end_of_name = line.rfind(')');
  if (end_of_name == std::string::npos) return std::nullopt;
  return std::istringstream(line.substr(end_of_name + 1));
}

}  // namespace

std::optional<ProcessId> find_process(pid_t pid) {
  if (pid <= 0) return std::nullopt;
  auto fields = fields_from_state("/proc/" + std::to_string(pid) + "/stat");
  if (!fields) return std::nullopt;
  std::string state, skipped;
  *fields >> state;
  if (state == "Z" || state == "X") return std::nullopt;
  for (int i = 4; i < 22; ++i) *fields >> skipped;
  ProcessId id{pid, 0};
  if (!(*fields >> id.start_time)) return std::nullopt;
  return id;
}

bool stop_process(const ProcessId& id, Milliseconds timeout) {
  if (!is_alive(id) || ::kill(id.pid, SIGSTOP) != 0) return false;
  const auto stopped = [&] {
    std::error_code error;
    for (const auto& thread :
         std::filesystem::directory_iterator("/proc/" + std::to_string(id.pid) + "/task", error)) {
      auto fields = fields_from_state(thread.path() / "stat");
      std::string state;
      if (fields && *fields >> state && state != "T") return false;
    }
    return !error;
  };
  return wait_until(timeout, stopped, Milliseconds(5));
}

bool is_alive(const ProcessId& id) {
  return find_process(id.pid) == id;
}

bool end_process(const ProcessId& id, Milliseconds grace) {
  if (id.pid <= 0) return true;
  const auto gone = [&] {
    ::waitpid(id.pid, nullptr, WNOHANG);  // Reaps it if it is our child; harmless otherwise.
    return !is_alive(id);
  };
  if (gone()) return true;
  ::kill(id.pid, SIGTERM);
  ::kill(id.pid, SIGCONT);  // A stopped process would not see it.
  if (wait_until(grace, gone, Milliseconds(10))) return true;
  ::kill(id.pid, SIGKILL);
  return wait_until(std::chrono::seconds(10), gone, Milliseconds(10));
}

Result<ProcessId> spawn(const ProcessSpec& spec) {
  Streams streams;
  const FileDescriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  streams.in = nothing.get();
  FileDescriptor log;
  if (!spec.log.empty()) {
    log = FileDescriptor(::open(spec.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (!log.open())
      return std::unexpected("cannot write " + spec.log.string() + ": " + std::strerror(errno));
    streams.out = streams.err = log.get();
  }
  const auto pid = start(spec, streams);
  if (!pid) return std::unexpected(pid.error());
  if (const auto id = find_process(*pid)) return *id;
  ::waitpid(*pid, nullptr, WNOHANG);
  return std::unexpected(spec.arguments[0] + " ended at once" +
                         (spec.log.empty() ? "" : "; the end of its log:\n" + tail(spec.log, 20)));
}

Result<CommandResult> run_command(const ProcessSpec& spec, const std::string& input, Milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  auto in = make_pipe(), out = make_pipe(), err = make_pipe();
  if (!in || !out || !err) return std::unexpected("cannot make a pipe");
  ::signal(SIGPIPE, SIG_IGN);  // A command need not read all of its input.
  const auto pid = start(spec, {in->read.get(), out->write.get(), err->write.get()});
  if (!pid) return std::unexpected(pid.error());
  in->read.close();
  out->write.close();
  err->write.close();
  CommandResult result;
  int status = 0;
  bool ended = exchange(*in, *out, *err, input, result, deadline);
  if (ended) {
    const auto left = std::chrono::duration_cast<Milliseconds>(deadline - Clock::now());
    ended = wait_until(left, [&] { return ::waitpid(*pid, &status, WNOHANG) != 0; }, Milliseconds(1));
  }
  if (ended) {
    result.exit_code = exit_code_of(status);
  } else {
    ::kill(*pid, SIGKILL);
    ::waitpid(*pid, &status, 0);
    result.exit_code = 124;
    result.err += "killed after " + std::to_string(timeout.count()) + " ms";
  }
  return result;
}

std::string tail(const std::filesystem::path& file, int lines) {
  std::ifstream stream(file, std::ios::binary | std::ios::ate);
  if (!stream) return {};
  const auto size = static_cast<std::size_t>(stream.tellg());
  const std::size_t wanted = std::min<std::size_t>(size, std::size_t{512} * static_cast<std::size_t>(lines));
  std::string text(wanted, '\0');
  stream.seekg(static_cast<std::streamoff>(size - wanted));
  stream.read(text.data(), static_cast<std::streamsize>(wanted));
  auto start = text.size();
  for (int found = 0; start > 0 && found <= lines; --start)
    if (text[start - 1] == '\n' && ++found > lines) break;
  return text.substr(start);
}

}  // namespace muster::testcluster
