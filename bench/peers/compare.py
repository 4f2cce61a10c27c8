#!/usr/bin/env python3
"""Assay beside its peers: same ids, same processors, in turns, all processes resident and asleep in between.

Writes compare.json (every sample) and compare.md into --output. bench/peers/setup.sh makes the environments,
bench/check.py judges the result, table.py keeps it. For a quiet machine. A peer that fails has a row with its reason.
"""

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import traceback
from pathlib import Path

import models
import processor
import tables
from cases import CASES, shortened
from expected import Expected
from loading import run_load
from participants import KINDS, Participant, Setting
from precisions import PLAIN, PRECISIONS, QUANTIZED
from rooflines import SHAPES, rooflines, weight_bytes
from turns import check_logits, run_case


def list_of(allowed, groups=None):
    """Words of a comma list; the name of a group stands for its words."""

    def read(text):
        words = [word.strip() for word in text.split(",") if word.strip()]
        words = [each for word in words for each in (groups or {}).get(word, [word])]
        unknown = [word for word in words if word not in allowed]
        if unknown or not words:
            raise argparse.ArgumentTypeError(f"expected some of {','.join(allowed)}, found '{text}'")
        return words

    return read


def whole_list(text):
    try:
        numbers = [int(word) for word in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 0:
        raise argparse.ArgumentTypeError(f"expected whole numbers such as 1,2, found '{text}'")
    return numbers


def read_options(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    every = ["load", *CASES]
    parser.add_argument("--cases", type=list_of(every), default=every, help=f"default {','.join(every)}")
    parser.add_argument("--peers", type=list_of(list(KINDS)), default=list(KINDS), help="assay among them")
    parser.add_argument(
        "--precisions",
        type=list_of(list(PRECISIONS), {"quantized": QUANTIZED}),
        default=list(PLAIN),
        help=f"default {','.join(PLAIN)}; quantized: all of {','.join(QUANTIZED)}",
    )
    parser.add_argument("--threads", type=whole_list, default=[1, 2], help="default 1,2")
    parser.add_argument("--isa", type=list_of(["native", "avx2", "avx512"]), default=["native"])
    parser.add_argument("--prepare", action="store_true", help="only make the models that are not there yet")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--turn-seconds", type=float, default=1.0, metavar="S", help="a turn repeats a short case so long")
    parser.add_argument(
        "--huge-pages", choices=("all", "none"), default="all", help="whether processes may have them, Assay's too"
    )
    parser.add_argument("--new-tokens", type=int, metavar="N", help="at most so many in decode and batch cases")
    parser.add_argument("--model", choices=sorted(SHAPES), default="124m")
    parser.add_argument("--cpus", type=whole_list, default=sorted(os.sched_getaffinity(0)))
    parser.add_argument("--dir", type=Path, default=models.default_dir(), help="where setup.sh put the peers")
    parser.add_argument("--assay", type=Path, default=models.ROOT / "build" / "release" / "assay")
    parser.add_argument("--output", type=Path, default=Path("peers-results"), metavar="DIR")
    options = parser.parse_args(arguments)
    if options.new_tokens is not None and options.new_tokens < 1:
        parser.error("--new-tokens: expected a whole number from 1")
    if options.rounds < 1:
        parser.error("--rounds: expected a whole number from 1")
    if not 1 <= max(options.threads) <= len(options.cpus) or min(options.threads) < 1:
        parser.error(f"--threads: expected from 1 to {len(options.cpus)}, the processors given")
    if not options.assay.exists():
        parser.error(f"{options.assay}: not found: build Assay first")
    return options


def machine_facts(options):
    facts = {"system": platform.platform(), "cpus": options.cpus, "load_average": os.getloadavg()}
    facts |= processor.facts() | {"huge_pages": options.huge_pages}
    version = subprocess.run([options.assay, "--version"], capture_output=True, text=True, check=False)
    commit = subprocess.run(
        ["git", "-C", models.ROOT, "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    )
    facts["assay"] = f"{version.stdout.strip()} {commit.stdout.strip()}".strip()
    return facts


def memory_available():
    for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("MemAvailable"):
            return 1024 * int(line.split()[1])
    return 0


def memory_needed(p):
    """Bytes that a participant holds between its turns, or while it loads: a high estimate."""
    shape, precision = p.setting.shape, PRECISIONS[p.setting.precision]
    weights = weight_bytes(p.setting.size, precision)
    embedding = 4 * shape.vocab * shape.hidden
    floats = 4 * (shape.body_weights() + shape.vocab * shape.hidden)
    if p.name == "torch-compile":
        weights *= 4  # frozen and packed beside the model's own
    elif p.name in ("torch", "bitsandbytes") and precision.is_quantized:
        weights += floats  # it quantizes what it has loaded
    elif not (p.is_assay or p.is_llama or p.name == "torch"):
        weights *= 2  # packed once more
    return weights + embedding + (1 << 29)


def run_setting(setting, options, add_rows):
    cpus = set(sorted(options.cpus)[: setting.threads])
    participants = [Participant(name, setting, cpus, options) for name in options.peers]
    for p in participants:
        if p.why_not():
            print(f"  {p.name}: no row: {p.why_not()}", file=sys.stderr)
    participants = [p for p in participants if not p.why_not()]
    if not participants:
        return
    is_resident = sum(memory_needed(p) for p in participants) < 0.9 * memory_available()
    if not is_resident:
        print("  not enough memory for all at once: each is loaded for its turns", file=sys.stderr)
    try:
        differences = check_logits(participants, is_resident, options)
        known, expected = rooflines(options.assay, setting.threads, cpus), Expected(processor.facts())
        for name in options.cases:
            print(f"  {name}", file=sys.stderr)
            if name == "load":
                add_rows(run_load(participants, options))
            else:
                case = shortened(CASES[name], options.new_tokens)
                add_rows(run_case(case, participants, options, differences, is_resident, known, expected))
    finally:
        for p in participants:
            p.stop()


def prepare(options):
    """Makes the models of all peers; gives how many could not be made."""
    failed = 0
    for precision in options.precisions:
        for name in options.peers:
            p = Participant(name, Setting(precision, 1, "native", options.model), set(options.cpus), options)
            try:
                if not p.why_not():
                    p.model()
            except (OSError, RuntimeError) as error:
                failed += 1
                print(f"{name}, {precision}: {error}", file=sys.stderr)
    return failed


def compare(options):
    """Runs everything; what is measured is written after each case. Gives the document."""
    options.output.mkdir(parents=True, exist_ok=True)
    document = {"version": 2, "date": datetime.date.today().isoformat(), "machine": machine_facts(options)}
    document |= {"rounds": options.rounds, "failures": [], "rows": []}
    if os.getloadavg()[0] > 0.3:
        print(
            f"warning: the load average is {os.getloadavg()[0]:.1f}: this machine is not quiet", file=sys.stderr
        )

    def add_rows(rows):
        document["rows"] += rows
        half = options.output / "compare.json.half"
        half.write_text(json.dumps(document, indent=1), encoding="utf-8")
        half.replace(options.output / "compare.json")
        (options.output / "compare.md").write_text(tables.markdown(document), encoding="utf-8")

    for isa in options.isa:
        for threads in options.threads:
            for precision in options.precisions:
                print(f"{precision}, {threads} thread(s), {isa}", file=sys.stderr)
                setting = Setting(precision, threads, isa, options.model)
                try:
                    run_setting(setting, options, add_rows)
                except Exception as error:  # the settings after it are measured all the same
                    traceback.print_exc()
                    document["failures"] += [f"{setting}: {type(error).__name__}: {error}"]
                    add_rows([])
    return document


if __name__ == "__main__":
    asked = read_options()
    if asked.prepare:
        sys.exit(1 if prepare(asked) else 0)
    print(tables.markdown(compare(asked)))
    print(f"{asked.output / 'compare.json'}, {asked.output / 'compare.md'}", file=sys.stderr)
