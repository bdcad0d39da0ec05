#!/usr/bin/env bash
# Runs a command with the CPU time that all others leave: `make test` compiles so while tests wait for a control plane.
# Nice alone is not enough, because Linux shares the CPU out by session first: it needs a session of its own, and the
# nice value of that (sched(7), "The autogroup feature"). SIGTERM ends the command and all that it has started.
set -euo pipefail
setsid bash -c 'echo 19 2>/dev/null >/proc/self/autogroup || true; exec nice -n 19 "$@"' spare-cpu "$@" &
session=$!
trap 'kill -- "-$session"' TERM
wait "$session"
