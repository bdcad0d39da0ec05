#!/usr/bin/env bash
# Plays property tests of build/release with fresh seeds, for SECONDS (60 if not said) in all, and prints the seeds.
# What they find is a failure: exit status 1, the output, and the command that plays it again. SEED=N starts from N.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${1:-60}
first=${SEED:-$((RANDOM * 32768 + RANDOM))}
logs=build/explore
mkdir -p "$logs"

# explore NAME COMMAND…: plays COMMAND round after round for a third of the time. %SEED% in it becomes the seed of the
# round, %LAST% a little more; rounds are so far apart that no two play the same.
explore() {
  local name=$1 seed=$first rounds=0 end=$((SECONDS + seconds / 3)) status command
  shift
  while ((SECONDS < end)); do
    command=("${@//%SEED%/$seed}")
    command=("${command[@]//%LAST%/$((seed + 19))}")
    status=0
    timeout --kill-after=10 "$((end - SECONDS))" env "${command[@]}" >"$logs/$name.log" 2>&1 || status=$?
    if ((status != 0 && status != 124)); then  # 124: its time was up before it found anything
      tail -n 60 "$logs/$name.log"
      printf '%-10s seed %s: FOUND SOMETHING. Again: env %s\n' "$name" "$seed" "${command[*]@Q}"
      return 1
    fi
    seed=$((seed + 10000)) rounds=$((rounds + 1))
  done
  printf '%-10s seeds %s and every 10000th after it, %s rounds: nothing found\n' "$name" "$first" "$rounds"
}

failed=0
bin=build/release/bin
explore placement RC_PARAMS='seed=%SEED% max_success=20' $bin/placement_properties || failed=1
explore simulation MUSTER_SEEDS=%SEED%..%LAST% $bin/simulation_time_test '--gtest_filter=*RandomInputs' || failed=1
explore lifecycle MUSTER_SEED=%SEED% $bin/reconcilers_property_test || failed=1
exit "$failed"
