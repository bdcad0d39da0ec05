// Events (events.k8s.io/v1) for people. An event that repeats itself within 6 minutes (same object, type,
// reason, action and note) becomes a series instead of new objects; its count is written at most every 10 s.
// Recording never blocks and never fails. When the server cannot keep up, the oldest events that were not
// sent yet are dropped and counted.
#pragma once

#include <memory>
#include <string>

#include "muster/client/api.h"

namespace muster::client {

struct EventTarget {
  std::string api_version, kind, ns, name, uid;
};

enum class EventType : std::uint8_t { kNormal, kWarning };

class EventRecorder {
 public:
  // `controller`: reportingController, e.g. "muster.dev/controller"; `instance`: reportingInstance.
  EventRecorder(ApiClient& api, std::string controller, std::string instance);
  ~EventRecorder();

  // `action`: what was done ("Admit"); `reason`: CamelCase; `note`: a sentence, cut at 1 kB.
  void record(const EventTarget& regarding, EventType type, std::string reason, std::string action,
              std::string note);
  Task<void> run();               // sends until cancelled, then flushes for at most 2 s
  std::uint64_t dropped() const;  // more than 1000 unsent, or refused by the server

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::client
