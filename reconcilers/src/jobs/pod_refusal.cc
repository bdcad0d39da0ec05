#include "muster/reconcilers/jobs/pod_refusal.h"

#include "muster/crds/text.h"

namespace muster::reconcilers {
namespace {

using client::ErrorCode;

constexpr std::size_t kMaxText = 1024;

// Admission policies answer with any code they like, 422 if they name none; only the text tells who spoke.
bool is_denied_by_policy(const std::string& text) {
  return text.contains("ValidatingAdmissionPolicy '") && text.contains("' denied request: ");
}
bool is_policy_not_set_up(const std::string& text) {
  return is_denied_by_policy(text) && text.contains(" denied request: failed to configure ");
}

}  // namespace

std::optional<JobDecision> decision_on_refusal(const client::Error& error) {
  const std::string text = error.message.empty() ? client::to_string(error) : error.message;
  if (is_policy_not_set_up(text)) return std::nullopt;
  JobDecision back;
  back.message = crds::cut(text, kMaxText);
  switch (error.code) {
    case ErrorCode::kInvalid:
    case ErrorCode::kBadRequest:
    case ErrorCode::kRequestTooLarge:
    case ErrorCode::kForbidden:
      if (error.code == ErrorCode::kForbidden || is_denied_by_policy(text)) {
        back.kind = JobDecision::Kind::kBackOff;
        back.reason = "PodsForbidden";
      } else {
        back.kind = JobDecision::Kind::kEvict;
        back.reason = "InvalidSpec";
      }
      return back;
    case ErrorCode::kAlreadyExists:
      back.kind = JobDecision::Kind::kBackOff;
      back.reason = "NameTaken";
      return back;
    default:
      return std::nullopt;
  }
}

}  // namespace muster::reconcilers
