// What a person can do about a reason for which a workload waits.
#pragma once

#include <string_view>

namespace muster::ui {

// Without a full stop; "": nothing is known. docs/operations.md has the same.
std::string_view what_helps(std::string_view reason);

}  // namespace muster::ui
