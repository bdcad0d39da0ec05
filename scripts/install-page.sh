#!/usr/bin/env bash
# Gets what the tests of the page (`kubectl muster ui`) need beside everything else: Chromium and Node.js from Debian,
# playwright-core and axe-core from npm. Prints the folder of the latter: ${MUSTER_CACHE:-~/.cache/muster}/page-…
#
# `make test` does without: then the page is tested as far as that goes without a browser, and the test says so.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cache=${MUSTER_CACHE:-$HOME/.cache/muster}
folder=$cache/page-1  # another number for other versions; ui_live_test.cc has it too
scripts/install-deps.sh --page >&2
if [[ ! -d $folder ]]; then
  rm -rf "$folder.new"
  mkdir -p "$folder.new"
  # Neither runs anything when it is installed.
  npm install --prefix "$folder.new" --silent --no-audit --no-fund --ignore-scripts playwright-core@1.65.1 axe-core@4.14.1 >&2
  mv "$folder.new" "$folder"
fi
echo "$folder"
