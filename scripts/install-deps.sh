#!/usr/bin/env bash
# Installs what is needed to build and test on Debian 12, from Debian packages. It is fast if nothing is missing.
#
#   --lint   also what `make lint` needs (clang-format and clang-tidy 19)
#   --image  also what `make image` needs (umoci and skopeo)
#   --node   also what tests on real nodes need (containerd, runc, CNI plugins; a notebook server, from PyPI:
#            install-jupyter.sh), and --image
#   --page   also what the tests of the page need (Chromium, Node.js and npm); see install-page.sh
#   --monitoring  also what tests of manifests/monitoring need (Prometheus). Where systemd runs, Debian's package also
#            starts a server on port 9090; the tests use one of their own
#
# Without root it uses sudo. The control plane of the tests also needs Go 1.26, which Debian 12 does not have.
# scripts/build-controlplane.sh gets it if there is none.
set -euo pipefail

packages=(
  clang-19 libclang-rt-19-dev libstdc++-12-dev cmake ninja-build make pkg-config ccache mold git
  libcurl4-openssl-dev libssl-dev zlib1g-dev nlohmann-json3-dev libsimdjson-dev libyaml-cpp-dev
  libboost1.81-dev libjemalloc-dev libfmt-dev libspdlog-dev libcli11-dev prometheus-cpp-dev
  libhowardhinnant-date-dev tzdata
  libgtest-dev libgmock-dev librapidcheck-dev libbenchmark-dev
  openssl ca-certificates python3 python3-venv python3-pip
)
with_jupyter=false
for argument in "$@"; do
  case $argument in
    --lint) packages+=(clang-format-19 clang-tidy-19) ;;
    --image) packages+=(umoci skopeo) ;;
    --node)
      with_jupyter=true
      packages+=(umoci skopeo containernetworking-plugins busybox-static iproute2)
      # Docker's own packages bring these two under other names, and exclude Debian's.
      for program in containerd runc; do
        command -v "$program" >/dev/null || packages+=("$program")
      done ;;
    --page)
      packages+=(chromium)
      # Node.js has packages of its own makers as well, with npm in them.
      for program in node:nodejs npm:npm; do
        command -v "${program%:*}" >/dev/null || packages+=("${program#*:}")
      done ;;
    --monitoring) packages+=(prometheus) ;;
    *) echo "usage: $0 [--lint] [--image] [--node] [--page] [--monitoring]" >&2; exit 2 ;;
  esac
done

installed=$(dpkg-query -W -f='${db:Status-Abbrev} ${Package}\n' "${packages[@]}" 2>/dev/null | sed -n 's/^ii  *//p' || true)
missing=()
for package in "${packages[@]}"; do
  grep -qxF "$package" <<<"$installed" || missing+=("$package")
done
# It is for the Python that the packages bring.
install_jupyter() {
  if ! $with_jupyter || "$(dirname "${BASH_SOURCE[0]}")/install-jupyter.sh" >/dev/null; then return; fi
  echo "PyPI gives no notebook server: tests of one are skipped" >&2
}
if ((${#missing[@]} == 0)); then install_jupyter; exit 0; fi

echo "installing ${#missing[@]} packages: ${missing[*]}"
as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null || { echo "$0: missing ${missing[*]}; run as root, or install sudo" >&2; exit 1; }
  as_root=(sudo)
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-remove --no-install-recommends "${missing[@]}" >"$log" 2>&1
}
# The package lists may be absent or too old. Then it tries once more with fresh ones.
if ! install; then
  if ! "${as_root[@]}" apt-get update >"$log" 2>&1 || ! install; then
    tail -n 20 "$log" >&2
    echo "$0: could not install ${missing[*]}" >&2
    exit 1
  fi
fi
install_jupyter
