// Who may come in, and what they see. There are two doors: that of `kubectl muster ui`, for whoever has its
// URL (guard.h), and that of the page in a cluster, for users with a bearer token (access.h).
#pragma once

#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "muster/client/api.h"
#include "who/rights.h"

namespace muster::ui {

// What of a request decides. A header that was not sent is "".
struct Asked {
  std::string_view method, host, origin, authorization;
};

struct Refusal {
  int status = 403;
  std::string message;      // a sentence
  bool asks_token = false;  // the page asks its reader for a bearer token
};

// Who was let in. Thread: the executor's only.
class Visitor {
 public:
  virtual ~Visitor() = default;
  virtual std::shared_ptr<const Rights> rights() const = 0;
  // Whether they may still be here; afterwards rights() is what they may see now. Cheap if called often.
  virtual client::Task<std::optional<Refusal>> look_again() = 0;
  // details.h, with the visitor's own rights.
  virtual client::Task<client::Result<std::string>> job_details(client::ObjectRef job) = 0;
  virtual client::Task<client::Result<std::string>> disruptions_of(std::string ns) = 0;
};

class Door {
 public:
  virtual ~Door() = default;
  // The page asks its reader for a token of their own.
  virtual bool asks_token() const = 0;
  // For the page's own files, which tell nothing of the cluster.
  virtual std::optional<Refusal> refuses(const Asked& asked) const = 0;
  // For everything else. What `asked` views must live until the answer is there.
  virtual client::Task<std::expected<std::unique_ptr<Visitor>, Refusal>> admit(Asked asked) = 0;
};

}  // namespace muster::ui
