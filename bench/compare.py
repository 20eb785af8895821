#!/usr/bin/env python3
"""Compares two CSV files of bench/untuned, bench/evidence or bench/calibrate, paired by problem and seed.

    bench/compare.py OLD.csv NEW.csv

A row for each problem: the runs that both files have; how many are right, flagged, and silent (neither right nor flagged) in each; runs
with the same answer; ratios of evaluations and of processor time, new by old. In the files of evidence and calibrate a number is right
within three stated errors.
"""
import csv
import math
import sys


def number(text):
    try:
        return float(text)
    except (TypeError, ValueError):
        return math.nan


def read(path):
    """{(problem, seed): {right, flagged, answer, evaluations, seconds}}"""
    runs = {}
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if "right" in row:  # untuned
                key, right, answer = (row["problem"], row["seed"]), row["right"] == "1", (row["gap"], row["loss"])
            elif "exact" in row:  # evidence
                key, answer = (row["quantity"], row["seed"]), (row["value"],)
                right = abs(number(row["value"]) - number(row["exact"])) <= 3 * number(row["error"])
            else:  # calibrate
                key = (" ".join((row["problem"], row["setting"], row["quantity"])), row["replicate"])
                right, answer = number(row["largest"]) <= 3, (row["mean error"],)
            runs[key] = {
                "right": right,
                "flagged": row["flagged"] == "1",
                "answer": answer,
                "evaluations": number(row.get("evaluations")),
                "seconds": number(row.get("seconds")),
            }
    return runs


def ratio(pairs, name):
    both = [(a[name], b[name]) for a, b in pairs if a[name] > 0 and b[name] > 0]
    return f"{sum(b for _, b in both) / sum(a for a, _ in both):.3f}" if both else ""


def counts(runs):
    right = sum(r["right"] for r in runs)
    return right, sum(r["flagged"] for r in runs), sum(not r["right"] and not r["flagged"] for r in runs)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    old, new = read(sys.argv[1]), read(sys.argv[2])
    print("| problem | runs | right | flagged | silent | same answer | evaluations | seconds |\n|---|---|---|---|---|---|---|---|")
    problems = list(dict.fromkeys(problem for problem, _ in old)) + ["all"]
    for problem in problems:
        pairs = [(old[k], new[k]) for k in old if k in new and problem in (k[0], "all")]
        if not pairs:
            continue
        before, after = counts([a for a, _ in pairs]), counts([b for _, b in pairs])
        same = sum(a["answer"] == b["answer"] for a, b in pairs)
        cells = [f"{a} to {b}" for a, b in zip(before, after)]
        print(f"| {problem} | {len(pairs)} | {' | '.join(cells)} | {same} | {ratio(pairs, 'evaluations')} | {ratio(pairs, 'seconds')} |")


if __name__ == "__main__":
    main()
