#include "muster/reconcilers/jobs/pod_refusal.h"

#include <gtest/gtest.h>

namespace muster::reconcilers {
namespace {

using client::Error;
using client::ErrorCode;
using Kind = JobDecision::Kind;

struct Case {
  std::string name;
  ErrorCode code;
  std::string message;
  std::optional<Kind> kind;
  std::string reason{};
  std::string said{};  // "": the message
};

class OfAPod : public testing::TestWithParam<Case> {};

TEST_P(OfAPod, DecidesAboutTheGang) {
  const Case& c = GetParam();
  const auto decided = decision_on_refusal(Error{.code = c.code, .message = c.message});
  ASSERT_EQ(decided.has_value(), c.kind.has_value());
  if (!decided) return;
  EXPECT_EQ(decided->kind, *c.kind);
  EXPECT_EQ(decided->reason, c.reason);
  EXPECT_EQ(decided->message, c.said.empty() ? c.message : c.said);
}

// The texts are a kube-apiserver's, v1.36.
INSTANTIATE_TEST_SUITE_P(
    Refusal, OfAPod,
    testing::Values(
        Case{"Schema", ErrorCode::kInvalid,
             R"(Pod "a-0" is invalid: spec.containers[0].image: Required value)", Kind::kEvict,
             "InvalidSpec"},
        Case{"BadRequest", ErrorCode::kBadRequest, "the object provided is unrecognized", Kind::kEvict,
             "InvalidSpec"},
        Case{"LongText", ErrorCode::kInvalid, std::string(2000, 'x'), Kind::kEvict, "InvalidSpec",
             std::string(1021, 'x') + "..."},
        Case{"LongTextIsCutBetweenCharacters", ErrorCode::kInvalid,
             std::string(1020, 'x') + "\u00fc and more", Kind::kEvict, "InvalidSpec",
             std::string(1020, 'x') + "..."},
        Case{"Quota", ErrorCode::kForbidden, R"(pods "a-0" is forbidden: exceeded quota: compute)",
             Kind::kBackOff, "PodsForbidden"},
        Case{
            "PolicyWithoutAReason", ErrorCode::kInvalid,
            R"(pods "a-0" is forbidden: ValidatingAdmissionPolicy 'images' with binding 'all' denied request: not ours)",
            Kind::kBackOff, "PodsForbidden"},
        Case{"PolicyNotSetUp", ErrorCode::kInvalid,
             R"(pods "a-0" is forbidden: ValidatingAdmissionPolicy 'muster-gpu-pods' denied request: )"
             R"(failed to configure policy: failed to find resource referenced by paramKind: )"
             R"('muster.dev/v1alpha1, Kind=NodePool')",
             std::nullopt},
        Case{"BindingNotSetUp", ErrorCode::kInvalid,
             R"(pods "a-0" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: )"
             R"(failed to configure binding: paramKind kind not known)",
             std::nullopt},
        Case{"NameOfItsService", ErrorCode::kAlreadyExists,
             "services team/db exists and does not belong to this job; delete it or rename the job",
             Kind::kBackOff, "NameTaken"},
        Case{"Passing", ErrorCode::kServiceUnavailable, "etcd is away", std::nullopt}),
    [](const auto& which) { return which.param.name; });

}  // namespace
}  // namespace muster::reconcilers
