#!/usr/bin/env python3
"""Draws what bench_replay --json reports, as SVG on standard output: a panel per figure, a group of bars per load.

    build/release/bin/bench_replay --json >replay.json; scripts/plot_replay.py "some title" replay.json >docs/replay.svg

Several files are taken together, as if their rows were in one. Python's standard library is all it needs.
"""
import html
import json
import re
import sys

POLICIES = {"muster": "#2f6db3", "static quotas": "#d98b2b", "first in, first out": "#8a8f98"}
# Title, row, what a value of the row is divided by, the top of the axis (None: the largest value).
PANELS = [
    ("Useful GPU time, % of capacity (line: no scheduler can do more)", "useful / capacity", 1, 100),
    ("Wait, 99th percentile, hours", "wait, p99", 3600, None),
    ("Jain's index of GPU hours over fair share", "Jain's index of GPU-hours over fair share", 1, 1),
    ("Work lost to preemption, GPU hours", "work lost to preemption", 1, None),
]
BOUND = "upper bound of useful / capacity"
WIDTH, HEIGHT, LEFT, TOP, GAP_X, GAP_Y = 360, 170, 55, 70, 85, 75


def read(files):
    values = {}  # (load, policy or "", row) -> value
    for name in files:
        with open(name, encoding="utf-8") as file:
            report = json.load(file)
        if report.get("bench") != "replay":
            sys.exit(f"{name}: not a report of bench_replay")
        for row in report["rows"]:
            match = re.fullmatch(r"(\d+)x load(?:, (.*?))?: (.*)", row["name"])
            if match and row["value"] is not None:
                values[int(match[1]), match[2] or "", match[3]] = row["value"]
    if not values:
        sys.exit("no replay in " + ", ".join(files))
    return values


def number(value):
    return f"{value:.0f}" if value == int(value) or value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.3g}"


def text(x, y, content, anchor="middle", size=11):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{html.escape(content)}</text>'


def panel(values, loads, x, y, title, row, unit, top):
    shown = {key: value / unit for key, value in values.items() if key[2] == row and key[1]}
    top = top or max(list(shown.values()) + [0]) or 1
    out = [text(x, y - 12, title, "start", 12)]
    for part in range(5):
        at = y + HEIGHT - HEIGHT * part / 4
        out.append(f'<line x1="{x}" y1="{at:.1f}" x2="{x + WIDTH}" y2="{at:.1f}" stroke="#ddd"/>')
        out.append(text(x - 6, at + 4, number(top * part / 4), "end", 10))
    group = WIDTH / len(loads)
    bar = group / (len(POLICIES) + 1)
    for i, load in enumerate(loads):
        start = x + group * i + bar / 2
        for j, (policy, colour) in enumerate(POLICIES.items()):
            value = shown.get((load, policy, row))
            if value is None:
                continue
            tall = HEIGHT * value / top
            out.append(f'<rect x="{start + bar * j + 2:.1f}" y="{y + HEIGHT - tall:.1f}" width="{bar - 4:.1f}" '
                       f'height="{tall:.1f}" fill="{colour}"/>')
            out.append(text(start + bar * (j + 0.5), y + HEIGHT - tall - 3, number(value), size=10))
        if row == PANELS[0][1] and (load, "", BOUND) in values:
            at = y + HEIGHT - HEIGHT * values[load, "", BOUND] / top
            out.append(f'<line x1="{start:.1f}" y1="{at:.1f}" x2="{start + bar * len(POLICIES):.1f}" y2="{at:.1f}" '
                       'stroke="#c0272d" stroke-width="2" stroke-dasharray="5 3"/>')
        out.append(text(start + bar * len(POLICIES) / 2, y + HEIGHT + 16, f"{load} x the trace's load"))
    return out


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    values = read(sys.argv[2:])
    loads = sorted({key[0] for key in values})
    wide, high = LEFT + 2 * WIDTH + GAP_X + 25, TOP + 2 * HEIGHT + GAP_Y + 35
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" font-family="sans-serif">',
           f'<rect width="{wide}" height="{high}" fill="white"/>', text(LEFT, 20, sys.argv[1], "start", 14)]
    for i, (policy, colour) in enumerate(POLICIES.items()):
        out.append(f'<rect x="{LEFT + 150 * i}" y="29" width="10" height="10" fill="{colour}"/>')
        out.append(text(LEFT + 150 * i + 15, 38, policy, "start"))
    for i, what in enumerate(PANELS):
        out += panel(values, loads, LEFT + (i % 2) * (WIDTH + GAP_X), TOP + (i // 2) * (HEIGHT + GAP_Y), *what)
    print("\n".join(out + ["</svg>"]))


main()
