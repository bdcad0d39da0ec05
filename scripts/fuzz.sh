#!/usr/bin/env bash
# Runs every fuzzing program of build/fuzz for SECONDS each (60 if not said). It begins with the seeds in
# test/fuzz/corpus and with what earlier runs found interesting (build/fuzz/corpus). TARGETS="pod watch" runs only
# these. If an input breaks something, it is left in build/fuzz/found/<target>, and the exit status is 1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${1:-60}

# Words of JSON and of the schemas. Random bytes would hardly ever spell them.
dictionary=build/fuzz/words.dict
{
  grep -ohE '^ *[A-Za-z]+:' crds/*.yaml | tr -d ' :'
  grep -ohE '"[A-Za-z/.-]+"' client/src/{objects/{pod,node,object_reader},watch/watch_event,config/config,http/error}.cc | tr -d '"'
  printf '%s\n' true false null metadata name spec status
} | sort -u | sed 's/.*/"&"/' >"$dictionary"
printf '%s\n' '"\x22:\x22"' '"\x22,\x22"' '"{\x22"' '"[{"' '"}]"' '"\x0a---\x0a"' >>"$dictionary"

failed=0
for program in build/fuzz/bin/fuzz_*; do
  target=${program##*/fuzz_}
  if [[ $target == corpus_test || " ${TARGETS:-$target} " != *" $target "* ]]; then continue; fi
  mkdir -p build/fuzz/{corpus,found}/"$target"
  folders=(build/fuzz/corpus/"$target" test/fuzz/corpus/"$target")
  if [[ $target == documents ]]; then folders+=(test/cluster/crds/good test/cluster/crds/bad manifests/samples); fi
  log=build/fuzz/$target.log
  if "$program" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -max_len=16384 -print_final_stats=1 \
      -dict="$dictionary" -artifact_prefix="build/fuzz/found/$target/" "${folders[@]}" >"$log" 2>&1; then
    printf '%-12s %s inputs, nothing found\n' "$target" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")"
  else
    failed=1
    grep -v '^#[0-9]*.*\(REDUCE\|NEW\|pulse\|RELOAD\)' "$log" | tail -n 60
    printf '%-12s found something: build/fuzz/found/%s; %s FILE plays it again\n' "$target" "$target" "$program"
  fi
done
exit "$failed"
