// What a program says that it has found out: a line of JSON, {"result": …}, in a pod's termination log.
// Others write it: what is malformed is as if it were not there.
#pragma once

#include <string>
#include <string_view>

#include "muster/client/pod.h"

namespace muster::reconcilers {

// What stands behind "result" in the last line that has one, as JSON in one line; "": no line has. null is no
// result, and neither is one of more than 1024 bytes. Text of more than 4096 bytes, which is what a kubelet
// keeps, is not read. O(bytes).
std::string parse_result(std::string_view text);
// Of the first container of the pod that has one.
std::string result_of(const client::Pod& pod);

}  // namespace muster::reconcilers
