// What a connection and a request need to prove who we are, as of now: files are read again when they change,
// exec plugins run again before their credential expires.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "muster/client/config.h"
#include "muster/client/environment.h"

namespace muster::client {

// Immutable. A connection made with one generation of `tls_generation` may serve all later requests of the
// same one.
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

  // Cheap while nothing changed: files are looked at no more than every 10 s and read when their modification
  // time, size or inode changed, at the latest after a minute. A file that cannot be read, or a plugin that
  // fails, leaves the last good set in force until it expires, with a warning; without one the error is
  // returned (kConfig). A plugin runs in a process of its own, for at most a minute; callers wait for it
  // together.
  Task<Result<std::shared_ptr<const CredentialSet>>> get();

  // The server answered 401 to a request made with `generation`: look again at once.
  void rejected(std::uint64_t generation);

  const ClientConfig& config() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace muster::client
