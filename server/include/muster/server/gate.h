// Who may GET a path: whoever the API server says may, by their bearer token.
#pragma once

#include <memory>
#include <optional>

#include "muster/client/api.h"
#include "muster/server/listener.h"

namespace muster::server {

// Asks for a TokenReview, and then for a SubjectAccessReview of the verb "get" on the path. What was answered
// is kept: a minute where it was yes, ten seconds where it was no; of at most 1,000 tokens.
class Gate {
 public:
  // `api`: whose rights to create tokenreviews and subjectaccessreviews are used. It outlives the gate.
  explicit Gate(client::ApiClient& api);
  ~Gate();

  // nullopt: let them in. Else what they are told: 401, 403, or 503 where the API server cannot be asked.
  client::Task<std::optional<Answer>> refuses(std::string authorization, std::string path);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster::server
