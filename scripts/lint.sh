#!/usr/bin/env bash
# Checks the format of all C++ files and runs clang-tidy over them. With LINT_BASE=<commit> clang-tidy looks only at
# files that changed since. clang-tidy needs build/lint to be configured (for its compile commands), which `make lint` does.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mapfile -t all < <(git ls-files '*.cc' '*.h')
mapfile -t sources < <(
  if [[ -n ${LINT_BASE:-} ]]; then
    git diff --name-only --diff-filter=d "$LINT_BASE" -- '*.cc'
  else
    git ls-files '*.cc'
  fi
)
clang-format-19 --dry-run -Werror "${all[@]}"
echo "format: ${#all[@]} files in order"

# Only what the release preset compiles. The programs in test/fuzz are not part of it.
mapfile -t known < <(
  python3 - build/lint/compile_commands.json "${sources[@]}" <<'PY'
import json, os, sys
compiled = {os.path.realpath(entry["file"]) for entry in json.load(open(sys.argv[1]))}
print("\n".join(name for name in sys.argv[2:] if os.path.realpath(name) in compiled))
PY
)
if ((${#known[@]} == 0)) || [[ -z ${known[0]} ]]; then exit 0; fi
printf '%s\0' "${known[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy-19 --quiet -p build/lint --warnings-as-errors='*' \
  2> >(grep -v 'warnings generated\|^Suppressed\|^Use -header-filter' >&2)
echo "tidy: ${#known[@]} files in order"
