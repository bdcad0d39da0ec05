// Answers of the server as typed values.
#include "muster/client/error.h"

#include <gtest/gtest.h>

namespace muster::client {
namespace {

using namespace std::chrono_literals;

TEST(Error, StatusObjectIsReadWhole) {
  const Error e =
      error_from_response(422, R"({"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid",
    "message":"Pod \"p\" is invalid","code":422,"details":{"name":"p","kind":"Pod","retryAfterSeconds":3,
    "causes":[{"reason":"FieldValueRequired","message":"Required value","field":"spec.containers"},{"message":"no field"}]}})",
                          "");
  EXPECT_EQ(e.code, ErrorCode::kInvalid);
  EXPECT_EQ(e.http_status, 422);
  EXPECT_EQ(e.reason, "Invalid");
  EXPECT_EQ(e.message, "Pod \"p\" is invalid");
  EXPECT_EQ(e.causes, (std::vector<std::string>{"spec.containers: Required value", "no field"}));
  EXPECT_EQ(e.retry_after, 3000ms);
  EXPECT_EQ(to_string(e),
            "Invalid (HTTP 422): Pod \"p\" is invalid; spec.containers: Required value; no field");
}

TEST(Error, ReasonDecidesBeforeHttpStatus) {
  struct Case {
    int status;
    const char* reason;
    ErrorCode code;
    bool repeat, unknown;
  };
  for (const Case c : {Case{409, "AlreadyExists", ErrorCode::kAlreadyExists, false, false},
                       Case{409, "Conflict", ErrorCode::kConflict, false, false},
                       Case{410, "Expired", ErrorCode::kGone, false, false},
                       Case{410, "Gone", ErrorCode::kGone, false, false},
                       Case{500, "ServerTimeout", ErrorCode::kServerTimeout, true, false},
                       Case{504, "Timeout", ErrorCode::kTimeout, false, true},
                       Case{429, "TooManyRequests", ErrorCode::kTooManyRequests, true, false},
                       Case{503, "ServiceUnavailable", ErrorCode::kServiceUnavailable, true, false},
                       Case{500, "InternalError", ErrorCode::kInternal, false, true},
                       Case{403, "Forbidden", ErrorCode::kForbidden, false, false},
                       Case{418, "SomethingNew", ErrorCode::kServerOther, false, false}}) {
    const Error e =
        error_from_response(c.status, std::string{R"({"kind":"Status","reason":")"} + c.reason + "\"}", "");
    EXPECT_EQ(e.code, c.code) << c.reason;
    EXPECT_EQ(e.safe_to_repeat(), c.repeat) << c.reason;
    EXPECT_EQ(e.outcome_unknown(), c.unknown) << c.reason;
  }
}

TEST(Error, OtherBodiesGoByHttpStatus) {
  EXPECT_EQ(error_from_response(404, "<html>nothing here</html>", "").code, ErrorCode::kNotFound);
  EXPECT_EQ(error_from_response(409, "", "").code, ErrorCode::kConflict);
  EXPECT_EQ(error_from_response(502, std::string(5000, 'x'), "").message.size(), 200u);
  EXPECT_TRUE(error_from_response(502, "", "").outcome_unknown());
  const Error by_gateway = error_from_response(503, "<html>upstream went away</html>", "3");
  EXPECT_EQ(by_gateway.code, ErrorCode::kUnknownOutcome);
  EXPECT_TRUE(by_gateway.outcome_unknown());
  EXPECT_FALSE(by_gateway.safe_to_repeat());
  EXPECT_EQ(by_gateway.retry_after, 3s);
  EXPECT_EQ(error_from_response(503, R"({"kind":"Other","reason":"ServiceUnavailable"})", "").code,
            ErrorCode::kUnknownOutcome);
  EXPECT_EQ(error_from_response(500, "{\"kind\":\"Status\",\"reason\":7,\"details\":[]}", "").code,
            ErrorCode::kInternal);
  EXPECT_EQ(error_from_response(429, "", "7").retry_after, 7s);
  EXPECT_FALSE(error_from_response(429, "", "-7").retry_after);
  EXPECT_FALSE(error_from_response(429, "", "7x").retry_after);
}

}  // namespace
}  // namespace muster::client
