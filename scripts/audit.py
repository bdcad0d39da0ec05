#!/usr/bin/env python3
"""Lists what Muster is made of, with versions and licences, and what Debian's security tracker knows of it.

  scripts/audit.py SBOM [TRACKER]

SBOM is what scripts/make-sbom.py wrote. TRACKER is a URL or a file, Debian's own if not given. Where it cannot be read, this
says so, and the list is all. Exits with 1 if a package has a known hole that a newer version of it mends.
"""
import json
import pathlib
import re
import subprocess
import sys
import urllib.request

TRACKER = "https://security-tracker.debian.org/tracker/data/json"
TIMEOUT_S = 30


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def licences(package):
    """As its copyright file names them, where that is written for programs to read."""
    path = pathlib.Path("/usr/share/doc") / package / "copyright"
    if not path.exists():
        return "not told"
    names = re.findall(r"^License: *(\S[^\n]*)$", path.read_text(errors="replace"), re.MULTILINE)
    names = list(dict.fromkeys(name.strip() for name in names))
    if not names:
        return f"see {path}"
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def is_older(version, than):
    return subprocess.run(["dpkg", "--compare-versions", version, "lt", than]).returncode == 0


def release():
    return re.search(r"^VERSION_CODENAME=(\w+)", pathlib.Path("/etc/os-release").read_text(), re.MULTILINE)[1]


def known_holes(tracker, source, version):
    """(hole, urgency, version that mends it or "") of those that this version has."""
    holes = []
    for name, hole in sorted(tracker.get(source, {}).items()):
        here = hole.get("releases", {}).get(release())
        if here is None:
            continue
        fixed = here.get("fixed_version", "")
        if fixed == "0":  # it was never in this release
            continue
        if here["status"] == "open":
            holes.append((name, here.get("urgency", ""), ""))
        elif here["status"] == "resolved" and fixed and is_older(version, fixed):
            holes.append((name, here.get("urgency", ""), fixed))
    return holes


def read(place):
    if "://" not in place:
        return json.loads(pathlib.Path(place).read_text())
    with urllib.request.urlopen(place, timeout=TIMEOUT_S) as answer:
        return json.load(answer)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    packages = [p["name"] for p in json.loads(pathlib.Path(sys.argv[1]).read_text())["packages"] if p["name"] != "muster"]
    place = sys.argv[2] if len(sys.argv) == 3 else TRACKER
    try:
        tracker = read(place)
    except (OSError, ValueError) as error:
        tracker = None
        print(f"audit: {place} cannot be read ({error}): versions are listed, and not compared", file=sys.stderr)

    has_remedy = False
    for package in packages:
        version, source, source_version = output(
            "dpkg-query", "-W", "-f", "${Version}\n${source:Package}\n${source:Version}", package
        ).split("\n")
        print(f"{package} {version}: {licences(package)}")
        for hole, urgency, fixed in known_holes(tracker or {}, source, source_version):
            has_remedy = has_remedy or bool(fixed)
            print(f"  {hole} ({urgency}): " + (f"mended in {fixed}" if fixed else "no version mends it yet"))
    if has_remedy:
        sys.exit("audit: newer versions mend known holes: apt-get update && apt-get upgrade, then build again")


main()
