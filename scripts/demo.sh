#!/usr/bin/env bash
# Runs the demo: a real control plane with 8 simulated nodes of 8 GPUs, Muster, and manifests/samples/. It shows them
# through kubectl until every job has ended. `make demo` builds what this needs first.
#
#   demo.sh         runs; with KEEP=1 the cluster stays up at the end
#   demo.sh down    ends a cluster that stayed up
#
# Everything is in build/demo: the logs of Muster and of the cluster, and kubeconfigs. The demo ends after TIMEOUT
# seconds (900).
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin=${MUSTER_BIN:-build/release/bin}
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
    if [[ $(readlink "/proc/$pid/exe" 2>/dev/null) == "$(realpath "$bin/muster" 2>/dev/null)"* ]]; then
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
  if python3 -c "
import urllib.request
urllib.request.build_opener(urllib.request.ProxyHandler({})).open('http://127.0.0.1:$health/readyz', timeout=2)" 2>/dev/null; then
    break
  fi
  ((i < 150)) || { tail -n 20 "$dir/muster.log"; echo "demo: Muster is not ready after 30 s" >&2; exit 1; }
  sleep 0.2
done
echo "muster controller runs (pid $muster, metrics http://127.0.0.1:$metrics/metrics, log $dir/muster.log)"

say "the samples: departments and projects, whose namespaces Muster makes; then their jobs"
kubectl apply --server-side -k manifests/samples >"$dir/apply-samples.log"
kubectl wait --for=condition=NamespaceReady project --all --timeout=30s
kubectl apply --server-side -k manifests/samples/jobs >>"$dir/apply-samples.log"
sed 's/ serverside-applied$//' "$dir/apply-samples.log" | cut -d/ -f1 | sort | uniq -c
kubectl get queues,projects

# Prints numbers, a line for each job that changed, and now and then the tables themselves.
jobs_json() { kubectl get trainingjobs -A -o json; }
tick() {
  local report
  report=$(jobs_json | scripts/demo_report.py tick "$dir/seen.json")
  read -r ended jobs <<<"${report%%$'\n'*}"
  printf '\n-- %3d s  %s\n' $((SECONDS - start)) "${report#*$'\n'}"
}

# Happens once: a worker of a running gang ends with exit code 1, as a program that fails does. The gang starts again.
broken_job=vit-large
break_a_program() {
  local phase
  phase=$(kubectl -n vision get trainingjob "$broken_job" -o jsonpath='{.status.phase}' 2>/dev/null) || return 0
  [[ $phase == Running ]] || return 0
  printf '\n-- %3d s  one worker of vision/%s is made to fail\n' $((SECONDS - start)) "$broken_job"
  kubectl -n vision annotate pod -l "muster.dev/job=$broken_job,muster.dev/index=1" test.muster.dev/exit-now=1 >/dev/null || return 0
  broken_job=
}

# Begins when all other jobs have ended. A job borrows nearly all H100s, and a service takes back what is its own. The service is
# scaled as a person or a HorizontalPodAutoscaler would do it. When it is scaled up, the borrower gives one pod. When it is scaled
# up further, less is left than the borrower's minimum: the borrower saves and waits. When it is scaled down, the borrower resumes.
act=0
borrower() { kubectl -n vision get trainingjob video -o "jsonpath={.status.phase} {.status.pods}"; }
scale() {
  printf '\n$ kubectl -n search scale inferenceservice ranker-api --replicas=%d\n' "$1"
  kubectl -n search scale inferenceservice ranker-api --replicas="$1"
  act=$((act + 1))
}
play() {
  case $act in
    0)
      ((jobs > 0 && ended == jobs)) || return 0
      printf '\n$ kubectl apply -f manifests/samples/borrower.yaml\n'
      kubectl apply --server-side -f manifests/samples/borrower.yaml
      act=1
      ;;
    1) [[ $(borrower) != "Running 7/"* ]] || scale 4 ;;
    2)
      [[ $(borrower) == "Running 6/"* ]] || return 0
      # A real program would say this itself once it has saved.
      kubectl -n vision annotate pod -l muster.dev/job=video 'muster.dev/checkpoint={"checkpoint":{"step":1000}}' >/dev/null
      scale 6
      ;;
    3) [[ $(borrower) != Queued* ]] || scale 1 ;;
  esac
}

start=$SECONDS
for ((n = 0; ; ++n)); do
  muster_lives
  tick
  if ((n % 5 == 1)); then
    printf '\n$ kubectl get queues,projects,nodepools\n'
    kubectl get queues,projects,nodepools
    printf '\n$ kubectl get inferenceservices,trainingjobs -A\n'
    kubectl get inferenceservices -A
    kubectl get trainingjobs -A
  fi
  if ((act > 0 && ended == jobs)); then break; fi
  if ((SECONDS - start > timeout)); then
    kubectl get trainingjobs -A
    tail -n 20 "$dir/muster.log"
    echo "demo: $((jobs - ended)) of $jobs jobs have not ended after $timeout s" >&2
    exit 1
  fi
  if [[ -n $broken_job ]]; then break_a_program; fi
  play
  sleep 2
done

printf '\n$ kubectl get inferenceservices -A\n'
kubectl get inferenceservices -A
printf '\n$ kubectl -n vision get events   # of the borrower\n'
kubectl -n vision get events --field-selector involvedObject.name=video --sort-by=.lastTimestamp \
  -o custom-columns='REASON:.reason,MESSAGE:.message'
say "all $jobs jobs have ended after $((SECONDS - start)) s"
jobs_json | scripts/demo_report.py summary "$dir/seen.json"
finished=yes
