#!/usr/bin/env bash
# Gets PyTorch for `make test-pytorch` and prints the folder that is to be on PYTHONPATH: ${MUSTER_CACHE:-~/.cache/muster}/pytorch-…
#
# It is for Debian's Python, which the test's containers have. The package for Linux brings CUDA's libraries, whether
# there is a GPU or not. It is some 4 GB to fetch and 7 GB on disk. The test uses the CPU and gloo.
set -euo pipefail
torch=2.8.0
cache=${MUSTER_CACHE:-$HOME/.cache/muster}
folder=$cache/pytorch-$torch
if [[ ! -d $folder ]]; then
  echo "pytorch: fetching torch $torch (gigabytes, once)" >&2
  python=/usr/bin/python3
  rm -rf "$folder.new"
  "$python" -m pip install --quiet --only-binary=:all: --target "$folder.new" "torch==$torch" numpy >&2
  # Containers see it read-only. So every process would compile again what is not compiled now.
  "$python" -m compileall -q -j 0 "$folder.new" >&2 || true
  mv "$folder.new" "$folder"
fi
echo "$folder"
