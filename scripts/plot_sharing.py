#!/usr/bin/env python3
"""Draws what bench_sharing --json reports, as SVG on standard output: a panel per figure, a group of bars per load.

    build/release/bin/bench_sharing --json >sharing.json; scripts/plot_sharing.py "some title" sharing.json >docs/sharing.svg

Several files are taken together, as if their rows were in one. The dashed line is the goal of muster. Python's standard library is all it
needs.
"""
import html
import json
import re
import sys

COLOURS = ["#2f6db3", "#6fb1d8", "#7a5ba6", "#d98b2b", "#8a8f98"]
# Title, row, the bottom and the top of the axis (None: the largest value).
PANELS = [
    ("Useful GPU time, % of what no scheduler could exceed", "useful of bound", 80, 100),
    ("Lost to disturbances, % of allocated GPU time", "lost to disturbances, of allocated", 0, None),
    ("Attempts of a job, 99th percentile", "attempts, p99", 0, None),
    ("Wait within quota beyond victims' grace, 99th percentile, s",
     "wait, within quota, beyond victims' grace, p99", 0, None),
]
WIDTH, HEIGHT, LEFT, TOP, GAP_X, GAP_Y = 360, 170, 55, 70, 85, 75


def read(files):
    values, goals = {}, {}  # (load, policy, row) -> value; (load, row) -> goal
    for name in files:
        with open(name, encoding="utf-8") as file:
            report = json.load(file)
        if report.get("bench") != "sharing":
            sys.exit(f"{name}: not a report of bench_sharing")
        for row in report["rows"]:
            # A policy may have a comma in its name, and a row too.
            match = re.fullmatch(r"([\d.]+)x, (muster, [^:,]+|first in, first out|[^:,]+): (.*)", row["name"])
            if match is None or row["value"] is None:
                continue
            values[float(match[1]), match[2], match[3]] = row["value"]
            goal = re.search(r"[\d.]+", str(row.get("goal") or ""))
            if goal and match[2] == "muster":
                goals[float(match[1]), match[3]] = float(goal[0])
    if not values:
        sys.exit("no day in " + ", ".join(files))
    return values, goals


def number(value):
    return f"{value:.0f}" if value == int(value) or value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.3g}"


def text(x, y, content, anchor="middle", size=11):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{html.escape(content)}</text>'


def panel(report, loads, policies, x, y, title, row, bottom, top):
    values, goals = report
    shown = {key: value for key, value in values.items() if key[2] == row}
    top = top or max([*shown.values(), *(g for key, g in goals.items() if key[1] == row), 0]) or 1

    def height(value):
        return HEIGHT * min(1, max(0, (value - bottom) / (top - bottom)))

    out = [text(x, y - 12, title, "start", 12)]
    for part in range(5):
        at = y + HEIGHT - HEIGHT * part / 4
        out.append(f'<line x1="{x}" y1="{at:.1f}" x2="{x + WIDTH}" y2="{at:.1f}" stroke="#ddd"/>')
        out.append(text(x - 6, at + 4, number(bottom + (top - bottom) * part / 4), "end", 10))
    group = WIDTH / len(loads)
    bar = group / (len(policies) + 1)
    for i, load in enumerate(loads):
        start = x + group * i + bar / 2
        for j, policy in enumerate(policies):
            value = shown.get((load, policy, row))
            if value is None:
                continue
            tall = height(value)
            out.append(f'<rect x="{start + bar * j + 2:.1f}" y="{y + HEIGHT - tall:.1f}" width="{bar - 4:.1f}" '
                       f'height="{tall:.1f}" fill="{COLOURS[j]}"/>')
            out.append(text(start + bar * (j + 0.5), y + HEIGHT - tall - 3, number(value), size=10))
        if (load, row) in goals:
            at = y + HEIGHT - height(goals[load, row])
            out.append(f'<line x1="{start:.1f}" y1="{at:.1f}" x2="{start + bar * len(policies):.1f}" y2="{at:.1f}" '
                       'stroke="#c0272d" stroke-width="2" stroke-dasharray="5 3"/>')
        out.append(text(start + bar * len(policies) / 2, y + HEIGHT + 16, f"load {load:g}"))
    return out


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    report = read(sys.argv[2:])
    loads = sorted({key[0] for key in report[0]})
    policies = list(dict.fromkeys(key[1] for key in report[0]))[:len(COLOURS)]
    wide, high = LEFT + 2 * WIDTH + GAP_X + 25, TOP + 2 * HEIGHT + GAP_Y + 35
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" font-family="sans-serif">',
           f'<rect width="{wide}" height="{high}" fill="white"/>', text(LEFT, 20, sys.argv[1], "start", 14)]
    for i, policy in enumerate(policies):
        out.append(f'<rect x="{LEFT + 190 * i}" y="29" width="10" height="10" fill="{COLOURS[i]}"/>')
        out.append(text(LEFT + 190 * i + 15, 38, policy, "start"))
    for i, what in enumerate(PANELS):
        out += panel(report, loads, policies, LEFT + (i % 2) * (WIDTH + GAP_X), TOP + (i // 2) * (HEIGHT + GAP_Y), *what)
    print("\n".join(out + ["</svg>"]))


main()
