#include "random_objects.h"

#include <map>

namespace muster::test {
namespace {

// What its pods do, as annotations.
std::map<std::string, std::string> random_program(Lots& lots) {
  std::map<std::string, std::string> program = {
      {"test.muster.dev/save-for", std::to_string(lots.pick(3001)) + "ms"},
      {"test.muster.dev/termination-message", R"({"checkpoint":{"step":7}})"}};
  if (lots.chance(30)) program["test.muster.dev/start-after"] = std::to_string(lots.pick(2000)) + "ms";
  program["test.muster.dev/runs-for"] = lots.seconds(5, 30);
  if (lots.chance(10)) program["test.muster.dev/exit-code"] = "1";
  return program;
}

}  // namespace

json random_job(Lots& lots, const std::string& name) {
  const int gpus = lots.one_of(std::vector{0, 1, 1, 1, 2, 4, 8});
  const int replicas = 1 + lots.pick(gpus == 8 ? 3 : 8);
  json job = job_object({.name = name,
                         .ns = lots.chance(50) ? "team" : "guests",
                         .replicas = replicas,
                         .gpus = gpus,
                         .pod_annotations = random_program(lots)});
  json& spec = job["spec"];
  json& role = spec["roles"][0];
  spec["priorityClassName"] = lots.chance(40) ? "low" : "training";
  if (lots.chance(40)) spec["checkpoint"] = {{"gracePeriod", lots.seconds(1, 10)}};
  if (lots.chance(50)) spec["maxRuntime"] = lots.seconds(2, 20);
  if (lots.chance(15)) spec["completion"] = {{"policy", "First"}};
  if (lots.chance(10)) spec["suspend"] = true;
  if (lots.chance(15)) spec["restart"] = {{"limit", lots.pick(3)}};
  if (lots.chance(15)) spec["ttlAfterFinished"] = lots.seconds(0, 5);
  if (lots.chance(20)) {
    spec["mode"] = "Interactive";
    spec["maxRuntime"] = lots.seconds(2, 20);
  }
  if (gpus == 1 && lots.chance(30)) {
    role["gpus"] = {{"fraction", "500m"}};
  } else if (replicas > 1 && lots.chance(40)) {
    role.erase("replicas");
    role["minReplicas"] = 1 + lots.pick(replicas);
    role["maxReplicas"] = replicas;
    spec["elastic"] = {{"resize", lots.chance(60) ? "InPlace" : "Restart"}, {"growAfter", "2s"}};
  }
  return job;
}

json random_service(Lots& lots, const std::string& name) {
  auto program = random_program(lots);
  program.erase("test.muster.dev/runs-for");
  program.erase("test.muster.dev/exit-code");
  return service_object(name, 1 + lots.pick(3), {{"preemptible", lots.chance(50)}}, program);
}

}  // namespace muster::test
