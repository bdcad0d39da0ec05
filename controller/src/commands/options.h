// The command line of `muster controller`.
#pragma once

#include <string>

#include "process/logging.h"

namespace muster::controller {

struct Options {
  std::string kubeconfig;  // empty: in-cluster where there is one, else KUBECONFIG, else ~/.kube/config
  std::string context;
  bool leader_elect = false;
  std::string lease_namespace = "muster-system";  // and where Muster runs
  std::string lease_name = "muster-controller";
  std::string identity;                          // empty: host name and a random part
  std::string metrics_address = ":8080";         // empty: none
  std::string metrics_certificate, metrics_key;  // PEM files; empty: plain HTTP
  bool metrics_authorize = false;        // /metrics only for whom the API server lets get it, by bearer token
  std::string health_address = ":8081";  // empty: none
  LogFormat log_format = LogFormat::kText;
  std::string log_level = "info";
  int workers = 128;        // reconciles at once
  int max_in_flight = 64;   // requests at once, at most
  int status_interval = 3;  // seconds between two writes of counters to one object
  std::string reservation_namespace = "muster-system";  // of the pods that hold GPUs for those who share them
  std::string reservation_image;                        // empty: that of own_pod, else this version's
  std::string own_pod;                                  // in reservation_namespace; empty: it runs in none
  int activator_admin_port = 8080;                      // where activators answer questions
  int activator_first_port = 20000,
      activator_last_port = 24999;  // where they listen, one port for each service
  bool ledger = true;               // false: nobody counts what work uses, to measure what that costs
  int node_grace = 60;  // seconds that a node may be not Ready before what ran there is placed anew
};

}  // namespace muster::controller
