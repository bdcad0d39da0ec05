#!/usr/bin/env bash
# Finds co_await where g++ 12 compiles it wrongly, without a word: in the condition of if, while, for or switch,
# and in an expression with ?: (client/include/muster/client/task.h). Without arguments: in all C++ files of the
# repository; otherwise in the files named. Exit status 1 if there is one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if (($# == 0)); then
  mapfile -t files < <(git ls-files '*.cc' '*.h')
else
  files=("$@")
fi
exec python3 - "${files[@]}" <<'PY'
import re
import sys

# Comments, strings (raw ones first) and characters, which are blanked; newlines stay, so that lines are counted.
NOT_CODE = re.compile(
    r"""R"([^()\\\s]{0,16})\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'""",
    re.DOTALL,
)
CONDITION = re.compile(r"\b(if|while|for|switch)\s*(?:constexpr\s*)?\(")


def code_of(text):
    return NOT_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def closing(code, start):
    """The place of the parenthesis that closes the one at `start`."""
    depth = 0
    for at in range(start, len(code)):
        depth += {"(": 1, ")": -1}.get(code[at], 0)
        if depth == 0:
            return at
    return len(code)


def wrong_places(code):
    for found in CONDITION.finditer(code):
        head = code[found.end() : closing(code, found.end() - 1)]
        at = head.find("co_await")
        if at >= 0:
            yield found.end() + at, f"in the condition of {found[1]}"
    for found in re.finditer(r"\bco_await\b", code):
        # The statement around it: from the last to the next of these.
        start = max(code.rfind(mark, 0, found.start()) for mark in ";{}") + 1
        ends = [at for at in (code.find(mark, found.end()) for mark in ";{}") if at >= 0]
        statement = code[start : min(ends, default=len(code))]
        if "?" in statement:
            yield found.start(), "beside ?:"


problems = set()
for name in sys.argv[1:]:
    with open(name, encoding="utf-8") as file:
        code = code_of(file.read())
    if "co_await" not in code:
        continue
    for at, where in wrong_places(code):
        problems.add((name, code.count("\n", 0, at) + 1, where))
for name, line, where in sorted(problems):
    print(f"{name}:{line}: co_await {where}; name its result first, as client/include/muster/client/task.h says")
if not problems:
    print(f"co_await: {len(sys.argv) - 1} files in order")
sys.exit(1 if problems else 0)
PY
