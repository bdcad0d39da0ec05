#include "live_objects.h"

#include <algorithm>
#include <ctime>
#include <map>
#include <set>
#include <stdexcept>
#include <thread>

#include "muster/crds/duration.h"
#include "muster/crds/time.h"

namespace muster::test {
namespace {

constexpr const char* kMusterApi = "/apis/muster.dev/v1alpha1/";
// The clock of a program that runs already when the scenario begins is set when it does: until then it has
// so much more to do.
constexpr seconds kHeadStart{3600};

std::string list_of(const json& document) {
  static const std::map<std::string, std::string> kLists = {
      {"Node", "/api/v1/nodes"},
      {"PriorityClass", "/apis/scheduling.k8s.io/v1/priorityclasses"},
      {"NodePool", std::string(kMusterApi) + "nodepools"},
      {"Queue", std::string(kMusterApi) + "queues"},
      {"Project", std::string(kMusterApi) + "projects"},
      {"TrainingJob", "trainingjobs"},
      {"InferenceService", "inferenceservices"}};
  const std::string ns = document["metadata"].value("namespace", "");
  if (is_kind(document, "Pod")) return "/api/v1/namespaces/" + ns + "/pods";
  const std::string& list = kLists.at(document["kind"]);
  return ns.empty() ? list : kMusterApi + ("namespaces/" + ns + "/") + list;
}
std::string path_of(const json& document) {
  return list_of(document) + "/" + document["metadata"]["name"].get<std::string>();
}

seconds now() {
  return std::chrono::duration_cast<seconds>(std::chrono::system_clock::now().time_since_epoch());
}
std::string timestamp(seconds since_epoch) {
  return crds::to_string(crds::Time{since_epoch});
}

// What KWOK is to do with the pods of a workload.
json pod_annotations(const json& document) {
  json all = json::object();
  if (const auto work = annotation(document, "runs-for")) {
    const auto head_start = is_assigned(document) ? kHeadStart : seconds{0};
    all["test.muster.dev/works-for"] = std::to_string((*work + head_start).count());
  }
  if (const auto saves = annotation(document, "saves-in"); saves && *saves > seconds{0})
    all["test.muster.dev/save-for"] = crds::to_string(*saves);
  return all;
}

}  // namespace

void LiveObjects::must(const testcluster::Result<testcluster::HttpResponse>& answer,
                       const std::string& what) const {
  if (!answer) throw std::runtime_error(what + ": " + answer.error());
  if (!answer->ok()) throw std::runtime_error(what + ": " + answer->body);
}

std::uint64_t LiveObjects::version() const {
  const json list = cluster_.get(std::string(kMusterApi) + "trainingjobs?limit=1");
  return std::stoull(list["metadata"]["resourceVersion"].get<std::string>());
}

// --- objects

void LiveObjects::make_namespaces(const Documents& documents) {
  std::map<std::string, std::string> project_of;
  for (const json& d : documents) {
    if (is_kind(d, "TrainingJob") || is_kind(d, "InferenceService") || is_kind(d, "Pod"))
      project_of.try_emplace(d["metadata"]["namespace"]);
  }
  for (const json& d : documents) {
    if (!is_kind(d, "Project")) continue;
    const std::string name = d["metadata"]["name"];
    project_of[d.value("/spec/namespace/name"_json_pointer, name)] = name;
  }
  for (const auto& [ns, project] : project_of) {
    json object = {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", ns}}}};
    if (!project.empty()) object["metadata"]["labels"] = {{"muster.dev/project", project}};
    must(cluster_.real().request("POST", "/api/v1/namespaces", object.dump()), "namespace " + ns);
  }
  for (const auto& [ns, project] : project_of) {
    const std::string account = "/api/v1/namespaces/" + ns + "/serviceaccounts/default";
    if (!cluster_.wait(30s, [&] { return !cluster_.get(account).is_null(); }))
      throw std::runtime_error("no default ServiceAccount in " + ns);
  }
}

json LiveObjects::live_form(const json& document) const {
  json object = document;
  object.erase("status");
  const json annotations = document["metadata"].value("annotations", json::object());
  object["metadata"].erase("annotations");
  for (const auto& [key, value] : annotations.items()) {
    if (!key.starts_with("simulate.muster.dev/")) object["metadata"]["annotations"][key] = value;
  }
  const json notes = pod_annotations(document);
  if (is_kind(document, "InferenceService"))
    object["spec"]["template"]["metadata"]["annotations"].update(notes);
  if (is_kind(document, "TrainingJob")) {
    for (json& role : object["spec"]["roles"]) {
      if (!notes.empty()) role["template"]["metadata"]["annotations"].update(notes);
    }
  }
  if (is_kind(document, "Node")) {
    json& meta = object["metadata"];
    meta["annotations"]["kwok.x-k8s.io/node"] = "fake";
    meta["labels"]["kubernetes.io/hostname"] = meta["name"];
    object["status"] = document.value("status", json::object());
    json& status = object["status"];
    const json amounts = status.contains("allocatable") ? status["allocatable"] : status["capacity"];
    status["capacity"] = status["allocatable"] = amounts;
    status["phase"] = "Running";
  }
  return object;
}

void LiveObjects::wait_for_seniority(const json& document) {
  const std::string kind = document["kind"];
  const std::string key = key_of(document);
  const auto age = annotation(document, "age").value_or(seconds{0});
  if (kind == last_kind_ && (key < last_key_ || age != last_age_)) {
    while (now() <= last_second_) std::this_thread::sleep_for(20ms);
  }
  last_kind_ = kind, last_key_ = key, last_age_ = age, last_second_ = now();
}

void LiveObjects::apply(const json& document) {
  const json object = live_form(document);
  const std::string path = path_of(document);
  const bool is_new = cluster_.get(path).is_null();
  if (is_kind(document, "Node")) {
    if (is_new) {
      new_nodes_.push_back(path);
      return must(cluster_.real().request("POST", list_of(document), object.dump()), path);
    }
    cluster_.patch(path, {{"metadata", {{"labels", object["metadata"]["labels"]}}},
                          {"spec", object.value("spec", json::object())}});
    return cluster_.patch(path + "/status", {{"status", object["status"]}});
  }
  if (is_new) wait_for_seniority(document);
  testcluster::Result<testcluster::HttpResponse> answer;
  // A young API server does not know the kinds yet that its admission policies look at.
  cluster_.wait(30s, [&] {
    answer = cluster_.real().request("PATCH", path + "?fieldManager=scenario&force=true", object.dump(),
                                     "application/apply-patch+yaml");
    return !answer || answer->body.find("not yet synced to use for admission") == std::string::npos;
  });
  must(answer, path);
}

void LiveObjects::remove(const json& document) {
  cluster_.remove(path_of(document));
}
void LiveObjects::set_down(const json& node, bool is_down) {
  const json value = is_down ? json("true") : json();
  cluster_.patch(path_of(node), {{"metadata", {{"annotations", {{"test.muster.dev/down", value}}}}}});
}

void LiveObjects::wait_for_nodes() {
  const auto is_ready = [&](const std::string& path) {
    const json taints = cluster_.get(path)["spec"].value("taints", json::array());
    const json ready = cluster_.condition_of(path, "Ready");
    return !ready.is_null() && ready["status"] == "True" && std::ranges::none_of(taints, [](const json& t) {
      return t["key"] == "node.kubernetes.io/not-ready";
    });
  };
  if (!cluster_.wait(60s, [&] { return std::ranges::all_of(new_nodes_, is_ready); }))
    throw std::runtime_error("nodes are not Ready");
  new_nodes_.clear();
}

void LiveObjects::wait_for_projects() {
  const auto all_ready = [&] {
    const json projects = cluster_.get(std::string(kMusterApi) + "projects");
    return std::ranges::all_of(projects["items"], [&](const json& p) {
      const json ready = cluster_.condition_of(path_of(p), "NamespaceReady");
      return !ready.is_null() && ready["status"] == "True";
    });
  };
  if (!cluster_.wait(60s, all_ready)) throw std::runtime_error("projects are not Ready");
}

// --- what runs already

void LiveObjects::assign(const json& document, const Documents& documents) {
  std::string pool = "default";
  for (const json& d : documents) {
    if (is_kind(d, "NodePool") && (d.value("/spec/default"_json_pointer, false)))
      pool = d["metadata"]["name"];
  }
  json assignment = document["status"]["assignment"];
  const int attempt = assignment.value("attempt", 1);
  assignment["pool"] = assignment.value("pool", pool);
  assignment["admittedAt"] = timestamp(now());
  assignment["generation"] = 1;
  json status = {{"attempt", attempt}, {"assignment", assignment}};
  // Its pods learn what was done before.
  const auto head = annotation(document, "runs-for") ? ran_before(document) : seconds{0};
  if (head > seconds{0}) status["checkpoint"] = {{"step", head.count()}};
  put_status(document, status, "the assignment of ");
}

// As the operator, or the operator could not take it back.
void LiveObjects::put_status(const json& document, const json& status, const std::string& what) {
  const json object = {
      {"apiVersion", document["apiVersion"]},
      {"kind", document["kind"]},
      {"metadata",
       {{"name", document["metadata"]["name"]}, {"namespace", document["metadata"]["namespace"]}}},
      {"status", status}};
  must(cluster_.real().request("PATCH", path_of(document) + "/status?fieldManager=muster&force=true",
                               object.dump(), "application/apply-patch+yaml"),
       what + key_of(document));
}

void LiveObjects::date_back(const json& document, seconds begin) {
  const json there = cluster_.get(path_of(document));
  json status = there["status"];
  const auto began = begin - ran_before(document);
  status["startedAt"] = status["assignment"]["admittedAt"] = timestamp(began);
  for (json& c : status["conditions"]) {
    if (c["type"] == "Admitted") c["lastTransitionTime"] = timestamp(began);
  }
  const bool works = annotation(document, "runs-for").has_value();
  if (works && status["assignment"].contains("resume"))
    status["assignment"]["resume"]["step"] = (ran_before(document) + kHeadStart).count();
  if (const auto age = annotation(document, "checkpoint-age")) {
    const auto step = works ? ran_before(document) + kHeadStart - *age : seconds{1};
    status["checkpoint"] = {{"step", step.count()},
                            {"savedAt", timestamp(begin - *age)},
                            {"attempt", status["attempt"]},
                            {"reporters", status["assignment"]["pods"].size()}};
  } else if (works) {
    status["checkpoint"]["step"] = kHeadStart.count();
  }
  put_status(document, status, "the past of ");
  if (works) date_pods_back(document, begin);
}

// See kHeadStart: their programs began that long ago, and have done `ran_before` before that.
void LiveObjects::date_pods_back(const json& document, seconds begin) {
  const auto left = *annotation(document, "runs-for") - ran_before(document);
  const json& meta = document["metadata"];
  for (const json& pod : cluster_.pods(meta["name"], meta["namespace"])) {
    json containers = pod["status"]["containerStatuses"];
    for (json& c : containers) {
      c["containerID"] = "fake://exits/" + timestamp(begin + left);
      c["state"]["running"]["startedAt"] = timestamp(begin - kHeadStart);
    }
    cluster_.patch("/api/v1/namespaces/" + meta["namespace"].get<std::string>() + "/pods/" +
                       pod["metadata"]["name"].get<std::string>() + "/status",
                   {{"status", {{"containerStatuses", containers}}}});
  }
}

}  // namespace muster::test
