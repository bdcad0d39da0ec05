// Pods and nodes as caches hold them. They have only what controllers of workloads use, decoded straight from
// the text. A cached pod costs well under 1 KiB.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/client/error.h"
#include "muster/client/object.h"

namespace muster::client {

// A word that many objects have in common, such as the key of a label. It takes eight bytes: the text is kept
// once for the whole process and never freed. It is as good as a const std::string. Any thread may use it.
class SharedWord {
 public:
  // NOLINTBEGIN(google-explicit-constructor): stands where text stood
  SharedWord(std::string_view text) : text_(intern(text)) {}
  SharedWord(const std::string& text) : text_(intern(text)) {}
  SharedWord(const char* text) : text_(intern(text)) {}
  operator const std::string&() const { return *text_; }
  // NOLINTEND(google-explicit-constructor)
  const std::string& str() const { return *text_; }
  friend bool operator==(SharedWord a, SharedWord b) { return a.text_ == b.text_; }
  friend auto operator<=>(SharedWord a, SharedWord b) { return *a.text_ <=> *b.text_; }

 private:
  static const std::string* intern(std::string_view text);
  const std::string* text_;
};

using KeyValues = std::vector<std::pair<SharedWord, std::string>>;             // sorted by key
const std::string* find_value(const KeyValues& values, std::string_view key);  // nullptr: not there

// Amounts of extended resources ("nvidia.com/gpu"), huge pages and local disk (bytes), sorted by name.
using Extended = std::vector<std::pair<std::string, std::int64_t>>;
std::int64_t amount_of(const Extended& amounts, std::string_view resource);  // 0: not there

enum class PodPhase : std::uint8_t { kPending, kRunning, kSucceeded, kFailed, kUnknown };

struct ContainerEnd {
  std::string name;
  std::int32_t exit_code = 0;
  std::string reason;
  std::string message;           // the termination log
  std::int64_t finished_at = 0;  // Unix seconds; 0: unknown
};

struct Pod {
  Meta meta;
  KeyValues labels;       // only those asked for in PodFields
  KeyValues annotations;  // likewise
  // All others, where PodFields asks for them; sorted. Whoever makes a pod makes up the keys, so that they
  // are not kept as SharedWords, which stay.
  std::vector<std::pair<std::string, std::string>> other_labels;
  std::string node_name;
  std::string ip;         // status.podIP; "": none yet
  std::string owner_uid;  // of the controlling owner reference
  std::string reason;     // status.reason, e.g. "Evicted", "OutOfcpu", "UnexpectedAdmissionError"
  std::string message;    // status.message
  PodPhase phase = PodPhase::kPending;
  bool ready = false;              // condition Ready
  bool deleting = false;           // deletionTimestamp is set
  bool scheduled_false = false;    // condition PodScheduled is False
  bool disrupted = false;          // condition DisruptionTarget is True: the cluster ends it, not its program
  std::int64_t deleted_at = 0;     // deletionTimestamp, Unix seconds
  std::int64_t grace_seconds = 0;  // deletionGracePeriodSeconds: deleted_at is so long after the request
  std::int64_t created_at = 0;
  std::int64_t ready_at = 0;            // when Ready became true
  std::int32_t container_restarts = 0;  // of all containers, init containers not counted
  // Effective requests (containers, init containers and overhead as the scheduler counts them).
  std::int64_t milli_cpu = 0;
  std::int64_t memory_bytes = 0;
  // Other resources, GPUs and huge pages among them, of which it asks for more than 0; sorted. Few pods
  // ask for any.
  Extended extended;
  // Containers whose state is terminated; after them init containers that failed.
  std::vector<ContainerEnd> ended;
  // The termination log of the first init container that ended well and left one. Only pods that have the
  // label PodFields::init_message_label have it.
  std::string init_message;
  // Of the first container that waits for other reasons than starting: "ImagePullBackOff", …
  std::string waiting_reason;
  std::string waiting_message;
};

// What to keep beyond the fixed fields.
struct PodFields {
  std::vector<std::string> labels;
  std::vector<std::string> annotations;
  std::string init_message_label = "";  // one of `labels`; "": no pod's
  bool other_labels = false;
};

struct Taint {
  std::string key, value, effect;
  bool operator==(const Taint&) const = default;
};

struct Node {
  Meta meta;
  KeyValues labels;       // all: selectors may ask for any
  KeyValues annotations;  // only those with the prefix asked for; an empty one asks for all
  std::vector<Taint> taints;
  bool unschedulable = false;
  bool ready = false;
  std::int64_t ready_changed_at = 0;  // Unix seconds
  std::int64_t milli_cpu = 0;         // allocatable
  std::int64_t memory_bytes = 0;
  std::int64_t pods = 0;
  Extended extended;  // other allocatable resources
  bool deleting = false;
  std::string address;  // of type InternalIP, the first; "": none
};

// Turns one object's text into what is kept of it. If a field that is read is not of its type, the error is
// kDecode and names object and field. Fields that are not read are not checked. It takes some microseconds
// and copies the text once.
Result<Pod> decode_pod(std::string_view json, const PodFields& fields);
Result<Node> decode_node(std::string_view json, std::string_view annotation_prefix);

// Bytes that the object holds, its own size included, as malloc hands them out; for the memory tests.
std::size_t memory_of(const Pod& pod);

}  // namespace muster::client
