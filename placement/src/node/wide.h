// Products of two 64-bit amounts.
#pragma once

namespace muster::placement {

__extension__ using Wide = __int128;

}  // namespace muster::placement
