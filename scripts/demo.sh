#!/usr/bin/env bash
# The demo: a real control plane with 8 simulated nodes of 8 GPUs, Muster, and manifests/samples/, shown through
# kubectl until every job has ended. `make demo` builds what this needs first.
#
#   demo.sh         runs; with KEEP=1 the cluster stays up at the end
#   demo.sh down    ends a cluster that stayed up
#
# Everything is in build/demo: logs of Muster and of the cluster, kubeconfigs. TIMEOUT (seconds, 900) bounds it.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin=build/release/bin
dir=$PWD/build/demo
cluster=$dir/cluster
timeout=${TIMEOUT:-900}

say() { printf '\n== %s\n' "$*"; }
kubectl() { "$controlplane" kubectl --kubeconfig="$cluster/admin.kubeconfig" --cache-dir="$dir/kubectl-cache" "$@"; }

# Ends Muster, if the recorded pid is still the process that was started, and the cluster.
down() {
  if [[ -f $dir/muster.pid ]]; then
    local pid
    pid=$(<"$dir/muster.pid")
    if [[ $(readlink "/proc/$pid/exe" 2>/dev/null) == "$PWD/$bin/muster"* ]]; then
      kill -TERM "$pid" 2>/dev/null || true
      for _ in {1..100}; do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
      done
      kill -KILL "$pid" 2>/dev/null || true
    fi
    rm -f "$dir/muster.pid"
  fi
  if [[ -x $bin/testcluster ]]; then "$bin/testcluster" down "$cluster"; fi
}

if [[ ${1:-} == down ]]; then
  down
  exit 0
fi

export MUSTER_CONTROLPLANE
MUSTER_CONTROLPLANE=$(scripts/build-controlplane.sh)
controlplane=$MUSTER_CONTROLPLANE
down  # of an earlier demo that stayed up
rm -rf "$dir"
mkdir -p "$dir"

finished=
finish() {
  local status=$?
  trap - EXIT INT TERM
  if [[ -n ${KEEP:-} && -n $finished ]]; then
    say "the cluster stays up; make demo-down ends it"
    echo "export KUBECONFIG=$cluster/admin.kubeconfig"
    echo "alias kubectl='$controlplane kubectl'"
  else
    down
  fi
  exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

say "a control plane, 4 nodes of 8 A100 and 4 of 8 H100"
"$bin/testcluster" up --detach "$cluster" >/dev/null
"$bin/testcluster" add-nodes "$cluster" --prefix a100 --count 4 --model NVIDIA-A100-SXM4-80GB --gpu-memory 81920 \
  --cpu 128 --memory 1Ti --label muster.dev/pool=a100 --nodes-per-rack 2
"$bin/testcluster" add-nodes "$cluster" --prefix h100 --count 4 --model NVIDIA-H100-80GB-HBM3 --gpu-memory 81559 \
  --cpu 192 --memory 2Ti --label muster.dev/pool=h100 --nodes-per-rack 2
kubectl get nodes -L nvidia.com/gpu.product -o wide | cut -d' ' -f1-3 >/dev/null
kubectl get nodes -o custom-columns='NODE:.metadata.name,MODEL:.metadata.labels.nvidia\.com/gpu\.product,GPUS:.status.allocatable.nvidia\.com/gpu'

say "Muster, with the rights of manifests/base"
# The Deployment is left out: there is no image and no node that runs one. The binary runs here instead, as the
# same ServiceAccount.
cat >"$dir/kustomization.yaml" <<'YAML'
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [../../manifests/base]
patches:
- target: {group: apps, kind: Deployment, name: muster}
  patch: '{"$patch": "delete", "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "muster", "namespace": "muster-system"}}'
YAML
kubectl apply --server-side -k "$dir" >"$dir/apply-base.log"
kubectl wait --for=condition=Established crd --all --timeout=30s >/dev/null
kubeconfig=$("$bin/testcluster" token "$cluster" muster-system muster)

free_port() {
  local port=$1
  while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do ((port++)); done
  echo "$port"
}
health=$(free_port 18081)
metrics=$(free_port $((health + 1)))
setsid "$bin/muster" controller --kubeconfig "$kubeconfig" --leader-elect \
  --health-address "127.0.0.1:$health" --metrics-address "127.0.0.1:$metrics" >"$dir/muster.log" 2>&1 </dev/null &
muster=$!
disown
echo "$muster" >"$dir/muster.pid"
muster_lives() {
  kill -0 "$muster" 2>/dev/null && return
  tail -n 20 "$dir/muster.log"
  echo "demo: Muster ended; its log is $dir/muster.log" >&2
  exit 1
}
for ((i = 0; ; ++i)); do
  muster_lives
  # Answers 200 once all caches have synced.
  if printf 'GET /readyz HTTP/1.0\r\n\r\n' 2>/dev/null | python3 -c "
import sys, urllib.request
urllib.request.build_opener(urllib.request.ProxyHandler({})).open('http://127.0.0.1:$health/readyz', timeout=2)" 2>/dev/null; then break; fi
  ((i < 150)) || { tail -n 20 "$dir/muster.log"; echo "demo: Muster is not ready after 30 s" >&2; exit 1; }
  sleep 0.2
done
echo "muster controller runs (pid $muster, metrics http://127.0.0.1:$metrics/metrics, log $dir/muster.log)"

say "the samples: departments, projects, jobs"
kubectl apply --server-side -k manifests/samples >"$dir/apply-samples.log"
sed 's/ serverside-applied$//' "$dir/apply-samples.log" | cut -d/ -f1 | sort | uniq -c
kubectl get queues,projects

# One line per state: how many jobs are in it. Then how many have ended, and how many there are.
count() {
  kubectl get trainingjobs -A -o json | python3 -c '
import collections, json, sys
jobs = json.load(sys.stdin)["items"]
def true(job, kind):
    return any(c["type"] == kind and c["status"] == "True" for c in job.get("status", {}).get("conditions", []))
phases = collections.Counter(job.get("status", {}).get("phase") or "New" for job in jobs)
gpus = sum(int(job.get("status", {}).get("allocated", {}).get("gpu") or 0) for job in jobs)
ended = sum(true(job, "Complete") or true(job, "Failed") for job in jobs)
print("%d %d %s; %d of 64 GPUs" % (ended, len(jobs), ", ".join("%d %s" % (n, p) for p, n in sorted(phases.items())), gpus))'
}
start=$SECONDS
for ((tick = 0; ; ++tick)); do
  muster_lives
  read -r ended jobs line < <(count)
  printf '\n-- %3d s: %s\n' $((SECONDS - start)) "$line"
  if ((tick % 4 == 0)); then kubectl get tj -A; fi
  if ((jobs > 0 && ended == jobs)); then break; fi
  if ((SECONDS - start > timeout)); then
    kubectl get tj -A
    tail -n 20 "$dir/muster.log"
    echo "demo: $((jobs - ended)) of $jobs jobs have not ended after $timeout s" >&2
    exit 1
  fi
  sleep 3
done

say "all $jobs jobs have ended after $((SECONDS - start)) s: $line"
kubectl get tj -A
finished=yes
