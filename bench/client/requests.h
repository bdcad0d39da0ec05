// Requests per second, beside what libcurl alone makes of the same requests.
#pragma once

#include <string>
#include <vector>

#include "report.h"

namespace muster::bench {

// Posts each of the bodies to an HTTPS server in this process, through the client and through libcurl's bare
// multi handle: the same connections, as many requests in flight. Throws where one is not answered with 201.
void measure_requests(Report& report, const std::vector<std::string>& bodies);

}  // namespace muster::bench
