#!/usr/bin/env python3
"""Recomputes a verdict on latency from samples.csv alone: python3 recompute_verdict.py samples.csv CASE BASELINE

The processes of two cases of one scenario are paired. Each gives one number: the median over its rounds of the
logarithm of case / baseline. Their mean is the logarithm of the ratio; its interval is Student's t. Prints ratio, low,
high, the two-sided p value of no difference, and the processes. Needs only Python's own library.

Where a run has six rows or more that ran side by side, the program also takes into account how far the other rows
deviate (docs/measuring.md); standard_error and degrees of "effect" in results.json are what it used. This script takes the
deviation of the two cases alone.
"""

import csv
import math
import statistics
import sys


def student_tail(t, degrees):
    """The chance that |T| exceeds |t|, by Simpson's rule in the angle: t = sqrt(degrees) tan(angle)."""
    scale = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(math.pi)
    low, steps = math.atan(abs(t) / math.sqrt(degrees)), 2000
    width = (math.pi / 2 - low) / steps
    weights = (1 if i in (0, steps) else 4 if i % 2 else 2 for i in range(steps + 1))
    return 2 * scale * width / 3 * sum(
        w * max(0.0, math.cos(low + i * width)) ** (degrees - 1) for i, w in enumerate(weights))


def student_quantile(level, degrees):
    low, high = 0.0, 1e6
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if student_tail(middle, degrees) > 1 - level else (low, middle)
    return high


def totals(file, label, scenario):
    with open(file, newline="") as lines:
        return {(int(row["process"]), int(row["round"])): float(row["value"])
                for row in csv.DictReader(lines)
                if row["phase"] == "total" and row["label"] == label and row["scenario"] == scenario}


def verdict(file, case, baseline, scenario="trade-off", level=0.95):
    own, other = totals(file, case, scenario), totals(file, baseline, scenario)
    by_process = {}
    for place in sorted(own.keys() & other.keys()):
        by_process.setdefault(place[0], []).append(math.log(own[place] / other[place]))
    medians = [statistics.median(logs) for logs in by_process.values()]
    if len(medians) < 2:
        raise SystemExit(f"{file}: expected runs of both cases in two processes or more, found {len(medians)}")
    mean = statistics.mean(medians)
    error = statistics.stdev(medians) / math.sqrt(len(medians))
    half = student_quantile(level, len(medians) - 1) * error
    p_value = student_tail(mean / error, len(medians) - 1) if error > 0 else float(mean == 0)
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half), p_value, len(medians)


def main():
    if len(sys.argv) not in (4, 5):
        raise SystemExit(__doc__.splitlines()[0] + " [SCENARIO]")
    ratio, low, high, p_value, processes = verdict(*sys.argv[1:])
    print(f"{ratio:.6g} [{low:.6g}, {high:.6g}] p {p_value:.4g}, {processes} processes")


if __name__ == "__main__":
    main()
