// One libFuzzer program for each target; MUSTER_FUZZ_TARGET is its name.
#include <cstddef>
#include <cstdint>

#include "targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  muster::fuzz::MUSTER_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  return 0;
}
