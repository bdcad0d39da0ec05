#include "holding.h"

#include <algorithm>
#include <tuple>

namespace muster::activator {

bool Holding::take_head(const client::Key& service, std::size_t bytes) {
  const auto known = heads_.find(service);
  const std::size_t of_service = (known == heads_.end() ? 0 : known->second) + bytes;
  if (of_service > bounds_.bytes / 4 || bytes_ + bytes > bounds_.bytes) return false;
  heads_[service] = of_service;
  bytes_ += bytes;
  return true;
}

void Holding::forget_head(const client::Key& service, std::size_t bytes) {
  const auto known = heads_.find(service);
  if (known == heads_.end()) return;
  bytes_ -= bytes;
  known->second -= bytes;
  if (known->second == 0) heads_.erase(known);
}

std::optional<Ticket> Holding::take(const client::Key& service, std::size_t bytes) {
  Line& line = lines_[service];
  if (line.held.size() >= bounds_.requests || bytes_ + bytes > bounds_.bytes) return std::nullopt;
  const Ticket ticket = next_++;
  requests_[ticket] = {service, bytes};
  line.held.insert(ticket);
  bytes_ += bytes;
  return ticket;
}

bool Holding::grow(Ticket ticket, std::size_t bytes) {
  const auto found = requests_.find(ticket);
  if (found == requests_.end() || !found->second.replica.empty()) return true;
  if (bytes_ + bytes > bounds_.bytes) return false;
  found->second.bytes += bytes;
  bytes_ += bytes;
  return true;
}

void Holding::give_back(Line& line, const std::string& replica) {
  const auto found = line.replicas.find(replica);
  if (found == line.replicas.end()) return;
  --found->second.has;
  if (found->second.has == 0 && !found->second.is_ready) line.replicas.erase(found);
}

void Holding::end(Ticket ticket) {
  const auto found = requests_.find(ticket);
  if (found == requests_.end()) return;
  Line& line = lines_[found->second.service];
  if (found->second.replica.empty()) {
    line.held.erase(ticket);
    bytes_ -= found->second.bytes;
  } else {
    give_back(line, found->second.replica);
  }
  if (line.held.empty() && line.replicas.empty()) lines_.erase(found->second.service);
  requests_.erase(found);
}

void Holding::refused(Ticket ticket, client::TimePoint until) {
  const auto found = requests_.find(ticket);
  if (found == requests_.end() || found->second.replica.empty()) return;
  Request& request = found->second;
  Line& line = lines_[request.service];
  if (const auto replica = line.replicas.find(request.replica); replica != line.replicas.end())
    replica->second.not_before = until;
  give_back(line, request.replica);
  request.replica.clear();
  line.held.insert(ticket);
  bytes_ += request.bytes;  // maybe beyond the bound: it was within when it was taken
}

void Holding::set_replicas(const client::Key& service, const std::vector<std::string>& ready) {
  Line& line = lines_[service];
  for (auto& [address, replica] : line.replicas) replica.is_ready = false;
  for (const std::string& address : ready) line.replicas[address].is_ready = true;
  std::erase_if(line.replicas, [](const auto& r) { return !r.second.is_ready && r.second.has == 0; });
  if (line.held.empty() && line.replicas.empty()) lines_.erase(service);
}

bool Holding::has_replica(const client::Key& service) const {
  const auto line = lines_.find(service);
  return line != lines_.end() &&
         std::ranges::any_of(line->second.replicas, [](const auto& r) { return r.second.is_ready; });
}

std::vector<Passed> Holding::pass_on(const client::Key& service, client::TimePoint now) {
  std::vector<Passed> all;
  const auto found = lines_.find(service);
  if (found == lines_.end()) return all;
  Line& line = found->second;
  while (!line.held.empty()) {
    std::pair<const std::string, Replica>* best = nullptr;
    for (auto& one : line.replicas) {
      const Replica& r = one.second;
      if (!r.is_ready || r.has >= bounds_.per_replica || now < r.not_before) continue;
      if (best == nullptr || std::tie(r.has, r.last) < std::tie(best->second.has, best->second.last))
        best = &one;
    }
    if (best == nullptr) break;
    const Ticket ticket = *line.held.begin();
    line.held.erase(line.held.begin());
    Request& request = requests_.at(ticket);
    request.replica = best->first;
    bytes_ -= request.bytes;
    ++best->second.has;
    best->second.last = ++turns_;
    all.push_back({ticket, best->first});
  }
  return all;
}

std::size_t Holding::held(const client::Key& service) const {
  const auto line = lines_.find(service);
  return line == lines_.end() ? 0 : line->second.held.size();
}

std::vector<Ticket> Holding::all_held(const client::Key& service) const {
  const auto line = lines_.find(service);
  if (line == lines_.end()) return {};
  return {line->second.held.begin(), line->second.held.end()};
}

}  // namespace muster::activator
