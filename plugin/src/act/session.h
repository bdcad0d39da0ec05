// Sessions: interactive jobs with a port that people reach, for people who write no YAML. A session keeps its
// name, and with it its claims and its address, until it is deleted.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "act/submission.h"
#include "command.h"

namespace muster::plugin {

struct Session {
  Submission job;                   // its name empty: default_session_name()
  std::int32_t port = 0;            // that its program listens on; 0: none
  std::string path;                 // where it begins: "/lab"
  std::string activity_path;        // where it tells when it was last used: "/api/status"
  std::vector<std::string> claims;  // "CLAIM:PATH": a PersistentVolumeClaim, and where it is mounted
  bool shell = false;               // when it runs, a shell in it
  std::chrono::seconds timeout = std::chrono::minutes{30};  // for its start
};

// Of image and user, so that the same command means the same session: "jupyter-anna".
std::string default_session_name(const std::string& image, const std::string& user);
// What is wrong with what was asked for; "": nothing.
std::string wrong_in(const Session& session);
// The job that it is.
Data session_job(const Session& session, const std::string& ns);
// Why this job is not the session that was asked for; "": it is.
std::string why_another(const crds::TrainingJob& job, const Session& session);
// How people reach what it exposes; "": it exposes nothing.
std::string how_to_reach(const crds::TrainingJob& job);
Listing sessions(const std::vector<crds::TrainingJob>& jobs, crds::Time now);

// Makes the session, or picks it up where it is, and waits until it runs. The exit status (command.h).
int run_session_start(const Options& options, Session session);
int run_session_list(const Options& options);

}  // namespace muster::plugin
