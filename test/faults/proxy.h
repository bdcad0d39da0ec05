// A proxy that does harm: HTTP/1.1 in plain text on loopback towards the client under test, TLS with the
// admin's certificate towards a real API server. Each request is asked about; what befalls it is one Harm.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace muster::faults {

enum class HarmKind : std::uint8_t {
  kNone,
  kAnswer,   // not forwarded; `status` and `body` instead
  kCut,      // the answer's body is cut after `after` bytes and the connection with it
  kInsert,   // after the first whole line beyond `after` bytes of the body, `body` is inserted and the answer
             // ended
  kDrip,     // the answer's body comes 61 bytes at a time, a millisecond apart
  kSilence,  // after `after` bytes of the body nothing more comes, and nothing ends
  kLostAnswer,  // forwarded and executed; then the connection breaks
  kReplaced,    // forwarded and executed; then `status` and `body` instead of the answer
};

struct Harm {
  HarmKind kind = HarmKind::kNone;
  std::size_t after = 0;
  int status = 0;
  std::string body{};
  std::string retry_after{};
};

struct Seen {
  std::string method;
  std::string target;
};

struct Upstream {
  std::uint16_t port = 0;  // on 127.0.0.1
  std::filesystem::path ca, certificate, key;
};

class Proxy {
 public:
  // Called from the proxy's threads, one call at a time.
  using Judge = std::function<Harm(const Seen&)>;

  explicit Proxy(Upstream upstream);
  ~Proxy();  // cuts every connection
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  std::string url() const;  // http://127.0.0.1:<port>
  void set_judge(Judge judge);
  int harmed() const;                              // requests that a Harm befell
  int forwarded(const std::string& method) const;  // requests that reached the API server
  void reset_counts();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::faults
