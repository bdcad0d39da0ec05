// Who writes to an API server, as its own metrics tell it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace muster::bench {

// What was written: "muster.dev trainingjobs/status APPLY". The core group has no name in front.
struct WriteKind {
  std::string group, resource, subresource, verb;

  auto operator<=>(const WriteKind&) const = default;
  std::string text() const;
};

// Successful and failed requests alike: each cost the server a write's work.
using WriteCounts = std::map<WriteKind, std::int64_t>;

// Requests with verbs POST, PUT, PATCH, APPLY, DELETE, DELETECOLLECTION in apiserver_request_total; `metrics`
// is the text of /metrics. Reviews (tokenreviews, subjectaccessreviews) store nothing and are left out, as
// are dry runs.
WriteCounts parse_writes(std::string_view metrics);
// What came in between; kinds without any are left out.
WriteCounts difference(const WriteCounts& later, const WriteCounts& earlier);

// The metrics do not say who asked, but the kinds do: the simulated nodes write the status of pods and nodes,
// and with the control plane's components they renew leases (Muster runs without leader election here).
// Nothing of Muster writes any of these. All else counts, whoever wrote it: also the controller manager's
// EndpointSlices for a gang's Service would not be there without the gang.
enum class Writer : std::uint8_t { kSimulatedNodes, kLeases, kControlPlaneEvents, kCounted };
Writer writer_of(const WriteKind& kind);
std::int64_t total(const WriteCounts& counts, Writer writer);

}  // namespace muster::bench
