#!/usr/bin/env python3
"""Makes what can be made in manifests/monitoring: Grafana's dashboards from the tables below, and the Prometheus
operator's PrometheusRule from rules.yaml.

    make-monitoring.py          writes the files
    make-monitoring.py --check  says which files are not as it would write them, and ends with 1 if there are any
"""

import json
import pathlib
import sys
from typing import NamedTuple

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "manifests" / "monitoring"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
RATE = "[$__rate_interval]"
IN_PROJECT = '{project=~"$project"}'
IN_POOL = '{pool=~"$pool"}'


class Panel(NamedTuple):
    """One panel of a dashboard."""

    title: str
    queries: list  # with their legends
    kind: str = "timeseries"
    unit: str = "short"
    width: int = 12  # of 24
    text: str = ""  # what it means that its title does not say
    stack: bool = False


def quantiles(metric):
    def quantile(q):
        return f"histogram_quantile({q}, sum by (le) (rate({metric}_bucket{IN_PROJECT}[1h])))"

    return [(quantile(0.5), "half of them below"), (quantile(0.95), "95 % below")]


def rate(metric, by=""):
    return f"sum by ({by}) (rate({metric}{RATE}))" if by else f"sum(rate({metric}{RATE}))"


def p99(metric, by):
    return f"histogram_quantile(0.99, sum by ({by}, le) (rate({metric}_bucket{RATE})))"


CLUSTER = [
    Panel(
        "GPUs in use",
        [(f"sum(muster_pool_capacity_gpus{IN_POOL}) - sum(muster_pool_free_gpus{IN_POOL})", "in use")],
        "stat",
        width=4,
    ),
    Panel(
        "Capacity",
        [(f"sum(muster_pool_capacity_gpus{IN_POOL})", "GPUs")],
        "stat",
        width=4,
        text="Healthy GPUs of usable nodes.",
    ),
    Panel(
        "In use, of capacity",
        [("max(pool:muster_gpu_use:ratio" + IN_POOL + ")", "use")],
        "stat",
        "percentunit",
        4,
    ),
    Panel("Jobs that wait", [("sum(muster_project_waiting_jobs) or vector(0)", "jobs")], "stat", width=4),
    Panel("Failing GPUs", [(f"sum(muster_pool_failing_gpus{IN_POOL})", "GPUs")], "stat", width=4),
    Panel(
        "Nodes not usable",
        [(f"count(muster_node_usable{IN_POOL} == 0) or vector(0)", "nodes")],
        "stat",
        width=4,
    ),
    Panel(
        "GPUs by pool",
        [
            (f"muster_pool_capacity_gpus{IN_POOL}", "{{pool}} capacity"),
            (f"muster_pool_free_gpus{IN_POOL}", "{{pool}} free"),
            (f"muster_pool_largest_gang_gpus{IN_POOL}", "{{pool}} largest gang"),
        ],
        text="Where the largest gang is far below what is free, the pool is fragmented.",
    ),
    Panel(
        "Allocated GPUs by Project",
        [("sum by (project) (muster_project_allocated_gpus" + IN_POOL + ")", "{{project}}")],
        stack=True,
    ),
    Panel(
        "Allocated GPUs by top Queue",
        [('sum by (queue) (muster_queue_allocated_gpus{parent="",pool=~"$pool"})', "{{queue}}")],
        stack=True,
    ),
    Panel(
        "Waiting jobs by reason",
        [("sum by (reason) (muster_project_waiting_jobs)", "{{reason}}")],
        stack=True,
    ),
    Panel(
        "Projects",
        [
            ("sum by (project) (muster_project_allocated_gpus" + IN_POOL + ")", "allocated"),
            ("sum by (project) (muster_project_quota_gpus" + IN_POOL + ")", "quota"),
            ("sum by (project) (muster_project_fair_share_gpus" + IN_POOL + ")", "fair share"),
            ("sum by (project) (muster_project_borrowed_gpus" + IN_POOL + ")", "borrowed"),
            ("sum by (project) (muster_project_pending_gpus" + IN_POOL + ")", "pending"),
            ("max by (project) (muster_project_oldest_wait_seconds)", "oldest wait (s)"),
        ],
        "table",
        width=24,
    ),
    Panel(
        "Fullest nodes",
        [
            (
                f"topk(20, muster_node_allocated_gpus{IN_POOL} / (muster_node_capacity_gpus{IN_POOL} > 0))",
                "{{node}}",
            )
        ],
        "bargauge",
        "percentunit",
    ),
    Panel(
        "GPUs that make good for disturbances",
        [
            (
                "sum by (cause, owed) (project_cause_owed:muster_disruption_gpu_seconds:rate1h)",
                "{{cause}} owed={{owed}}",
            )
        ],
        text="GPU-seconds lost in each second: so many GPUs do nothing else.",
        stack=True,
    ),
    Panel(
        "Wait until the first admission",
        [
            ("max(project:muster_job_admission_wait_seconds:p50_1h)", "half of them below"),
            ("max(project:muster_job_admission_wait_seconds:p95_1h)", "95 % below"),
        ],
        unit="s",
        text="Of the Project where it is longest, over the last hour.",
    ),
    Panel(
        "Oldest wait by Project",
        [("topk(10, muster_project_oldest_wait_seconds > 0)", "{{project}}")],
        unit="s",
    ),
]

PROJECT = [
    Panel(
        "Share",
        [
            (f"sum by (pool) (muster_project_{what}_gpus{IN_PROJECT})", "{{pool}} " + what.replace("_", " "))
            for what in ("allocated", "quota", "fair_share", "borrowed", "pending")
        ],
    ),
    Panel(
        "Use of the quota",
        [("project:muster_quota_use:ratio" + IN_PROJECT, "{{project}} in {{pool}}")],
        unit="percentunit",
    ),
    Panel(
        "Jobs by phase", [(f"sum by (phase) (muster_project_jobs{IN_PROJECT}) > 0", "{{phase}}")], stack=True
    ),
    Panel(
        "Waiting jobs by reason",
        [(f"sum by (reason) (muster_project_waiting_jobs{IN_PROJECT})", "{{reason}}")],
        stack=True,
    ),
    Panel("Oldest wait", [(f"max(muster_project_oldest_wait_seconds{IN_PROJECT})", "oldest")], unit="s"),
    Panel("Wait until the first admission", quantiles("muster_job_admission_wait_seconds"), unit="s"),
    Panel("Run time of finished jobs", quantiles("muster_job_run_seconds"), unit="s"),
    Panel(
        "Error of estimated starts",
        quantiles("muster_job_start_estimate_error_seconds"),
        unit="s",
        text="What was last said, minus the real start. Below zero: it started later than said.",
    ),
    Panel(
        "Disturbances",
        [
            (
                f"sum by (action, cause) (increase(muster_job_disruptions_total{IN_PROJECT}[1h]))",
                "{{action}} {{cause}}",
            )
        ],
        text="Of the last hour.",
        stack=True,
    ),
    Panel(
        "GPUs that make good for disturbances",
        [
            (
                "sum by (cause, owed) (project_cause_owed:muster_disruption_gpu_seconds:rate1h"
                + IN_PROJECT
                + ")",
                "{{cause}} owed={{owed}}",
            )
        ],
        stack=True,
    ),
    Panel(
        "What GPUs are used for",
        [(f"sum by (state) (rate(muster_gpu_seconds_total{IN_PROJECT}{RATE}))", "{{state}}")],
        stack=True,
    ),
    Panel(
        "GPUs whose work is thrown away",
        [(f"sum by (cause) (rate(muster_lost_work_gpu_seconds_total{IN_PROJECT}[1h]))", "{{cause}}")],
    ),
    Panel(
        "Cost of an hour",
        [(f"3600 * sum by (project) (rate(muster_gpu_cost_total{IN_PROJECT}{RATE}))", "{{project}}")],
        stack=True,
        text="In the currency of the NodePools' pricePerGPUHour; 0 where none is stated.",
    ),
    Panel(
        "Power of GPUs",
        [(f"sum by (project) (rate(muster_gpu_energy_joules_total{IN_PROJECT}{RATE}))", "{{project}}")],
        unit="watt",
        stack=True,
        text="As gpuMetrics reads it, else by the NodePools' wattsPerGPU; 0 where neither is there.",
    ),
    Panel(
        "Replicas of services",
        [
            (f"sum(muster_project_service_desired_replicas{IN_PROJECT})", "desired"),
            (f"sum(muster_project_service_ready_replicas{IN_PROJECT})", "ready"),
        ],
    ),
    Panel(
        "Services",
        [
            (f"sum(muster_project_service_allocated_gpus{IN_PROJECT})", "GPUs that they hold"),
            (f"sum by (reason) (muster_project_services_held{IN_PROJECT})", "held: {{reason}}"),
        ],
        text="A size is held while the load is not known.",
    ),
]

OPERATOR = [
    Panel(
        "Leaders",
        [('sum(leader_election_master_status{name="muster-controller"})', "leaders")],
        "stat",
        width=6,
    ),
    Panel("Work that waits", [("sum(workqueue_depth)", "keys")], "stat", width=6),
    Panel("Events not sent", [("sum(muster_events_dropped_total)", "events")], "stat", width=6),
    Panel("Objects that cannot be read", [("sum(muster_decode_errors_total)", "objects")], "stat", width=6),
    Panel(
        "Reconciliations",
        [(rate("controller_runtime_reconcile_total", "controller, result"), "{{controller}} {{result}}")],
        unit="ops",
    ),
    Panel(
        "Time of a reconciliation",
        [(p99("controller_runtime_reconcile_time_seconds", "controller"), "{{controller}} 99 % below")],
        unit="s",
    ),
    Panel(
        "Errors and bugs",
        [
            (rate("controller_runtime_reconcile_errors_total", "controller"), "{{controller}} errors"),
            (rate("controller_runtime_reconcile_panics_total", "controller"), "{{controller}} exceptions"),
        ],
        unit="ops",
    ),
    Panel(
        "Work queues",
        [
            ("sum by (name) (workqueue_depth)", "{{name}} waiting"),
            (rate("workqueue_retries_total", "name"), "{{name}} retries a second"),
        ],
    ),
    Panel(
        "Time of a plan",
        [
            (
                f"histogram_quantile({q}, sum by (le) (rate(muster_plan_duration_seconds_bucket{RATE})))",
                f"{q}",
            )
            for q in (0.5, 0.99)
        ],
        unit="s",
    ),
    Panel(
        "Plans",
        [
            (rate("muster_plan_duration_seconds_count"), "made"),
            (rate("muster_plans_cut_off_total"), "cut off"),
        ],
        unit="ops",
    ),
    Panel(
        "Decisions",
        [
            (rate("muster_decisions_total", "type"), "{{type}}"),
            (rate("muster_pod_writes_total", "verb"), "pods: {{verb}}"),
        ],
        unit="ops",
    ),
    Panel(
        "Requests to the API server",
        [(rate("rest_client_requests_total", "method, code"), "{{method}} {{code}}")],
        unit="reqps",
    ),
    Panel(
        "Time of a request",
        [(p99("rest_client_request_duration_seconds", "method"), "{{method}} 99 % below")],
        unit="s",
    ),
    Panel(
        "Requests that fail",
        [("muster:api_requests_failed:ratio_rate5m", "429, 5xx or no answer")],
        unit="percentunit",
    ),
    Panel(
        "Watches",
        [
            (rate("muster_watch_events_total", "resource"), "{{resource}} events"),
            (rate("muster_watch_errors_total", "resource"), "{{resource}} errors"),
        ],
        unit="ops",
    ),
    Panel("Objects in the caches", [("max by (resource) (muster_cached_objects)", "{{resource}}")]),
    Panel(
        "Metrics endpoints asked",
        [(rate("muster_endpoint_reads_total", "of, result"), "{{of}} {{result}}")],
        unit="ops",
    ),
    Panel("CPU", [(f'rate(process_cpu_seconds_total{{job=~".*muster.*"}}{RATE})', "{{instance}}")]),
    Panel("Memory", [('process_resident_memory_bytes{job=~".*muster.*"}', "{{instance}}")], unit="bytes"),
]


def target(number, query, legend, kind):
    t = {"refId": chr(ord("A") + number), "datasource": SOURCE, "expr": query, "legendFormat": legend}
    if kind in ("stat", "bargauge", "table"):
        t["instant"] = True
    if kind == "table":
        t["format"] = "table"
    return t


def grafana_panel(number, p, x, y):
    custom = {
        "fillOpacity": 20 if p.stack else 0,
        "stacking": {"mode": "normal" if p.stack else "none"},
    }
    defaults = {"unit": p.unit}
    if p.kind == "timeseries":
        defaults["custom"] = custom
    made = {
        "id": number,
        "type": p.kind,
        "title": p.title,
        "description": p.text,
        "datasource": SOURCE,
        "gridPos": {"x": x, "y": y, "w": p.width, "h": 4 if p.kind == "stat" else 8},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {},
        "targets": [target(i, query, legend, p.kind) for i, (query, legend) in enumerate(p.queries)],
    }
    if p.kind == "table":  # one row for each Project, one column for each query
        names = {f"Value #{t['refId']}": t["legendFormat"] for t in made["targets"]}
        made["transformations"] = [
            {"id": "merge", "options": {}},
            {"id": "organize", "options": {"excludeByName": {"Time": True}, "renameByName": names}},
        ]
    return made


def variable(name, query):
    return {
        "name": name,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }


def dashboard(name, title, panels, variables):
    made, x, y = [], 0, 0
    for number, p in enumerate(panels, 1):
        if x + p.width > 24:
            x = 0
            y += made[-1]["gridPos"]["h"]
        made.append(grafana_panel(number, p, x, y))
        x += p.width
    source = {
        "name": "datasource",
        "type": "datasource",
        "label": "Data source",
        "query": "prometheus",
        "refresh": 1,
    }
    head = {
        "uid": name,
        "title": title,
        "tags": ["muster"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "timezone": "browser",
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [source, *variables]},
        "annotations": {"list": []},
    }
    # A line for each panel: a change of one is a change of one line.
    lines = [f"  {json.dumps(key)}: {json.dumps(value)},\n" for key, value in head.items()]
    return (
        "{\n"
        + "".join(lines)
        + '  "panels": [\n'
        + ",\n".join("    " + json.dumps(p) for p in made)
        + "\n  ]\n}\n"
    )


def prometheus_rule():
    head = """# Made of rules.yaml by scripts/make-monitoring.py.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: muster
  namespace: muster-system
  labels: {app.kubernetes.io/name: muster}
spec:
"""
    rules = (FOLDER / "rules.yaml").read_text().splitlines()
    return head + "".join(f"  {line}\n" for line in rules if not line.startswith("#"))


def files():
    pool = variable("pool", "label_values(muster_pool_capacity_gpus, pool)")
    project = variable("project", "label_values(muster_project_info, project)")
    return {
        "dashboards/muster-cluster.json": dashboard("muster-cluster", "Muster / Cluster", CLUSTER, [pool]),
        "dashboards/muster-project.json": dashboard("muster-project", "Muster / Project", PROJECT, [project]),
        "dashboards/muster-operator.json": dashboard("muster-operator", "Muster / Operator", OPERATOR, []),
        "prometheus-rule.yaml": prometheus_rule(),
    }


def main():
    stale = [
        name
        for name, text in files().items()
        if not (FOLDER / name).exists() or (FOLDER / name).read_text() != text
    ]
    if sys.argv[1:] == ["--check"]:
        for name in stale:
            print(f"manifests/monitoring/{name} is not what scripts/make-monitoring.py makes: run it")
        return 1 if stale else 0
    if sys.argv[1:]:
        print(__doc__, file=sys.stderr)
        return 2
    for name in stale:
        (FOLDER / name).write_text(files()[name])
    return 0


sys.exit(main())
