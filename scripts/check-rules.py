#!/usr/bin/env python3
"""Holds placement/RULES.md against the repository.

Every file, function, scenario and heading that it names exists; every scenario cites a rule that exists, and is
cited back where RULES.md names it; every `RULES.md N.M` in the tree is a rule. Prints what is wrong.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RULES = ROOT / "placement" / "RULES.md"
SCENARIOS = ROOT / "test" / "scenarios"
TEXT = {".cc", ".h", ".md", ".yaml", ".py", ".cmake", ".txt", ".sh"}
CITATION = re.compile(r"RULES\.md (\d+(?:\.\d+)?(?:, \d+(?:\.\d+)?)*)")

problems = []


def say(text):
    problems.append(text)


def rules_cited(text):
    return [number for found in CITATION.finditer(text) for number in found[1].split(", ")]


def anchor(heading):
    return re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-")


def find_file(name):
    for folder in (ROOT / "placement" / "src", ROOT, ROOT / "placement"):
        if (folder / name).is_file():
            return folder / name
    return None


def header(scenario):
    lines = []
    for line in scenario.read_text().splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("# "))
    return " ".join(lines)


def tracked_files():
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=False)
    if listed.returncode == 0:
        return [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    return [path for path in ROOT.rglob("*") if "build" not in path.relative_to(ROOT).parts]


def check_links(text, anchors):
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("#"):
            if target[1:] not in anchors:
                say(f"RULES.md links to {target}, which is no heading of it")
        elif "://" not in target and not (RULES.parent / target.split("#")[0]).exists():
            say(f"RULES.md links to {target}, which does not exist")


def defines(text, name):
    """A function (at the left margin, or a member inside its class), a type or a constant of that name."""
    if not name.endswith("()"):
        return re.search(rf"^(struct|class|(inline )?constexpr .*) {name}\b", text, re.MULTILINE)
    return re.search(rf"^(  )?(?!return|if|while|co_)[A-Za-z][\w:<>&*, ]*[\s:&*]{name[:-2]}\(", text, re.MULTILINE)


def check_names(line):
    """Names stand before the file that has them: `kept_off()` in `reserve/reservation.cc`."""
    waiting = []
    for token in re.findall(r"`([^`]+)`", line):
        if re.fullmatch(r"[\w./-]+\.(cc|h|md|py|yaml)", token):
            path = find_file(token)
            if path is None:
                say(f"RULES.md names {token}, which does not exist")
                waiting = []
                continue
            text = path.read_text() if waiting else ""
            for name in waiting:
                if not defines(text, name):
                    say(f"RULES.md looks for {name} in {token}, which does not define it")
            waiting = []
        elif line.startswith("* Files:"):
            waiting.append(token.split("::")[-1])


def check_rules(lines, scenarios):
    """Returns the numbers of all rules."""
    numbers, named, rule, with_scenarios = set(), set(), "", set()
    for line in lines:
        if found := re.match(r"##+ (\d+(?:\.\d+)?) ", line):
            rule = found[1]
            if rule in numbers:
                say(f"RULES.md has two rules {rule}")
            numbers.add(rule)
        if line.startswith(("* Scenarios:", "* No scenario:")):
            with_scenarios.add(rule)
        check_names(line)
        for name in re.findall(r"`([rs]\d+[a-z]?-[a-z0-9-]+)`", line):
            named.add(name)
            if name not in scenarios:
                say(f"RULES.md {rule} names scenario {name}, which does not exist")
            elif rule not in rules_cited(scenarios[name]):
                say(f"RULES.md {rule} names scenario {name}, whose header does not cite it")
    for number in sorted(numbers - with_scenarios):
        if "." in number:
            say(f"RULES.md {number} says nothing of scenarios")
    for name in sorted(set(scenarios) - named):
        if name.startswith("s"):
            say(f"scenario {name} is not named in RULES.md")
    return numbers


def unwrapped(text):
    """One line for each paragraph, list entry, heading and row."""
    lines = [""]
    for line in text.splitlines():
        begins = not line or re.match(r"[#|*-]|\d+\. ", line)
        if begins or not lines[-1] or lines[-1].startswith(("#", "|")):
            lines.append(line)
        else:
            lines[-1] += " " + line.strip()
    return lines


def main():
    text = RULES.read_text()
    lines = unwrapped(text)
    check_links(text, {anchor(line.lstrip("# ")) for line in lines if line.startswith("#")})
    scenarios = {path.stem: header(path) for path in sorted(SCENARIOS.glob("*.yaml"))}
    if not scenarios:
        say("there are no scenarios")
    numbers = check_rules(lines, scenarios)
    for name, head in scenarios.items():
        if not rules_cited(head):
            say(f"scenario {name} cites no rule")
    for path in tracked_files():
        if path.suffix not in TEXT or not path.is_file():
            continue
        for number in rules_cited(path.read_text(errors="replace")):
            if number not in numbers:
                say(f"{path.relative_to(ROOT)} cites RULES.md {number}, which does not exist")
    for problem in problems:
        print(problem)
    print(f"{len(numbers)} rules, {len(scenarios)} scenarios, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
