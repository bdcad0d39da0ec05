#!/bin/sh
# What it costs that everybody can see: the page and `kubectl muster why` at 1,000 nodes, 5,000 jobs and 200 projects, and
# what counting usage and keeping disturbances cost the controller. It prints the figures that docs/page.md ("How large") and
# docs/benchmarks.md ("What the ledger costs") report, and the load of the machine before and after each part.
#
#   scripts/measure-seen.sh [BUILD]       BUILD: build/release
#
# NODES, PODS and GANG are the size of the second part (1000, 5000, 1: as many jobs as pods); it is run twice with and twice
# without, alternately. Where other programs run as well, believe the ratio of processor times and not the seconds.
set -eu
build=${1:-build/release}
load() { printf '\n== %s; load average %s\n' "$1" "$(cut -d' ' -f1-3 /proc/loadavg)"; }

load "the page and kubectl muster why"
MUSTER_FULL_SIZE=1 "$build/bin/muster_ui_test" --gtest_filter='UiAtScale*'

for round in 1 2; do
  for how in with without; do
    load "round $round, $how counting usage"
    # shellcheck disable=SC2046
    "$build/bin/bench_e2e" --nodes "${NODES:-1000}" --pods "${PODS:-5000}" --gang "${GANG:-1}" \
      $([ "$how" = without ] && echo --muster-arg=--no-ledger) |
      grep -E 'muster: (API writes per pod|CPU of muster|peak)|status APPLY|configmaps|load average'
  done
done
load "the end"
