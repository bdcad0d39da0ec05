// The rollouts of a service: how one stands, what can be gone back to, and how a canary ends.
#pragma once

#include <expected>
#include <string>

#include "command.h"

namespace muster::plugin {

// What is kept of revisions, the newest first.
Listing revisions(const crds::InferenceService& service, crds::Time now);
// A few lines about the revision in force, and the condition RolledOut.
std::string rollout_status(const crds::InferenceService& service);

// The merge patches of the commands, each with a sentence about it, or why there is nothing to do.
struct RolloutChange {
  Data patch;
  std::string what;
};
// `to`: the name or number of a kept revision; "": the one before that in force.
std::expected<RolloutChange, std::string> undo(const crds::InferenceService& service, const std::string& to);
std::expected<RolloutChange, std::string> promote(const crds::InferenceService& service);
std::expected<RolloutChange, std::string> abort_canary(const crds::InferenceService& service);

// The exit status (command.h).
int run_rollout_status(const Options& options, const std::string& name);
int run_rollout_history(const Options& options, const std::string& name);
int run_rollout_undo(const Options& options, const std::string& name, const std::string& to);
int run_rollout_promote(const Options& options, const std::string& name);
int run_rollout_abort(const Options& options, const std::string& name);

}  // namespace muster::plugin
