#!/usr/bin/env python3
"""Makes the templates of manifests/helm/muster from manifests/base and the components beside it.

The YAML there stays the truth. EDITS says, for each file, what of it is a value of the chart; each edit must find
what it replaces. test/cluster/delivery/helm_test.cc compares what the chart renders with what kustomize renders.

  scripts/make-chart.py           writes the templates
  scripts/make-chart.py --check   says what is out of date, and exits with 1 if anything is
"""
import pathlib
import sys

MANIFESTS = pathlib.Path(__file__).resolve().parent.parent / "manifests"
TEMPLATES = MANIFESTS / "helm" / "muster" / "templates"

OPTION = "{{- if .Values.%s }}\n%s{{- end }}\n"


def part(path, first, last):
    """The lines of a file from the one that begins with `first` up to, without it, the one that begins with `last`."""
    text = (MANIFESTS / path).read_text()
    begin = text.index(first)
    return text[begin : text.index(last, begin) if last else len(text)]


def between(text, first, last):
    begin = text.index(first)
    return text[begin : text.index(last, begin)]


def deployment():
    mount, volume = tls_values()[-2:]
    spread = part("ha/deployment.yaml", "      topologySpreadConstraints:", None)
    return [
        ("  replicas: 1\n", "  replicas: {{ if .Values.ha }}2{{ else }}1{{ end }}\n"),
        (
            "      securityContext:\n        runAsNonRoot",
            "{{- if .Values.ha }}\n" + spread + "{{- end }}\n" + placed() + "      securityContext:\n        runAsNonRoot",
        ),
        ("nodeSelector: {kubernetes.io/os: linux}", "nodeSelector: {{- toYaml .Values.nodeSelector | nindent 8 }}"),
        ("priorityClassName: system-cluster-critical", "priorityClassName: {{ .Values.priorityClassName }}"),
        ("        image: muster\n", "        image: {{ .Values.image | quote }}\n"),
        ("=:8080\n", "=:{{ .Values.metricsPort }}\n"),
        ("=:8081\n", "=:{{ .Values.healthPort }}\n"),
        ("containerPort: 8080", "containerPort: {{ .Values.metricsPort }}"),
        ("containerPort: 8081", "containerPort: {{ .Values.healthPort }}"),
        (
            "        - --log-format=json\n",
            "        - --log-format=json\n" + OPTION % ("metricsTls", tls_arguments())
            + "{{- with .Values.extraArgs }}\n        {{- toYaml . | nindent 8 }}\n{{- end }}\n",
        ),
        (
            part("base/deployment.yaml", "        resources:\n", "        securityContext:\n          allow"),
            "        resources: {{- toYaml .Values.resources | nindent 10 }}\n",
        ),
        (
            "          capabilities: {drop: [ALL]}\n",
            "          capabilities: {drop: [ALL]}\n"
            + OPTION % ("metricsTls", f"        volumeMounts:\n        - {mount}\n      volumes:\n      - {volume}\n"),
        ),
    ]


def tls_values():
    """What manifests/metrics-tls adds to the Deployment, in its order."""
    text = (MANIFESTS / "metrics-tls/deployment-patch.yaml").read_text()
    return [line.split("value: ", 1)[1].strip("[]") for line in text.splitlines() if "value: " in line]


def tls_arguments():
    return "".join(f"        - {value}\n" for value in tls_values()[:-2])


def placed():
    """Where pods may stand, and how their images are pulled: the same for the page as for Muster."""
    return (
        "{{- with .Values.tolerations }}\n      tolerations: {{- toYaml . | nindent 6 }}\n{{- end }}\n"
        "{{- with .Values.imagePullSecrets }}\n      imagePullSecrets: {{- toYaml . | nindent 6 }}\n{{- end }}\n"
    )


def page():
    return [
        ("nodeSelector: {kubernetes.io/os: linux}\n", "nodeSelector: {{- toYaml .Values.nodeSelector | nindent 8 }}\n" + placed()),
        ("        image: muster\n", "        image: {{ .Values.image | quote }}\n"),
    ]


def service_monitor():
    plain = part("monitoring/service-monitor.yaml", "  - {port: metrics", None)
    # A YAML list's entry is indented by two spaces less than the value of the patch.
    patch = part("metrics-tls/service-monitor-patch.yaml", "    port:", None)
    return [(plain, "{{- if .Values.metricsTls }}\n  - " + patch.lstrip() + "{{- else }}\n" + plain + "{{- end }}\n")]


def rbac():
    text = (MANIFESTS / "base" / "rbac.yaml").read_text()
    workloads = between(text, "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata:\n  name: muster-workloads", "---\n")
    namespaces = between(text, "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata:\n  name: muster-namespaces", "---\n")
    role = between(text, "# A Project's namespace is made if it is absent", "---\n")
    return [
        (workloads + "---\n", OPTION % ("namespaces | empty", workloads + "---\n")),
        (namespaces + "---\n", OPTION % ("namespaces | empty", namespaces + "---\n")),
        (role + "---\n", OPTION % ("namespaces | empty", role + "---\n")),
    ]


def role_bindings():
    """One RoleBinding for each namespace that is named."""
    binding = part("restricted/namespace/role-binding.yaml", "apiVersion", None)
    binding = binding.replace("  name: muster-workloads\n  labels", "  name: muster-workloads\n  namespace: {{ . }}\n  labels")
    return "{{- range .Values.namespaces }}\n---\n" + binding.replace("muster-system", "{{ $.Release.Namespace }}") + "{{- end }}\n"


# file of manifests/ -> the value that turns it on ("": always), and what is replaced in it
EDITS = {
    "base/service-account.yaml": ("", []),
    "base/rbac.yaml": ("", rbac()),
    "base/rbac-users.yaml": ("", []),
    "base/rbac-projects.yaml": ("", []),
    "base/gpu-pods.yaml": ("", []),
    "base/own-writes.yaml": ("", []),
    "base/project-policies.yaml": ("", []),
    "base/flow-control.yaml": ("flowControl", []),
    "base/deployment.yaml": ("", deployment()),
    "base/service.yaml": (
        "",
        [
            ('"8080"', "{{ .Values.metricsPort | quote }}"),
            ("port: 8080", "port: {{ .Values.metricsPort }}"),
            (
                "    prometheus.io/path: /metrics\n",
                "    prometheus.io/path: /metrics\n" + OPTION % ("metricsTls", "    prometheus.io/scheme: https\n"),
            ),
        ],
    ),
    "base/network-policy.yaml": ("", []),
    "base/priority-classes.yaml": (
        "",
        [
            (
                part("base/priority-classes.yaml", "apiVersion", "# The class of Muster's own"),
                OPTION % ("priorityClasses", part("base/priority-classes.yaml", "apiVersion", "# The class of Muster's own")),
            )
        ],
    ),
    "ha/pod-disruption-budget.yaml": ("ha", []),
    "restricted/network-policy.yaml": ("restrictNetwork", []),
    "restricted/own-namespace.yaml": ("namespaces", []),
    "monitoring/service-monitor.yaml": ("monitoring", service_monitor()),
    "monitoring/prometheus-rule.yaml": ("monitoring", []),
    "users/user-label.yaml": ("userLabel", []),
    "metrics-tls/rbac.yaml": ("metricsTls", []),
    "ui/rbac.yaml": ("ui", []),
    "ui/deployment.yaml": ("ui", page()),
    "ui/service.yaml": ("ui", []),
    "ui/network-policy.yaml": ("ui", []),
    "activator/rbac.yaml": ("activator", []),
    "activator/deployment.yaml": ("activator", page()),
    "activator/pod-disruption-budget.yaml": ("activator", []),
    "activator/network-policy.yaml": ("activator", []),
}


def template(path):
    option, edits = EDITS[path]
    text = (MANIFESTS / path).read_text()
    if path == "monitoring/prometheus-rule.yaml":  # its alerts have templates of Prometheus, in the same brackets
        text = text.replace("{{", "{{ `{{` }}")
    for old, new in edits:
        if text.count(old) < 1:
            sys.exit(f"make-chart: {path} has no longer\n{old}")
        text = text.replace(old, new)
    text = text.replace("muster-system", "{{ .Release.Namespace }}")
    if path == "restricted/own-namespace.yaml":
        text += role_bindings()
    text = f"# Made of manifests/{path} by scripts/make-chart.py.\n" + text
    return OPTION % (option, text) if option else text


def name_of(path):
    folder, name = path.split("/")
    return name if folder == "base" else f"{folder}-{name}"


def main():
    wanted = {name_of(path): template(path) for path in EDITS}
    missing = {p.name for p in (MANIFESTS / "base").glob("*.yaml")} - {p.split("/")[1] for p in EDITS if p.startswith("base/")}
    missing -= {"kustomization.yaml", "namespaces-in.yaml", "namespace.yaml"}
    if missing:
        sys.exit(f"make-chart: EDITS has no line for manifests/base/{', '.join(sorted(missing))}")
    stale = [n for n, text in wanted.items() if not (TEMPLATES / n).exists() or (TEMPLATES / n).read_text() != text]
    if "--check" in sys.argv:
        if stale:
            sys.exit(f"make-chart: out of date: {', '.join(stale)}: run scripts/make-chart.py")
        return
    for name in stale:
        (TEMPLATES / name).write_text(wanted[name])


main()
