#!/usr/bin/env python3
"""coverage.py ROOMS.TXT COVERAGE.JSON: prints which part of each room's lines and branches the tests execute.

ROOMS.TXT is the table of rooms that the build writes ("room folder sees..."), COVERAGE.JSON what `gcovr --json` writes. A
header is compiled into several rooms, under names that are links (build/doors), and vector code several times; a line counts
as covered when one of its copies was executed."""
import json
import os
import sys


def lines_of(report, root):
    """{file: {line: [executed, {branch: taken}]}}, with links resolved and paths relative to the root."""
    files = {}
    for entry in report["files"]:
        path = os.path.relpath(os.path.realpath(os.path.join(root, entry["file"])), os.path.realpath(root))
        lines = files.setdefault(path, {})
        for line in entry["lines"]:
            if line.get("gcovr/excluded") or line.get("gcovr/noncode"):
                continue
            executed = lines.setdefault(line["line_number"], [False, {}])
            executed[0] |= line["count"] > 0
            for k, branch in enumerate(line["branches"]):
                executed[1][k] = executed[1].get(k, False) or branch["count"] > 0
    return files


def percent(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "-"


def row(name, lines):
    branches = [taken for line in lines for taken in line[1].values()]
    executed = sum(line[0] for line in lines)
    return f"| {name} | {len(lines)} | {percent(executed, len(lines))} | {len(branches)} | {percent(sum(branches), len(branches))} |"


def main(rooms, coverage):
    with open(rooms, encoding="utf-8") as file:
        folders = [line.split()[:2] for line in file]
    with open(coverage, encoding="utf-8") as file:
        files = lines_of(json.load(file), os.getcwd())
    print("| room | lines | covered | branches | covered |\n|---|---:|---:|---:|---:|")
    total = []
    for room, folder in folders:
        lines = [line for path, own in files.items() if os.path.dirname(path) == folder for line in own.values()]
        total += lines
        print(row(f"{room} (`{folder}/`)", lines))
    print(row("all", total))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__.split("\n", maxsplit=1)[0])
    main(sys.argv[1], sys.argv[2])
