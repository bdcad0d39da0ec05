// Pods, nodes and watches, as muster::client reads them.
#include <algorithm>
#include <string>
#include <vector>

#include "muster/client/pod.h"
#include "targets.h"
#include "watch/watch_event.h"

namespace muster::fuzz {
namespace {

bool is_sorted(const client::KeyValues& values) {
  return std::ranges::is_sorted(values);
}

const client::PodFields& pod_fields() {
  static const client::PodFields& kFields =
      *new client::PodFields{{"muster.dev/job", "muster.dev/role"}, {"muster.dev/gpus"}};
  return kFields;
}

void check_pod(const client::Pod& pod) {
  require(!pod.meta.name.empty(), "a pod has a name");
  require(is_sorted(pod.labels) && is_sorted(pod.annotations), "labels and annotations are sorted");
  require(std::ranges::is_sorted(pod.extended), "resources are sorted");
  require(pod.container_restarts >= 0, "restarts are counted from 0");
  require(pod.deleting || pod.deleted_at == 0, "a time of deletion means deleting");
  require(client::memory_of(pod) >= sizeof pod, "a pod holds at least itself");
}

}  // namespace

void pod(std::string_view input) {
  const auto decoded = client::decode_pod(input, pod_fields());
  if (decoded) {
    check_pod(*decoded);
  } else {
    require(decoded.error().code == client::ErrorCode::kDecode, "what is no pod is kDecode");
  }
}

void node(std::string_view input) {
  const auto decoded = client::decode_node(input, "muster.dev/");
  if (!decoded) {
    require(decoded.error().code == client::ErrorCode::kDecode, "what is no node is kDecode");
    return;
  }
  require(!decoded->meta.name.empty(), "a node has a name");
  require(is_sorted(decoded->labels) && is_sorted(decoded->annotations), "labels and annotations are sorted");
  require(std::ranges::is_sorted(decoded->extended), "resources are sorted");
  for (const auto& [key, value] : decoded->annotations)
    require(key.str().starts_with("muster.dev/"), "only annotations that were asked for");
}

void watch(std::string_view input) {
  if (input.empty()) return;
  const auto step = static_cast<std::size_t>(1 + static_cast<unsigned char>(input[0]));
  std::string_view rest = input.substr(1), expected = rest;
  client::LineSplitter splitter;
  while (!rest.empty()) {
    const std::string_view piece = rest.substr(0, step);
    rest.remove_prefix(piece.size());
    splitter.feed(piece);
    while (const auto line = splitter.next()) {
      require(expected.substr(0, expected.find('\n')) == *line, "lines are those of the stream");
      expected.remove_prefix(line->size() + 1);
      const auto event = client::parse_watch_event(*line);
      if (!event || event->type == client::WatchEventType::kOther) continue;
      require(event->error.has_value() == (event->type == client::WatchEventType::kError),
              "an ERROR has an error, and nothing else has");
      if (event->error) continue;
      require(!event->version.empty(), "an event has a version");
      require(line->find(event->object) != line->npos, "the object is text of the line");
      if (const auto decoded = client::decode_pod(event->object, pod_fields())) check_pod(*decoded);
    }
  }
  require(splitter.unfinished() == expected.size(), "what has no newline yet is kept");
}

}  // namespace muster::fuzz
