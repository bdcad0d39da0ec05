#include "live_events.h"

#include <algorithm>

namespace muster::test {
namespace {

json condition_in(const json& status, const char* type) {
  for (const json& c : status.value("conditions", json::array())) {
    if (c["type"] == type) return c;
  }
  return {{"status", ""}, {"reason", ""}, {"message", ""}};
}

// Where each pod is, whatever its number.
std::multiset<std::string> places(const json& assignment) {
  std::multiset<std::string> all;
  for (const json& p : assignment["pods"])
    all.insert(p["role"].get<std::string>() + " " + p["node"].get<std::string>());
  return all;
}

}  // namespace

std::string beneficiary_in(const std::string& message) {
  for (const char* before : {"reclaimed for ", "preempted for ", "make room for "}) {
    const auto at = message.find(before);
    if (at == std::string::npos) continue;
    const auto from = at + std::string_view(before).size();
    return message.substr(from, message.find_first_of(",; ", from) - from);
  }
  return {};
}

void EventReader::see(const Change& change) {
  now_ = change.version;
  const std::string kind = change.object.value("kind", "");
  if (kind == "Pod") see_pod(change);
  if (kind == "TrainingJob") see_job(change);
}

void EventReader::see_pod(const Change& change) {
  const json& meta = change.object["metadata"];
  const auto found = jobs_.find(meta.value("/ownerReferences/0/uid"_json_pointer, std::string()));
  if (found == jobs_.end()) return;
  Job& job = found->second;
  const std::string phase = change.object["status"].value("phase", "");
  if (change.is_gone || phase == "Succeeded" || phase == "Failed") {
    job.pods.erase(meta["uid"].get<std::string>());
  } else {
    job.pods.insert(meta["uid"].get<std::string>());
  }
  release(job);
}

void EventReader::see_job(const Change& change) {
  const json& meta = change.object["metadata"];
  const auto [it, is_new] = jobs_.try_emplace(meta["uid"].get<std::string>());
  Job& job = it->second;
  const std::string ns = meta["namespace"];
  if (is_new) {
    const auto service = meta.value("/labels/muster.dev~1service"_json_pointer, std::string());
    job.key = ns + "/" + meta["name"].get<std::string>();
    job.object = service.empty() ? job.key : ns + "/" + service;
  }
  if (change.is_gone) {
    // Of a service that is to have fewer replicas.
    if (job.object != job.key && !job.assignment.is_null()) tell(job, "Shrunk", "Scaled");
    job.assignment = nullptr;
    return;
  }
  const json status = change.object.value("status", json::object());
  const json before = std::move(job.assignment);
  job.assignment = status.value("assignment", json());
  if (!job.assignment.is_null() && !job.assignment.contains("pods")) job.assignment = nullptr;
  const bool was_finished = job.is_finished;
  job.is_finished = condition_in(status, "Complete")["status"] == "True" ||
                    condition_in(status, "Failed")["status"] == "True";
  if (job.is_finished != was_finished) {
    see_end(job, status);
  } else {
    see_assignment(job, before, status);
  }
  release(job);
}

void EventReader::see_end(Job& job, const json& status) {
  const json failed = condition_in(status, "Failed");
  const std::string reason = failed["status"] == "True" ? failed["reason"].get<std::string>() : "";
  if (reason != "MaxRuntimeExceeded") return tell(job, "Finished", reason);
  tell(job, "Evicted", "MaxRuntime");
  job.leaves = true;
  job.ends_as = reason;
}

void EventReader::see_assignment(Job& job, const json& before, const json& status) {
  const json& now = job.assignment;
  if (before.is_null() && now.is_null()) return;
  if (before.is_null()) {
    tell(job, job.moves ? "Restarted" : "Admitted", job.moves ? "Moved" : "");
    job.moves = false;
    return;
  }
  if (now.is_null()) {
    const json evicted = condition_in(status, "Evicted");
    job.moves = status.contains("nominated");
    job.leaves = true;
    return tell(job, job.moves ? "Moved" : "Evicted", evicted["reason"], evicted["message"]);
  }
  const auto was = places(before), is = places(now);
  if (is.size() != was.size()) {
    tell(job, is.size() < was.size() ? "Shrunk" : "Grown");
  } else if (is != was || before["attempt"] != now["attempt"]) {
    tell(job, "Restarted", is == was ? "ProgramFault" : "NodeFailed");
  }
}

void EventReader::release(Job& job) {
  if (!job.leaves || !job.pods.empty()) return;
  job.leaves = false;
  tell(job, "Released");
  if (!job.ends_as.empty()) tell(job, "Finished", job.ends_as);
  job.ends_as.clear();
}

void EventReader::tell(const Job& job, std::string type, std::string reason, std::string message) {
  if (now_ <= after_) return;
  told_.push_back({{std::move(type), job.object, std::move(reason), beneficiary_in(message)}, job.key});
}

std::string EventReader::object_of(const std::string& key) const {
  for (const auto& [uid, job] : jobs_) {
    if (job.key == key) return job.object;
  }
  return key;
}

std::vector<Event> EventReader::events(const json& told) const {
  // The reasons for which each job shrank, in order.
  std::map<std::string, std::vector<json>> shrank;
  auto list = told["items"].get<std::vector<json>>();
  std::ranges::sort(list, {}, [](const json& e) {
    return std::stoull(e["metadata"]["resourceVersion"].get<std::string>());
  });
  for (const json& e : list) {
    if (e.value("action", "") != "Shrink") continue;
    const json& about = e["regarding"];
    shrank[about["namespace"].get<std::string>() + "/" + about["name"].get<std::string>()].push_back(e);
  }
  std::map<std::string, std::size_t> used;
  std::vector<Event> all;
  for (const auto& [event, job] : told_) {
    Event e = event;
    if (e.type == "Shrunk" && e.reason.empty() && used[job] < shrank[job].size()) {
      const json& why = shrank[job][used[job]++];
      e.reason = why["reason"] == "MemberLost" ? "NodeFailed" : why["reason"].get<std::string>();
      e.beneficiary = beneficiary_in(why.value("note", ""));
    }
    e.beneficiary = object_of(e.beneficiary);
    all.push_back(std::move(e));
  }
  return all;
}

}  // namespace muster::test
