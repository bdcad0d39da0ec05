#include "process.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>

namespace muster::bench {
namespace {

std::string slurp(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

double ticks_per_second() {
  return static_cast<double>(sysconf(_SC_CLK_TCK));
}

// "VmHWM:   1234 kB" of /proc/<pid>/status, in bytes.
std::int64_t status_bytes(pid_t pid, const std::string& field) {
  std::istringstream lines(slurp("/proc/" + std::to_string(pid) + "/status"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(field + ":")) return std::atoll(line.c_str() + field.size() + 1) * 1024;
  }
  return 0;
}

}  // namespace

double cpu_seconds(pid_t pid) {
  const std::string text = slurp("/proc/" + std::to_string(pid) + "/stat");
  // The second field is the program's name in parentheses and may hold anything.
  const auto end = text.rfind(')');
  if (end == std::string::npos) return 0;
  std::istringstream fields(text.substr(end + 1));
  std::string skipped;
  for (int field = 3; field < 14; ++field) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / ticks_per_second();
}

double thread_cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

std::int64_t peak_memory(pid_t pid) {
  return status_bytes(pid, "VmHWM");
}
std::int64_t resident_memory(pid_t pid) {
  return status_bytes(pid, "VmRSS");
}

double machine_busy_seconds() {
  std::istringstream line(slurp("/proc/stat"));
  std::string cpu;
  double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
  line >> cpu >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal;
  return (user + nice + system + irq + softirq + steal) / ticks_per_second();
}

int machine_cores() {
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

double load_average() {
  return std::atof(slurp("/proc/loadavg").c_str());
}

CpuSnapshot take_cpu(const std::map<std::string, pid_t>& processes) {
  CpuSnapshot now;
  for (const auto& [name, pid] : processes) now.by_name[name] = cpu_seconds(pid);
  now.machine = machine_busy_seconds();
  return now;
}

CpuUse operator-(const CpuSnapshot& later, const CpuSnapshot& earlier) {
  CpuUse use;
  use.others = later.machine - earlier.machine;
  for (const auto& [name, seconds] : later.by_name) {
    const auto before = earlier.by_name.find(name);
    if (before == earlier.by_name.end()) continue;
    use.by_name[name] = seconds - before->second;
    use.others -= seconds - before->second;
  }
  use.others = std::max(0.0, use.others);
  return use;
}

}  // namespace muster::bench
