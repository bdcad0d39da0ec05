// Writes what a job's committed assignment asks for: its pods, and the two objects that they need. Every name
// follows from the assignment, so a write whose outcome is unknown is made again and found done.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "muster/client/semaphore.h"
#include "muster/reconcilers/jobs/effective_job.h"
#include "muster/reconcilers/lifecycle/lifecycle.h"

namespace muster::reconcilers {

class JobPods {
 public:
  // Hears what the API server says against a pod, or against an object that pods need. True: the whole gang
  // is taken back for it.
  using Refused = std::function<bool(const JobPtr&, const client::Error&)>;
  JobPods(ReconcilerContext& context, Refused refused);

  // Deletes them, each by its uid. False: not all were told, again later.
  client::Task<bool> remove(std::string ns, const std::vector<PodRemoval>& pods);
  // Makes these pods of the assignment as committed, with indexes into assignment.pods, once it is their
  // turn among all that are being made. False: not all are there, again later.
  client::Task<bool> create(client::Key key, const std::vector<std::size_t>& which);

  enum class Companion : std::uint8_t { kHosts, kService };
  // Writes the companion if it is due. kHosts is the hosts file: due once for each generation of the spec,
  // since roles may change, and in an elastic gang whenever its members change. kService is the headless
  // Service: due once for each attempt. False: it is not there.
  client::Task<bool> ensure(JobPtr job, Companion which);
  void forget(const client::Key& key);

  // Pods of this job, or of one that had its name before, whose request was sent and of which no outcome is
  // known: as they were asked for. Each may come to be, and then holds what it asks for. Without those that
  // the cache has.
  std::vector<client::Ptr<client::Pod>> on_their_way(const client::Key& job) const;
  // Reads those whose request has an unknown outcome. Not to be called while create() is under way for the
  // job. False: not all were read, again later.
  client::Task<bool> find_out(client::Key job);

 private:
  client::Task<bool> create_now(client::Key key, const std::vector<std::size_t>& which);
  enum class Made : std::uint8_t { kYes, kNotNow, kRefused };
  client::Task<Made> create_one(JobPtr job, std::string body, std::string name);
  enum class Told : std::uint8_t { kOurs, kOthers, kUnreadable };
  Told take_in(const std::string& answer, const std::string& owner_uid);
  void expect(const client::Key& job, const std::string& body);
  void settle(const client::Key& job, const std::string& pod);
  bool still_wanted(const JobPtr& job, std::size_t pod) const;
  client::Task<client::Result<void>> write(JobPtr job, Companion which);

  ReconcilerContext& context_;
  Refused refused_;
  // In pods. A gang acquires as many permits as it is about to make pods. So gangs are made in the order in
  // which they came, and as many at once as fill the requests in flight. A gang whose pods come together
  // starts sooner than one of a hundred gangs that take turns. What follows pods (endpoints, status counters)
  // is written once then, and not at every turn.
  client::Semaphore creating_;
  // Job -> name of the pod -> what was asked for. From just before the request is sent until its outcome is
  // known.
  std::map<client::Key, std::map<std::string, client::Ptr<client::Pod>>> on_their_way_;
  // "ns/job/services" -> uid/generation that it is made for.
  std::map<std::string, std::string> companions_made_;
};

}  // namespace muster::reconcilers
