#!/usr/bin/env python3
"""Tells which folders have more than 15 files, and which files more than 500 lines, and are not named with the reason.

The exceptions are the paths between backquotes in the first column of the table under "Beyond the bars" in
docs/developers.md. They may have * in them; a folder ends in /. An exception that nothing needs any more is told as well.
"""
import fnmatch
import pathlib
import re
import subprocess
import sys

MOST_FILES, MOST_LINES = 15, 500
ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = "docs/developers.md"
NO_TEXT = {".png", ".svg", ".tar"}


def tracked():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:  # an archive of the sources
        print("sizes: no history: nothing is checked")
        sys.exit(0)
    return listed.stdout.split("\n")[:-1]


def exceptions():
    text = (ROOT / PAGE).read_text()
    table = text[text.index("## Beyond the bars"):]
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    return [path for row in rows for path in re.findall(r"`([^`]*[/.][^`]*)`", row)]


def beyond(files):
    folders = {}
    for file in files:
        path = pathlib.PurePath(file)
        if len(path.parts) > 1:
            folders[f"{path.parent}/"] = folders.get(f"{path.parent}/", 0) + 1
        if path.suffix not in NO_TEXT and (ROOT / file).is_file():
            lines = (ROOT / file).read_bytes().count(b"\n")
            if lines > MOST_LINES:
                yield file, f"{lines} lines"
    yield from ((folder, f"{count} files") for folder, count in folders.items() if count > MOST_FILES)


def main():
    allowed = exceptions()
    needed, problems = set(), []
    for path, size in beyond(tracked()):
        matching = [a for a in allowed if fnmatch.fnmatch(path, a)]
        needed.update(matching)
        if not matching:
            problems.append(f"{path} has {size}: divide it, or say in {PAGE} (Beyond the bars) why not")
    problems += [f"{PAGE} excuses {a}, which is within the bars" for a in allowed if a not in needed]
    print("\n".join(problems) if problems else f"sizes: {len(needed)} exceptions, each with a reason")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
