#!/usr/bin/env python3
"""What the demo says about its jobs. Reads `kubectl get trainingjobs -A -o json` from standard input.

demo_report.py tick STATE      prints "ENDED ALL", then one line of numbers and a line for each job that changed since
                               the last tick; keeps in the file STATE what it has seen. Replicas of services hold GPUs and are not
                               among the jobs
demo_report.py summary STATE   prints how each job went, and what the whole came to
"""
import collections
import datetime
import json
import pathlib
import sys

GPUS = 64


def seconds(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() if text else None


def condition(status, kind):
    return next((c for c in status.get("conditions", []) if c["type"] == kind), {})


def is_true(status, kind):
    return condition(status, kind).get("status") == "True"


def gpus(text):
    return int(text[:-1]) / 1000 if str(text).endswith("m") else int(text)


class Job:
    def __init__(self, item):
        meta, self.spec, status = item["metadata"], item["spec"], item.get("status", {})
        self.name = meta["namespace"] + "/" + meta["name"]
        self.phase = status.get("phase", "New")
        self.queue = status.get("queue", {})
        self.attempt = status.get("attempt", 0)
        self.allocated = gpus(status.get("allocated", {}).get("gpu", 0))
        self.ended = is_true(status, "Complete") or is_true(status, "Failed")
        self.failure = condition(status, "Failed").get("message", "") if is_true(status, "Failed") else ""
        self.fault = condition(status, "PodsReady").get("message", "") if self.phase == "Starting" else ""
        self.created = seconds(meta["creationTimestamp"])
        self.started = seconds(status.get("startedAt"))
        self.finished = seconds(status.get("finishedAt"))
        # Of an elastic gang, the minimum counts.
        pods = [(r.get("minReplicas", r.get("replicas", 1)), r.get("gpus", {}).get("count", 0)) for r in self.spec["roles"]]
        self.wanted_gpus = sum(count * gpus for count, gpus in pods)
        self.wanted_pods = sum(count for count, _ in pods)
        self.pods = status.get("pods", "") if any("minReplicas" in r for r in self.spec["roles"]) else ""

    def lacking(self):
        for b in self.queue.get("blocking", []):
            by = ", ".join(b.get("by", []))
            yield "needs %s %s, has %s%s" % (b.get("need", "?"), b.get("resource", ""), b.get("have", "?"),
                                             "; " + by if by else "")

    def story(self):
        """What a person would say about the state it is in."""
        if self.phase == "Queued" and self.queue.get("reason"):
            return "%s: %s" % (self.queue["reason"], next(self.lacking(), self.queue.get("message", "")))
        if self.phase == "Starting" and self.attempt > 1:
            return "attempt %d%s" % (self.attempt, ": " + self.fault if self.fault else "")
        if self.phase == "Failed":
            return self.failure
        if self.phase not in ("Starting", "Running"):
            return ""
        if self.pods:
            return "elastic, %s pods, %d GPUs" % (self.pods, self.allocated)
        return "%d pods, %d GPUs" % (self.wanted_pods, self.wanted_gpus)


def is_replica(item):
    return any(o["kind"] == "InferenceService" for o in item["metadata"].get("ownerReferences", []))


def tick(jobs, replicas, seen):
    print(sum(j.ended for j in jobs), len(jobs))
    phases = collections.Counter(j.phase for j in jobs)
    held = sum(j.allocated for j in jobs + replicas)
    bar = "#" * round(held / 2) + "." * (GPUS // 2 - round(held / 2))
    print("GPUs [%s] %d of %d   %s" % (bar, held, GPUS, "  ".join("%s %d" % p for p in sorted(phases.items()))))
    for j in jobs:
        known = seen.setdefault(j.name, {"state": "", "reasons": [], "started": None})
        reason = j.queue.get("reason", "") if j.phase == "Queued" else ""
        if reason and reason not in known["reasons"]:
            known["reasons"].append(reason)
        known["started"] = known["started"] or j.started
        state = "%s %s %d %s" % (j.phase, reason, j.attempt, j.pods and j.allocated)
        if state != known["state"]:
            print("   %-26s %-9s  %s" % (j.name, j.phase, j.story()[:110]))
        known["state"] = state


def summary(jobs, _, seen):
    print("%-26s %-9s %4s %4s %8s %7s %5s  %s" % ("JOB", "RESULT", "PODS", "GPUS", "ATTEMPTS", "WAITED", "RAN", "WAITED FOR"))
    used = 0
    for j in jobs:
        known = seen.get(j.name, {})
        first = known.get("started") or j.started
        # Times are whole seconds. What ran for less than one shows as 0.
        waited = "%ds" % (first - j.created) if first else "-"
        ran = "%ds" % (j.finished - first) if first and j.finished else "-"
        used += j.wanted_gpus * (j.finished - first) if first and j.finished else 0
        print("%-26s %-9s %4d %4d %8d %7s %5s  %s" % (j.name, j.phase, j.wanted_pods, j.wanted_gpus, j.attempt, waited, ran,
                                                      ", ".join(known.get("reasons", []))))
    ends = [j.finished for j in jobs if j.finished]
    span = max(ends) - min(j.created for j in jobs) if ends else 0
    results = collections.Counter(j.phase for j in jobs)
    print("\n%s, in %d s; %d GPU-seconds, %d%% of the %d GPUs' time" % (
        ", ".join("%d %s" % (n, p) for p, n in sorted(results.items(), reverse=True)), span, used,
        100 * used / (GPUS * span) if span else 0, GPUS))


def main():
    mode, path = sys.argv[1], pathlib.Path(sys.argv[2])
    seen = json.loads(path.read_text()) if path.exists() else {}
    items = json.load(sys.stdin)["items"]
    jobs = [Job(item) for item in items if not is_replica(item)]
    replicas = [Job(item) for item in items if is_replica(item)]
    {"tick": tick, "summary": summary}[mode](jobs, replicas, seen)
    if mode == "tick":
        path.write_text(json.dumps(seen))


main()
