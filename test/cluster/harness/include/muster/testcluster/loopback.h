// Ports of this machine, for programs that run servers of their own beside a cluster.
#pragma once

#include <string>
#include <vector>

namespace muster::testcluster {

// A port that nobody listens on now and that is not in `taken`; 0 if there is none. Another process may take
// it before its server does.
int free_port(const std::vector<int>& taken = {});
bool port_answers(int port);
// One GET over plain HTTP; 0: no answer within 2 s.
long http_status(int port, const std::string& path);

}  // namespace muster::testcluster
