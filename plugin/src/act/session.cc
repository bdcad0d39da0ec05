#include "act/session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <thread>
#include <tuple>

#include "act/act.h"
#include "pods/pods.h"

namespace muster::plugin {
namespace {

// With the image's part and a dash at most 40: the longest name of a job.
constexpr std::size_t kMaxUser = 19;
constexpr std::chrono::seconds kLookAgain{1};

// What --shell runs where no command was given: something that stays, and ends at once when it is told to.
const std::vector<std::string> kStays = {"sh", "-c", "trap 'exit 0' TERM INT; sleep infinity & wait"};
const std::vector<std::string> kShell = {"sh", "-c", "command -v bash >/dev/null && exec bash || exec sh"};

std::string image_of(const crds::TrainingJob& job) {
  const auto& pod_template = job.spec.roles.front().pod_template.value;
  if (pod_template == nullptr) return {};
  return pod_template->value("/spec/containers/0/image"_json_pointer, std::string());
}

bool has_ended(const crds::TrainingJob& job) {
  return job.status.phase == crds::Phase::kSucceeded || job.status.phase == crds::Phase::kFailed;
}

// Why it will not run as it is; "": it may.
std::string why_never(const crds::TrainingJob& job) {
  const std::string who = name_of(job.metadata);
  if (has_ended(job)) {
    const auto* failed = crds::find_condition(job.status.conditions, "Failed");
    const bool has_failed = failed != nullptr && failed->status == crds::ConditionStatus::kTrue;
    return fmt::format("{} has ended{}; `kubectl -n {} delete trainingjob {}` makes its name free", who,
                       has_failed ? fmt::format(" ({}: {})", failed->reason, failed->message) : "",
                       job.metadata.ns, job.metadata.name);
  }
  const auto* accepted = crds::find_condition(job.status.conditions, "Accepted");
  if (accepted == nullptr || accepted->status != crds::ConditionStatus::kFalse) return {};
  return fmt::format("{} cannot run ({}): {}", who, accepted->reason, accepted->message);
}

// What it waits for, in one line; "": nothing to say yet.
std::string what_it_does(const crds::TrainingJob& job) {
  const auto& status = job.status;
  if (!status.queue.reason.empty())
    return fmt::format("it waits ({}): {}", status.queue.reason, status.queue.message);
  if (status.phase == crds::Phase::kStarting) return "it has its place, and starts";
  return {};
}

// The job as it is when it runs; nullopt: it does not, and that was said.
std::optional<crds::TrainingJob> wait_until_it_runs(Reader& reader, const std::string& ns,
                                                    const Session& session) {
  const auto deadline = std::chrono::steady_clock::now() + session.timeout;
  for (std::string told;;) {
    const auto job = reader.get<crds::TrainingJob>(ns, session.job.name);
    if (!job) return fail(said(job.error())), std::nullopt;
    // What is said of it is of before the edit as long as nobody has looked at it.
    const bool is_seen = job->status.observed_generation == job->metadata.generation;
    const auto exposed = job->spec.expose.empty() || !job->status.endpoints.empty() ||
                         crds::find_condition(job->status.conditions, "Exposed") != nullptr;
    if (is_seen && job->status.phase == crds::Phase::kRunning && exposed) return *job;
    const auto never = is_seen ? why_never(*job) : std::string();
    if (!never.empty()) return fail(never), std::nullopt;
    if (auto now = what_it_does(*job); is_seen && !now.empty() && now != told) {
      std::cerr << wrapped(now) << '\n';
      told = std::move(now);
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      fail(fmt::format("{}/{} does not run after {}; it goes on waiting, and the same command picks it up",
                       ns, session.job.name, for_people(session.timeout)));
      return std::nullopt;
    }
    std::this_thread::sleep_for(kLookAgain);
  }
}

// The session is there and is to run. False: it cannot, and that was said.
bool make_or_pick_up(Reader& reader, const std::string& ns, const Session& session) {
  const std::string& name = session.job.name;
  const auto resource = resource_of<crds::TrainingJob>();
  const auto there = reader.get<crds::TrainingJob>(ns, name);
  if (!there && there.error().code != client::ErrorCode::kNotFound) return fail(said(there.error())), false;
  if (!there) {
    const auto made = reader.create(resource, ns, crds::Json::parse(session_job(session, ns).dump()));
    if (!made) return fail(said(made.error())), false;
    std::cout << "session " << name << " created\n";
    return true;
  }
  if (const auto another = why_another(*there, session); !another.empty()) return fail(another), false;
  if (has_ended(*there)) return fail(why_never(*there)), false;
  if (there->spec.suspend) {
    const auto done = reader.patch(resource, {ns, name}, {{"spec", {{"suspend", false}}}});
    if (!done) return fail(said(done.error())), false;
    std::cout << "session " << name << " resumed\n";
    return true;
  }
  std::cout << "session " << name
            << (there->status.phase == crds::Phase::kRunning ? " runs already\n" : " is there already\n");
  return true;
}

}  // namespace

std::string default_session_name(const std::string& image, const std::string& user) {
  std::string name = name_of_image(image);
  if (user.empty()) return name;
  std::string who = name_of_image(user).substr(0, kMaxUser);
  while (who.ends_with('-')) who.pop_back();
  return name + "-" + who;
}

std::string wrong_in(const Session& session) {
  for (const auto& claim : session.claims) {
    const auto colon = claim.find(':');
    if (colon == 0 || colon == std::string::npos || colon + 1 >= claim.size() || claim[colon + 1] != '/')
      return "--claim is CLAIM:PATH, such as home:/home/me, and not " + claim;
  }
  if (!session.path.empty() && session.path.front() != '/') return "--path begins with a slash";
  if (session.activity_path.empty()) return {};
  if (session.activity_path.front() != '/') return "--activity-path begins with a slash";
  if (session.port == 0) return "--activity-path needs a port that is asked: --port";
  return {};
}

Data session_job(const Session& session, const std::string& ns) {
  Submission submission = session.job;
  submission.interactive = true;
  if (session.shell && submission.command.empty()) submission.command = kStays;
  Data job = job_of(submission, ns);
  if (session.port > 0) {
    Data port = {{"name", "http"}, {"port", session.port}};
    if (!session.path.empty()) port["path"] = session.path;
    job["spec"]["expose"] = Data::array({port});
    if (!session.activity_path.empty()) job["spec"]["idle"]["activityPath"] = session.activity_path;
  }
  Data& pod = job["spec"]["roles"][0]["template"]["spec"];
  for (std::size_t i = 0; i < session.claims.size(); ++i) {
    const auto colon = session.claims[i].find(':');
    const std::string volume = fmt::format("claim-{}", i);
    pod["containers"][0]["volumeMounts"].push_back(
        {{"name", volume}, {"mountPath", session.claims[i].substr(colon + 1)}});
    Data source = {{"name", volume}};
    source["persistentVolumeClaim"]["claimName"] = session.claims[i].substr(0, colon);
    pod["volumes"].push_back(source);
  }
  return job;
}

std::string why_another(const crds::TrainingJob& job, const Session& session) {
  const std::string who = name_of(job.metadata);
  if (job.spec.mode != crds::Mode::kInteractive)
    return who + " is a batch job, and no session; name yours with --name";
  if (const auto image = image_of(job); image != session.job.image)
    return fmt::format("session {} is there with another image, {}; name another one with --name", who,
                       image);
  return {};
}

std::string how_to_reach(const crds::TrainingJob& job) {
  std::string text;
  for (const auto& endpoint : job.status.endpoints) {
    const auto exposed = std::ranges::find(job.spec.expose, endpoint.name, &crds::ExposedPort::name);
    const auto ports = endpoint.port_forward.substr(endpoint.port_forward.rfind(' ') + 1);
    text += fmt::format("{}\n  then open http://localhost:{}{}\n", endpoint.port_forward,
                        ports.substr(0, ports.find(':')),
                        exposed == job.spec.expose.end() ? std::string() : exposed->path);
    if (!endpoint.external_url.empty()) text += fmt::format("  or open {}\n", endpoint.external_url);
  }
  const auto* condition = crds::find_condition(job.status.conditions, "Exposed");
  if (text.empty() && !job.spec.expose.empty() && condition != nullptr)
    text =
        fmt::format("its port is not reached by a Service ({}): {}\n", condition->reason, condition->message);
  return text;
}

Listing sessions(const std::vector<crds::TrainingJob>& jobs, crds::Time now) {
  std::vector<const crds::TrainingJob*> all;
  for (const auto& job : jobs) {
    if (job.spec.mode == crds::Mode::kInteractive) all.push_back(&job);
  }
  std::ranges::sort(all, {}, [](const auto* j) { return std::tuple(j->metadata.ns, j->metadata.name); });
  Listing listing;
  listing.columns = {{"NAMESPACE", "namespace"}, {"NAME", "name"},   {"STATUS", "phase"},
                     {"GPUS", "gpus"},           {"AGE", "created"}, {"IMAGE", "image"},
                     {"REACH", "portForward"}};
  for (const auto* job : all) {
    const auto& m = job->metadata;
    Cell age;
    if (m.creation_timestamp)
      age = {for_people(now - *m.creation_timestamp), crds::to_string(*m.creation_timestamp)};
    const auto& endpoints = job->status.endpoints;
    const auto phase = job->status.phase;
    listing.rows.push_back(
        {{cell(m.ns), cell(m.name), cell(phase ? std::string(crds::to_string(*phase)) : std::string()),
          cell(gpus(job->status.allocated)), age, cell(image_of(*job)),
          cell(endpoints.empty() ? std::string() : endpoints.front().port_forward)}});
  }
  listing.if_empty = "No sessions. `kubectl muster session start IMAGE` makes one.";
  return listing;
}

int run_session_start(const Options& options, Session session) {
  if (const auto wrong = wrong_in(session); !wrong.empty()) return wrong_use(wrong);
  if (session.job.name.empty()) {
    const char* user = std::getenv("USER");
    session.job.name = default_session_name(session.job.image, user == nullptr ? "" : user);
  }
  std::string in;
  const int status = with_reader(options, [&](Reader& reader, const std::string& ns) {
    in = ns;
    if (!make_or_pick_up(reader, ns, session)) return kFailed;
    const auto job = wait_until_it_runs(reader, ns, session);
    if (!job) return kFailed;
    std::cout << how_to_reach(*job);
    if (!session.shell)
      std::cout << fmt::format("`kubectl muster -n {} session stop {}` gives its GPUs back and keeps it.\n",
                               ns, session.job.name);
    return 0;
  });
  if (status != 0 || !session.shell) return status;
  Options there = options;
  there.ns = in;
  const bool is_terminal = isatty(STDIN_FILENO) == 1;
  return run_exec(there, "trainingjob/" + session.job.name,
                  {.rank = 0, .container = {}, .stdin_too = true, .tty = is_terminal}, kShell);
}

int run_session_list(const Options& options) {
  return with_reader(options, [&](Reader& reader, const std::string& ns) {
    const auto jobs = reader.list<crds::TrainingJob>(options.all_namespaces ? "" : ns);
    if (!jobs) return fail(said(jobs.error(), options.all_namespaces ? kLeaveOutAll : ""));
    return show(sessions(*jobs, reader.now()), options.format);
  });
}

}  // namespace muster::plugin
