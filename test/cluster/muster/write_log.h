// Who writes what to the API server, by its own audit log.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

namespace muster::test {

inline constexpr const char* kMusterUser = "system:serviceaccount:muster-system:muster";

// Follows the audit log of a cluster with Options::audit from the moment it is made. Refused writes count
// like those that went through. The API server logs a request before it answers: once an answer is here, so
// is its line.
class WriteLog {
 public:
  // Of one user; "": of everybody, each kind with its user in front.
  explicit WriteLog(const std::filesystem::path& audit_log, std::string user = kMusterUser);

  // "patch trainingjobs/status", "create pods refused with 409", and how often, so far; renewals of leases
  // are left out.
  const std::map<std::string, int>& kinds();
  int all();                        // of kinds()
  int but_for_events();             // those that the next process depends on
  int of(const std::string& kind);  // of kinds(), 0: none

 private:
  void read();

  std::ifstream in_;
  std::string user_;
  std::map<std::string, int> kinds_;
  int all_ = 0, events_ = 0;
};

// One line for each kind, most frequent first, of what came between the two.
std::string tell(const std::map<std::string, int>& later, const std::map<std::string, int>& earlier = {});

}  // namespace muster::test
