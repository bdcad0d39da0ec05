// Read before every source file (MusterTargets.cmake). std::stable_sort of g++ 12's library calls a function
// that the same library declares deprecated, and clang warns of it wherever a stable_sort is used. Here, and
// only for what <memory> declares, that warning is off; deprecated functions that Muster calls itself are
// warned of as ever.
#pragma once

#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wdeprecated-declarations"
#include <memory>
#pragma clang diagnostic pop
