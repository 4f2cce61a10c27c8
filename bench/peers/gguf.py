#!/usr/bin/env python3
"""Assay beside llama.cpp on the same GGUF files: same ids, same processors, in turns, int8 activations and 16 bits a
key or value on both sides.

Prints a table in Markdown and, with --output, writes every sample as JSON. setup.sh --only llama.cpp llama.cpp-avx2 builds
the peer. For a quiet machine: a file takes about a minute a round for 1.1 billion weights, a quarter of it for 124 million.
"""

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

import models
from cases import CASES, prompts, shortened
from intervals import paired_ratio, ratio_text
from workers import Worker, WorkerError

SETTLE_S = 0.3  # threads that spin after their work have gone to sleep by then
MOST_RUNS = 20
CASES_HERE = ("decode-0", "prefill-512", "batch-8")
CHECKED_IDS = 64


class Side:
    """A process that holds the file, asleep between its turns."""

    def __init__(self, name, command, request, options):
        log = options.dir / "logs" / f"gguf-{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        self.name, self.options = name, options
        self.worker = Worker(command, set(options.cpus), log)
        self.loaded = self.worker.ask("load", threads=options.threads, **request)

    def measure(self, case, ids):
        """Tokens per second of the case run once."""
        if case.kind == "prefill":
            answer = self.worker.ask("prefill", ids=ids)
            return case.context * case.batch / answer["seconds"]
        answer = self.worker.ask("decode", ids=ids, new_tokens=case.new_tokens)
        return case.new_tokens * case.batch / answer["seconds"]

    def turn(self, case, ids):
        """The median of as many runs as fill a turn, behind one that wakes the processors."""
        self.measure(case, ids)
        rates, end = [], time.monotonic() + self.options.turn_seconds
        while not rates or (time.monotonic() < end and len(rates) < MOST_RUNS):
            rates.append(self.measure(case, ids))
        return statistics.median(rates)

    def close(self):
        self.worker.close()


def sides_of(path, options):
    request = {"model": str(path), "activations": "int8", "dtype": "bfloat16"}  # keys and values in 16 bits, as theirs
    if options.isa != "native":
        request["isa"] = options.isa
    llama = models.llama_program(options.dir, "assay-llama-worker", options.isa)
    cpus = ",".join(map(str, options.cpus))
    return [
        Side("assay", [options.assay, "worker"], request, options),
        Side("llama.cpp", [llama, "--threads", options.threads, "--cpus", cpus], {"model": str(path)}, options),
    ]


def distance_of_logits(sides):
    """Root of the mean square difference, in standard deviations: that both compute one model."""
    vocab = sides[0].loaded["vocab"]
    ids = [(7 * i + 11) % (vocab - 1) for i in range(CHECKED_IDS)]
    mine, theirs = (side.worker.ask("logits", ids=ids)["logits"] for side in sides)
    squares = statistics.fmean((a - b) ** 2 for a, b in zip(mine, theirs))
    return squares**0.5 / statistics.pstdev(mine)


def measured(sides, case, options):
    """A row: samples of both in turns, who begins alternating."""
    ids = prompts(case, sides[0].loaded["vocab"])
    samples = {side.name: [] for side in sides}
    for side in sides:
        side.measure(case, ids)
    for r in range(options.rounds):
        for side in sides if r % 2 == 0 else reversed(sides):
            time.sleep(SETTLE_S)
            samples[side.name].append(side.turn(case, ids))
    return {"case": case.name, "samples": samples, "ratio": paired_ratio(*samples.values())}


def line_of(path, row, distance):
    mine, theirs = (statistics.median(each) for each in row["samples"].values())
    ratio = ratio_text(row["ratio"]) if row["ratio"] else f"{mine / theirs:.2f}"
    return f"| {path.stem} | {row['case']} | {mine:.4g} | {theirs:.4g} | {ratio} | {distance:.2g} |"


def read_options(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.gguf")
    parser.add_argument("--isa", choices=sorted(models.LLAMA_BUILDS), default="native", help="of both")
    parser.add_argument("--cases", default=",".join(CASES_HERE), help="default %(default)s")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--turn-seconds", type=float, default=1.0, metavar="S", help="a turn repeats a short case so long")
    parser.add_argument("--new-tokens", type=int, metavar="N", help="at most so many in decode and batch cases")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dir", type=Path, default=models.default_dir(), help="where setup.sh put the peers")
    parser.add_argument("--assay", type=Path, default=models.ROOT / "build" / "release" / "assay")
    parser.add_argument("--output", type=Path, metavar="FILE.json")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.cases.split(",") if name not in CASES]
    if unknown:
        parser.error(f"--cases: expected some of {','.join(CASES)}, found '{unknown[0]}'")
    options.cases = [shortened(CASES[name], options.new_tokens) for name in options.cases.split(",")]
    if options.rounds < 1:
        parser.error("--rounds: expected a whole number from 1")
    options.cpus = sorted(os.sched_getaffinity(0))[: options.threads]
    if not 1 <= options.threads == len(options.cpus):
        parser.error("--threads: expected at most as many as there are processors")
    return options


def main():
    options, rows = read_options(), []
    print("| file | case | Assay, tokens/s | llama.cpp | ratio | logits differ by |")
    print("|---|---|---|---|---|---|", flush=True)
    for path in options.files:
        try:
            sides = sides_of(path.resolve(), options)
        except (WorkerError, OSError) as error:
            print(f"error: {path}: {error}", file=sys.stderr)
            return 1
        distance = distance_of_logits(sides)
        for case in options.cases:
            row = {"file": path.name, "isa": options.isa, "logits_differ_by": distance}
            row |= measured(sides, case, options)
            print(line_of(path, row, distance), flush=True)
            rows.append(row)
            if options.output:
                options.output.write_text(json.dumps(rows, indent=1), encoding="utf-8")
        for side in sides:
            side.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
