#include "muster/testcluster/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "http.h"

namespace muster::testcluster {
namespace {

// Runs `call` on a loopback socket: ::bind or ::connect.
template <class Call>
bool on_loopback(int port, Call call) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const int yes = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool done =
      call(fd, reinterpret_cast<const sockaddr*>(&address), static_cast<socklen_t>(sizeof address)) == 0;
  ::close(fd);
  return done;
}

bool port_is_free(int port) {
  return on_loopback(
      port, [](int fd, const sockaddr* address, socklen_t size) { return ::bind(fd, address, size); });
}

}  // namespace

int free_port(const std::vector<int>& taken) {
  // Below the range from which the kernel takes ports for outgoing connections (32768 and up), so that a port
  // stays ours while its server is down.
  std::mt19937 random(std::random_device{}());
  std::uniform_int_distribution<int> any(20000, 32000);
  for (int tries = 0; tries < 200; ++tries) {
    const int port = any(random);
    if (std::ranges::find(taken, port) == taken.end() && port_is_free(port)) return port;
  }
  return 0;
}

bool port_answers(int port) {
  return on_loopback(
      port, [](int fd, const sockaddr* address, socklen_t size) { return ::connect(fd, address, size); });
}

long http_status(int port, const std::string& path) {
  HttpClient client("http://127.0.0.1:" + std::to_string(port), {}, {}, {});
  const auto answer = client.request("GET", path, {}, {}, std::chrono::seconds(2));
  return answer ? answer->status : 0;
}

}  // namespace muster::testcluster
