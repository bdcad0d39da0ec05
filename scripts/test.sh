#!/usr/bin/env bash
# Runs what has been built: unit tests with the sanitizers' presets, scenario and property tests with these and with
# release, and, with release, what needs a control plane. The presets are named as arguments; asan-without-clock is the
# part of asan that no busy machine can make fail. Prints ctest's closing lines; all of its output if a test fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

failed=0
# run PRESET NAME FLAGS…
run() {
  local preset=$1 name=$2 log
  shift 2
  log=build/$preset/ctest-$name.log
  printf '\n== %s: %s\n' "$preset" "$name"
  if ctest --test-dir "build/$preset" --output-on-failure --no-tests=error "$@" >"$log" 2>&1; then
    sed -n '/tests passed/,$p' "$log"
    grep -om1 'a real node cannot run here.*' "$log" || true
    grep -hom1 'no browser: .*' "build/$preset/Testing/Temporary/LastTest.log" || true
    grep -hom1 'no notebook server: .*' "build/$preset/Testing/Temporary/LastTest.log" || true
    grep -hom1 'no history: .*' "build/$preset/Testing/Temporary/LastTest.log" || true
    grep -hom1 'Prometheus is not installed.*' "build/$preset/Testing/Temporary/LastTest.log" || true
    # What had to be repeated because the machine was busy.
    grep -h '^REPEATED' "build/$preset/Testing/Temporary/LastTest.log" || true
  else
    cat "$log"
    failed=1
  fi
}

# Unit tests that wait for real time to pass. All others play in virtual time, or in none.
watch_the_clock='^(client_test|server_test|controller_test)$'

for preset in "$@"; do
  case $preset in
    # What is left out has no threads: it measures, and is forty times slower here.
    tsan) run tsan threads -L unit -E TenThousandPods -j "$(nproc)" ;;
    # Unit tests run once, with sanitizers: to compile them twice costs more than all of them together.
    release) run release rules -L '^(scenario|property|bench)$' -j "$(nproc)" ;;
    asan-without-clock) run asan rules -L '^(unit|scenario|property)$' -E "$watch_the_clock" -j "$(nproc)" ;;
    asan) run asan clocks -R "$watch_the_clock" -j "$(nproc)" ;;
  esac
  # A preemption and a resume on a control plane, by the operator with sanitizers. What they report ends the operator
  # with an error, and the test asks for its exit status.
  if [[ $preset == asan && -x build/release/bin/scenario_live_test ]]; then
    printf '\n== asan: the operator plays a scenario\n'
    MUSTER_OPERATOR=$PWD/build/asan/bin/muster MUSTER_SCENARIO_GAP=4 build/release/bin/scenario_live_test \
      --gtest_filter='*s09*' >build/asan/live.log 2>&1 || true
    grep -F '[  PASSED  ] 1 test.' build/asan/live.log || { cat build/asan/live.log; failed=1; }
    grep -h '^REPEATED' build/asan/live.log || true
  fi
  # Each starts a control plane of its own, and mostly waits: three at a time, those that measure alone.
  if [[ $preset == release ]]; then
    run release cluster -L '^(cluster|faults)$' -j 3
    # With a fresh seed. What it finds is a failure; its logs stay, because the same seed has other instants.
    rm -rf build/release/life
    MUSTER_KEEP_LOGS=$PWD/build/release/life run release life -L '^life$' -V
    grep -o 'MUSTER_SEED=[0-9]*' build/release/ctest-life.log || true
    run release node -L '^node$' -V
    # What they find is printed, and is no failure yet: docs/developers.md says why (Hunting).
    printf '\n== release: fresh seeds\n'
    scripts/explore.sh 60 || true
  fi
done
exit "$failed"
