#!/usr/bin/env bash
# Gets a notebook server for the tests on real nodes and prints the folder that is to be on PYTHONPATH:
# ${MUSTER_CACHE:-~/.cache/muster}/jupyter-…  With --where it only prints it.
#
# It is for Debian's Python, which the tests' containers have: Jupyter Server with one kernel, some 130 MB.
set -euo pipefail
server=2.21.1
kernel=7.4.0
cache=${MUSTER_CACHE:-$HOME/.cache/muster}
folder=$cache/jupyter-$server-$kernel
if [[ ${1:-} != --where && ! -d $folder ]]; then
  echo "jupyter: fetching jupyter-server $server (once)" >&2
  python=/usr/bin/python3
  rm -rf "$folder.new"
  "$python" -m pip install --quiet --only-binary=:all: --target "$folder.new" "jupyter-server==$server" "ipykernel==$kernel" >&2
  # Containers see it read-only. So every process would compile again what is not compiled now.
  "$python" -m compileall -q -j 0 "$folder.new" >&2 || true
  mv "$folder.new" "$folder"
fi
echo "$folder"
