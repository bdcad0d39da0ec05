#include "report/expectations.h"

#include <algorithm>
#include <set>

#include "read/json.h"
#include "report/entries.h"

namespace muster::simulate {
namespace {

using crds::Json;

// Strings without quotes, everything else as JSON.
std::string shown(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::optional<std::int64_t> milli(const Json& quantity) {
  const auto amount = crds::parse_quantity(quantity_of(quantity), 1000);
  return amount ? std::optional(*amount) : std::nullopt;
}

class Differences {
 public:
  Differences(const World& world, const Expectation& expectation) : world_(world), x_(expectation) {}

  std::vector<std::string> run() {
    if (const Json* jobs = find(x_.body, "jobs")) {
      for (const auto& [pattern, fields] : jobs->items()) job(pattern, fields);
    }
    if (const Json* events = find(x_.body, "events")) {
      for (std::size_t i = 0; i < kEventNames.size(); ++i) {
        const Json* wanted = find(*events, kEventNames[i]);
        if (wanted != nullptr && *wanted != world_.event_counts[i])
          differ("events." + std::string(kEventNames[i]), wanted->dump(),
                 std::to_string(world_.event_counts[i]));
      }
    }
    if (const Json* queues = find(x_.body, "queues")) {
      for (const auto& [name, fields] : queues->items()) queue(name, fields);
    }
    return std::move(lines_);
  }

 private:
  void differ(const std::string& field, const std::string& wanted, const std::string& is,
              const std::string& why = {}) {
    lines_.push_back(x_.source.location(field) + ": at " + crds::to_string(x_.at) + ": " + field +
                     ": expected " + wanted + ", is " + is + (why.empty() ? "" : " (" + why + ")"));
  }

  static bool counts(const Json& fields) {
    return fields.contains("running") || fields.contains("queued") || fields.contains("succeeded");
  }

  void job(const std::string& pattern, const Json& fields) {
    const std::string at = "jobs." + pattern;
    std::vector<const Workload*> found;
    for (const Workload* w : world_.in_order()) {
      if (matches_glob(pattern, w->key)) found.push_back(w);
    }
    if (counts(fields)) count(at, found, fields);
    if (found.empty() && (!counts(fields) || fields.size() > 3)) {
      return differ(at, "a TrainingJob or InferenceService of this name", "none");
    }
    for (const Workload* w : found) {
      const Json entry = Json::parse(workload_entry(world_, *w).dump());
      for (const auto& [field, wanted] : fields.items()) {
        if (field == "running" || field == "queued" || field == "succeeded") continue;
        compare(found.size() > 1 ? at + " (" + w->key + ")" : at, field, wanted, entry, *w);
      }
    }
  }

  // Gangs: a service counts each of its replicas.
  void count(const std::string& at, const std::vector<const Workload*>& found, const Json& fields) {
    std::int64_t running = 0, queued = 0, succeeded = 0;
    for (const Workload* w : found) {
      if (world_.phase(*w) == Phase::kSucceeded) ++succeeded;
      if (w->finished || world_.phase(*w) == Phase::kSuspended) continue;
      for (const auto& g : w->gangs) {
        if (g->state == Gang::State::kRunning) ++running;
        if (g->state != Gang::State::kRunning && !g->leaves_whole) ++queued;
      }
    }
    const auto one = [&](const char* field, std::int64_t is) {
      const Json* wanted = find(fields, field);
      if (wanted != nullptr && *wanted != is) differ(at + "." + field, wanted->dump(), std::to_string(is));
    };
    one("running", running);
    one("queued", queued);
    one("succeeded", succeeded);
  }

  void compare(const std::string& at, const std::string& field, const Json& wanted, const Json& entry,
               const Workload& w) {
    const std::string path = at + "." + field;
    const std::string why = field == "phase" ? why_of(entry) : std::string();
    if (field == "gpus") {
      std::int64_t held = 0;
      for (const auto& g : w.gangs) {
        for (const auto& p : g->assignment.pods)
          held += world_.milli_gpu(g->spec->roles[static_cast<std::size_t>(p.role)], p.node);
      }
      if (milli(wanted) != held) differ(path, shown(wanted), crds::to_string(crds::MilliGpu{held}));
    } else if (field == "nodes") {
      std::set<std::string> is;
      for (const Json& p : entry.at("pods")) is.insert(p.at("node").get<std::string>());
      std::set<std::string> expected;
      for (const Json& n : wanted) expected.insert(n.get<std::string>());
      if (is != expected) differ(path, Json(expected).dump(), Json(is).dump());
    } else if (field == "pods") {
      compare_set(path, wanted, entry.at("pods"));
    } else if (field == "blocking") {
      compare_set(path, as_entries(wanted), entry.at(field));
    } else if (field == "message") {
      if (shown(entry.at(field)).find(shown(wanted)) == std::string::npos)
        differ(path, "a text with \"" + shown(wanted) + "\"", "\"" + shown(entry.at(field)) + "\"");
    } else if (field == "replicas" || field == "array") {
      if (!entry.contains(field)) return differ(path, wanted.dump(), "no array");
      for (const auto& [role, number] : wanted.items()) {
        const Json* is = find(entry.at(field), role);
        if (is == nullptr || *is != number)
          differ(path + "." + role, number.dump(), is == nullptr ? "none of this name" : is->dump());
      }
    } else if (is_duration(field) ? !same_duration(wanted, entry.at(field)) : entry.at(field) != wanted) {
      differ(path, shown(wanted), shown(entry.at(field)), why);
    }
  }

  static std::string why_of(const Json& entry) {
    const std::string reason = text(find(entry, "reason"));
    const std::string message = text(find(entry, "message"));
    return reason + (message.empty() ? "" : ": " + message);
  }

  static bool is_duration(const std::string& field) {
    return field == "estimatedStart" || field == "submitted" || field == "firstStarted" ||
           field == "finished";
  }
  static bool same_duration(const Json& wanted, const Json& is) {
    const auto a = crds::parse_duration(text(&wanted)), b = crds::parse_duration(text(&is));
    return a && b ? *a == *b : text(&wanted) == text(&is);
  }

  // Amounts as text, whether they are stated so or not.
  static Json as_entries(Json blocking) {
    for (Json& one : blocking) {
      for (const char* amount : {"need", "have"}) {
        if (one.contains(amount)) one[amount] = quantity_of(one[amount]);
      }
    }
    return blocking;
  }

  // As a set; what an entry leaves out may be anything.
  void compare_set(const std::string& path, const Json& wanted, const Json& is) {
    const auto agrees = [](const Json& pattern, const Json& pod) {
      return std::ranges::all_of(pattern.items(),
                                 [&](const auto& f) { return pod.at(f.key()) == f.value(); });
    };
    std::vector<bool> taken(is.size());
    bool all = wanted.size() == is.size();
    for (const Json& pattern : wanted) {
      std::size_t i = 0;
      while (i < is.size() && (taken[i] || !agrees(pattern, is[i]))) ++i;
      if (i == is.size()) {
        all = false;
      } else {
        taken[i] = true;
      }
    }
    if (!all) differ(path, wanted.dump(), is.dump());
  }

  void queue(const std::string& name, const Json& fields) {
    const std::string at = "queues." + name;
    const auto q = world_.queues.find(name);
    const auto p = world_.projects.find(name);
    if (q == world_.queues.end() && p == world_.projects.end())
      return differ(at, "a Queue or Project of this name", "none");
    const Entry entry =
        q != world_.queues.end() ? queue_entry(world_, *q->second) : project_entry(world_, *p->second);
    for (const auto& [field, amounts] : fields.items()) {
      compare_amounts(at + "." + field, amounts, entry.at(field));
    }
  }

  void compare_amounts(const std::string& at, const Json& amounts, const Entry& have) {
    for (const auto& [resource, wanted] : amounts.items()) {
      const std::string path = at + "." + resource;
      if (wanted.is_object()) {
        compare_amounts(path, wanted, have.value(resource, Entry::object()));
        continue;
      }
      const Json is = have.contains(resource) ? Json(have.at(resource).get<std::string>()) : Json("0");
      if (milli(wanted) != milli(is)) differ(path, shown(wanted), shown(is));
    }
  }

  const World& world_;
  const Expectation& x_;
  std::vector<std::string> lines_;
};

}  // namespace

bool matches_glob(std::string_view pattern, std::string_view text) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  text.remove_prefix(star);
  pattern.remove_prefix(star + 1);
  if (pattern.empty()) return true;
  for (std::size_t skip = 0; skip <= text.size(); ++skip) {
    if (matches_glob(pattern, text.substr(skip))) return true;
  }
  return false;
}

std::vector<std::string> differences(const World& world, const Expectation& expectation) {
  return Differences(world, expectation).run();
}

}  // namespace muster::simulate
