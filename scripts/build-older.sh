#!/usr/bin/env bash
# Builds the operator of an earlier commit from this repository's history, and prints the folder that has it:
#   FOLDER/source   the files of that commit, its manifests and CRDs among them
#   FOLDER/muster   its operator
#
#   scripts/build-older.sh COMMIT          builds it, unless it is there
#   scripts/build-older.sh COMMIT --path   prints the folder without building; exits with 1 if it is not there
#
# It is compiled with little optimization and without debug information, because only its behaviour is tested.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
fail() { echo "$0: $*" >&2; exit 1; }
[[ $# -ge 1 ]] || fail "name a commit"
commit=$(git -C "$root" rev-parse --verify --quiet "$1^{commit}") ||
  fail "the history has no commit $1 (a shallow clone? git fetch --unshallow)"
folder=$root/build/older/${commit:0:12}

if [[ -x $folder/muster ]]; then
  echo "$folder"
  exit 0
fi
[[ ${2:-} != --path ]] || fail "no operator of $1 at $folder: run scripts/build-older.sh $1"

start=$SECONDS
echo "building the operator of $1 (minutes, once)" >&2
rm -rf "$folder/source"
mkdir -p "$folder/source"
git -C "$root" archive "$commit" | tar -x -C "$folder/source"
launcher=()
if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
cmake --preset release -S "$folder/source" -B "$folder/build" -DMUSTER_BENCHMARKS=OFF "${launcher[@]}" \
  "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG" >"$folder/configure.log" || { cat "$folder/configure.log" >&2; exit 1; }
ninja --quiet -C "$folder/build" muster >&2
mv "$folder/build/bin/muster" "$folder/muster"
rm -rf "$folder/build"
echo "built in $((SECONDS - start)) s" >&2
echo "$folder"
