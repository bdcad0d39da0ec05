// What the benchmark itself sees of the cluster, by the same watches in every phase.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "muster/client/informer.h"
#include "muster/client/pod.h"

namespace muster::bench {

using SteadyTime = std::chrono::steady_clock::time_point;

inline double seconds_between(SteadyTime from, SteadyTime to) {
  return std::chrono::duration<double>(to - from).count();
}

// The pods of one namespace.
class PodBoard {
 public:
  // When pods with one value of the label muster.dev/job (empty for those without) were seen.
  struct Group {
    SteadyTime first_created, last_running;
    int created = 0, running = 0, succeeded = 0;  // ever
  };

  PodBoard(client::ApiClient& api, const std::string& ns);

  client::Task<void> run() { return informer_.run(); }
  bool synced() const { return informer_.store().synced(); }
  std::size_t present() const { return informer_.store().size(); }
  // Pods seen to come to run, those gone since included.
  int running() const { return running_; }
  SteadyTime last_running() const { return last_running_; }
  int succeeded() const { return succeeded_; }  // likewise
  SteadyTime last_succeeded() const { return last_succeeded_; }
  std::function<void(const client::Pod&)> on_success;  // empty: nobody wants to know
  const std::map<std::string, Group>& groups() const { return groups_; }
  std::uint64_t decode_errors() const { return informer_.decode_errors(); }

 private:
  void on_event(const client::StoreEvent<client::Pod>& event);
  void count(const client::Pod* before, const client::Pod& now);

  client::Informer<client::Pod> informer_;
  std::map<std::string, Group> groups_;
  int running_ = 0, succeeded_ = 0;
  SteadyTime last_running_, last_succeeded_;
};

// What is looked at in a TrainingJob.
struct JobSeen {
  client::Meta meta;
  bool admitted = false;  // condition Admitted is True
  std::string phase;
};

// The TrainingJobs of one namespace.
class JobBoard {
 public:
  JobBoard(client::ApiClient& api, const std::string& ns);

  client::Task<void> run() { return informer_.run(); }
  bool synced() const { return informer_.store().synced(); }
  std::size_t present() const { return informer_.store().size(); }
  std::size_t in_phase(std::string_view phase) const;
  std::string phase_of(const client::Key& key) const;  // "": it is not there, or says nothing
  // nullopt: not seen admitted yet.
  std::optional<SteadyTime> admitted(const std::string& name) const;

 private:
  void on_event(const client::StoreEvent<JobSeen>& event);

  client::Informer<JobSeen> informer_;
  std::map<std::string, SteadyTime> admitted_;
};

}  // namespace muster::bench
