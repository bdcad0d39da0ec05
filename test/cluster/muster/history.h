// Everything that pods and Muster's objects have ever been in a cluster, as its API server tells it, and an
// auditor that goes through it state by state.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "fixture.h"

namespace muster::test {

// One write to one object.
struct Change {
  std::uint64_t version = 0;  // resourceVersion: the same order for objects of all kinds
  bool is_gone = false;       // deleted: `object` is as it was last
  nlohmann::json object;      // whole, with `kind`
};

// Watches from when it is made until it ends. Watches of the API server show every write, in order, and one
// that ends is taken up where it was, so nothing in between is missed, however short it was.
class History {
 public:
  // `plurals`: of the kinds of muster.dev to watch beside pods.
  History(Cluster& cluster, const std::vector<std::string>& plurals);
  ~History();
  History(const History&) = delete;
  History& operator=(const History&) = delete;

  // All changes so far, in the order of their versions. Waits first until the watches have shown everything
  // that is there now. Throws if they have not after a minute, or where one could not be taken up again.
  void replay(const std::function<void(const Change&)>& visit);

 private:
  class Stream;

  Cluster& cluster_;
  std::vector<std::unique_ptr<Stream>> streams_;
};

// The uids of all pods with this label that there ever were.
std::set<std::string> pods_ever(History& history, const std::string& label, const std::string& value);

// What must hold after every single write, recounted from the objects alone:
// * A GPU is claimed by one job at most, or by jobs whose fractions add up to one GPU: by their assignments,
//   and by their pods until they have ended or are gone. (Memory shares keep those away who want all of it.)
// * A pod is made only where its job's assignment says, with its attempt and its GPUs, and while no pod of
//   another attempt still runs. (If somebody has just deleted the job, its last assignment counts: the request
//   to make the pod may be on its way by then.)
// * An assignment is of all pods of the gang.
// * A job that was withdrawn for others is preemptible, and another job is promised, or gets, a GPU of those
//   that it held, before it gets one of them itself.
// To be shown everything from before the first job on.
class Auditor {
 public:
  // What is judged beside pods. Where users and nodes come and go at random, whoever a job made way for may
  // be gone, and a place on a lost node may be another's before its job has got a new one.
  struct Rules {
    bool evictions = true;    // who was withdrawn for others, was so rightly
    bool assignments = true;  // a GPU is claimed by assignments too
  };
  Auditor() = default;
  explicit Auditor(Rules rules) : rules_(rules) {}

  void see(const Change& change);
  // When all has been seen: a sentence each, the first twenty; empty: all is well.
  std::vector<std::string> problems() const;

  // How often jobs were withdrawn for others, by name; who never was is not in it.
  const std::map<std::string, int>& evictions() const { return evictions_; }
  int pods_made() const { return pods_made_; }

 private:
  using Gpu = std::pair<std::string, std::string>;  // node, index
  using Gpus = std::set<Gpu>;
  struct Pod {
    std::string name, attempt;
    bool lives = true;  // has not ended
    bool leaves = false;
    Gpus gpus;
  };
  struct Job {
    std::string name;
    int preemptions = 0;
    int milli = 1000;                    // of each of its GPUs
    std::map<std::string, Gpus> places;  // "role/index/attempt/node": GPUs; of a job that is gone the last ones
    bool is_gone = false;
    Gpus promised;
    std::map<Gpu, int> claimed;       // milli
    std::map<std::string, Pod> pods;  // by uid
  };
  struct Eviction {
    std::string job;  // uid
    Gpus held;
  };

  void see_pod(const nlohmann::json& object, bool is_gone);
  void see_job(const nlohmann::json& object, bool is_gone);
  void check_new_pod(const Job& job, const Pod& pod, const std::string& place);
  void check_whole(const Job& job, const nlohmann::json& object);
  void claim(const std::string& uid, Job& job);
  void justify(const std::string& claimant, const Gpus& gpus);
  void evict(const std::string& uid, const Job& job, const nlohmann::json& object);
  void wrong(const std::string& sentence);

  std::map<std::string, Job> jobs_;                    // by uid; also those that are gone
  std::map<Gpu, std::map<std::string, int>> holders_;  // milli, by uid
  std::vector<Eviction> open_;                         // that nobody has profited from yet
  Rules rules_;
  std::map<std::string, int> evictions_;
  std::vector<std::string> problems_;
  std::uint64_t now_ = 0;
  int pods_made_ = 0;
};

}  // namespace muster::test
