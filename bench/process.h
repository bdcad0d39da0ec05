// What processes cost, read from /proc.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>

namespace muster::bench {

// User and system time of all threads, in seconds; 0 if there is no such process. Resolution: one
// tick, 10 ms.
double cpu_seconds(pid_t pid);
// Of the calling thread alone, in seconds. Of the processor, not of the clock: what else runs on the machine
// does not count.
double thread_cpu_seconds();
// VmHWM: the most physical memory that the process ever held, in bytes; 0 if there is no such process.
std::int64_t peak_memory(pid_t pid);
// VmRSS, in bytes.
std::int64_t resident_memory(pid_t pid);

// The whole machine: seconds in which its cores did something, summed over the cores.
double machine_busy_seconds();
int machine_cores();
double load_average();  // of the last minute

// Processor time of named processes and of the machine, as of one moment.
struct CpuSnapshot {
  std::map<std::string, double> by_name;
  double machine = 0;
};
CpuSnapshot take_cpu(const std::map<std::string, pid_t>& processes);
// What was used in between; a name that is in one of the two only is left out. `others`: what the machine did
// beyond the named processes, its kernel threads included.
struct CpuUse {
  std::map<std::string, double> by_name;
  double others = 0;
};
CpuUse operator-(const CpuSnapshot& later, const CpuSnapshot& earlier);

}  // namespace muster::bench
