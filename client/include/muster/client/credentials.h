// What a connection and a request need now to prove who we are. Files are read again when they change, and
// exec plugins run again before their credential expires.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "muster/client/config.h"
#include "muster/client/environment.h"

namespace muster::client {

// Immutable. A connection may serve all requests that have the `tls_generation` with which it was made.
struct CredentialSet {
  std::uint64_t generation = 0;      // changes whenever anything does
  std::uint64_t tls_generation = 0;  // changes when ca, certificate or key do
  Secret ca_pem;                     // empty: the system's
  Secret certificate_pem;
  Secret key_pem;
  Secret authorization;  // the header's value, "Bearer …"; empty: none
};

class Credentials {
 public:
  Credentials(Environment env, ClientConfig config);
  ~Credentials();
  Credentials(const Credentials&) = delete;
  Credentials& operator=(const Credentials&) = delete;

  // Cheap while nothing has changed. Files are looked at no more than every 10 s. They are read when their
  // modification time, size or inode has changed, and at the latest after a minute. If a file cannot be read
  // or a plugin fails, the last good set stays in force until it expires, with a warning. If there is none,
  // the error is returned (kConfig). A plugin runs in a process of its own, for at most a minute; all callers
  // wait for the same run.
  Task<Result<std::shared_ptr<const CredentialSet>>> get();

  // The server answered 401 to a request that was made with `generation`: looks again at once.
  void rejected(std::uint64_t generation);

  const ClientConfig& config() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace muster::client
