#!/usr/bin/env python3
"""Assay beside its peers: same ids, same processors, in turns, all processes resident and asleep in between.

Writes compare.json (every sample) and compare.md into --output. bench/peers/setup.sh makes the environments,
bench/check.py judges the result. For a quiet machine.
"""

import argparse
import dataclasses
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

import models
import tables
from cases import CASES, prompts, shortened, some_ids
from participants import KINDS, Participant, Setting
from precisions import PLAIN, PRECISIONS, QUANTIZED
from rooflines import (
    SHAPES,
    Rooflines,
    highest,
    measured_roofline_tokens_per_s,
    need,
    roofline_tokens_per_s,
    rooflines,
    weight_bytes,
)

HERE = Path(__file__).resolve().parent
SETTLE_S = 0.3  # between turns: threads that spin after their work have gone to sleep by then
USUAL_SHARE = 0.75  # of what expected.json leads to expect; below it a peer is measured again
CHECKED_IDS = 128


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
    parser.add_argument("--rounds", type=int, default=5)
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
    facts = {"system": platform.platform(), "cpus": options.cpus, "load_average": os.getloadavg(), "cpu": ""}
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            facts["cpu"] = line.split(":", 1)[1].strip()
            break
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


def relative_difference(mine, theirs, is_shifted, is_quantized):
    """The largest difference of logits in standard deviations; is_shifted: but for a constant. Of quantized rows the
    root of the mean square, as what rounding adds has no largest value."""
    mean, other = statistics.fmean(mine), statistics.fmean(theirs)
    shift = mean - other if is_shifted else 0.0
    deviation = statistics.pstdev(mine, mean)
    differences = [abs(a - b - shift) for a, b in zip(mine, theirs)]
    if is_quantized:
        return math.sqrt(statistics.fmean(d * d for d in differences)) / deviation
    return max(differences) / deviation


def check_logits(participants, is_resident, options):
    """How far each peer's last logits are from Assay's, before anything is timed; of quantized rows, Assay's among
    them, from Assay's in float32."""
    found = {}
    assay = next((p for p in participants if p.name == "assay"), None)
    if assay is None:
        return found
    is_quantized = PRECISIONS[assay.setting.precision].is_quantized
    judge = assay
    if is_quantized:
        setting = dataclasses.replace(assay.setting, precision="float32")
        judge = Participant("assay", setting, assay.cpus, options)
    ids = some_ids(CHECKED_IDS, 1000, assay.setting.shape.vocab)
    reference = judge.logits(ids)
    for p in participants:
        if p is judge or reference is None:
            continue
        if p.is_llama:
            answer = p.guarded(lambda p=p: p.worker.checked_logits(), "logits")
            mine = judge.logits(answer[0]) if answer else None
            theirs = answer[1] if answer else None
        else:
            mine, theirs = reference, p.logits(ids)
        if not is_resident:
            p.stop()
        if mine and theirs:
            found[p.name] = relative_difference(mine, theirs, p.is_llama, is_quantized)
    if judge is not assay:
        judge.stop()
    return found


def take_turns(participants, case, rounds, is_resident, readings):
    """Samples of each participant by name; the order rotates, so that nobody always follows the same one.
    The roofline at the case's working set, read before and after each turn of Assay's, is added to `readings`."""
    samples = {p.name: [] for p in participants}

    def read_roofline(p):
        if p.name == "assay" and p.worker is not None:
            readings.append(p.roofline(need(p.setting.size, case, p.setting.precision).bytes))

    for r in range(rounds):
        shift = r % len(participants)
        for p in participants[shift:] + participants[:shift]:
            time.sleep(SETTLE_S)
            read_roofline(p)
            value = p.turn(case, prompts(case, p.kind.is_ragged, p.setting.shape.vocab))
            read_roofline(p)
            if value is not None:
                samples[p.name].append(value)
            if not is_resident:
                p.stop()
    return samples


def spread_of(samples):
    """Interquartile range as a share of the median."""
    if len(samples) < 2:
        return 0.0
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return (high - low) / statistics.median(samples)


def agreement(mine, theirs):
    """Share of generated ids that are Assay's."""
    pairs = [(a, b) for x, y in zip(mine, theirs) for a, b in zip(x, y)]
    return sum(a == b for a, b in pairs) / len(pairs)


def make_row(p, case, samples):
    setting = p.setting
    row = {"case": case.name, "peer": p.name, "label": p.label, "precision": setting.precision}
    row |= {"threads": setting.threads, "isa": setting.isa, "model": setting.size, "marks": []}
    row |= {"context": case.context, "new_tokens": case.new_tokens}
    row |= {"status": "ok" if samples else "failed", "failure": p.failure, "tokens_per_s": samples}
    row["weight_bytes"] = p.loaded.get("weight_bytes") or None
    if samples:
        row |= {"median": statistics.median(samples), "spread": spread_of(samples)}
    return row


class Expected:
    """What peers usually reach, carried over to this machine's rooflines."""

    def __init__(self):
        table = json.loads((HERE / "expected.json").read_text(encoding="utf-8"))
        self.table, there = table, table["rooflines"]
        self.there = Rooflines(
            {float(size): 1e9 * rate for size, rate in there["read_gb_per_s"].items()},
            {name: 1e9 * rate for name, rate in there["products_gflops"].items()},
        )

    def tokens_per_s(self, name, case, setting, here):
        """None where nothing is known of it."""
        is_known = (setting.size, setting.threads, setting.isa) == (
            self.table["model"],
            self.table["threads"],
            "native",
        )
        usual = self.table["tokens_per_s"].get(setting.precision, {}).get(name, {}).get(case.name)
        if not is_known or usual is None:
            return None
        then = roofline_tokens_per_s(self.there, setting.size, case, setting.precision)
        now = roofline_tokens_per_s(here, setting.size, case, setting.precision)
        return usual * now / then if then and now else None


def is_low(row):
    return "median" in row and row.get("expected") and row["median"] < USUAL_SHARE * row["expected"]


def run_case(case, participants, options, differences, is_resident):
    """Rows of the case, one for each participant."""
    setting = participants[0].setting
    cpus = participants[0].cpus
    ids = {}
    for p in participants:
        p.forgive()
        ids[p.name] = p.warm_up(case, prompts(case, p.kind.is_ragged, setting.shape.vocab))
        if not is_resident:
            p.stop()
    known, readings = [rooflines(options.assay, setting.threads, cpus)], []
    samples = take_turns(participants, case, options.rounds, is_resident, readings)
    known = highest([*known, rooflines(options.assay, setting.threads, cpus)])
    expected, rows = Expected(), []
    for p in participants:
        row = make_row(p, case, samples[p.name])
        row["expected"] = expected.tokens_per_s(p.name, case, setting, known)
        if is_low(row):
            again = take_turns([p], case, options.rounds, is_resident, readings)[p.name]
            row = make_row(p, case, again) | {
                "expected": row["expected"],
                "first_tokens_per_s": samples[p.name],
            }
            row["marks"].append("crippled" if is_low(row) else "below its usual level: measured again")
        roofline = measured_roofline_tokens_per_s(readings, setting.size, case, setting.precision)
        roofline = roofline or roofline_tokens_per_s(known, setting.size, case, setting.precision, setting.isa)
        row["roofline"] = roofline
        row["share_of_roofline"] = row["median"] / roofline if roofline and "median" in row else None
        row["logit_difference"] = differences.get(p.name)
        tolerance = PRECISIONS[setting.precision].tolerance
        if row["logit_difference"] is not None and not row["logit_difference"] < tolerance:
            row["marks"].append(f"logits differ by {row['logit_difference']:.2g} deviations")
        if p.name not in ("assay", *differences) and p.failure is None:
            row["marks"].append("logits not checked")
        if setting.isa != "native" and p.kind.isa_limit == "part":
            row["marks"].append(f"held to {setting.isa} only in part")
        if p.name != "assay" and case.batch == 1 and ids.get("assay") and ids[p.name]:
            row["id_agreement"] = agreement(ids["assay"], ids[p.name])
        if known is not None and p.name == "assay":
            row["rooflines"] = {"read_bytes_per_s": known.read, "operations_per_s": known.products}
        rows.append(row)
    return rows


def read_whole(path):
    """Seconds to read the file by pread into one buffer."""
    buffer = bytearray(8 << 20)
    file = os.open(path, os.O_RDONLY)
    try:
        begin, at = time.perf_counter(), 0
        while got := os.preadv(file, [buffer], at):
            at += got
        return time.perf_counter() - begin
    finally:
        os.close(file)


def run_load(participants, options):
    """Loading by Assay in turns with plain reading of the same file, all of it in the page cache."""
    assay = next((p for p in participants if p.name == "assay"), None)
    if assay is None:
        return []
    folder = models.hugging_face(options.dir, options.model)
    request = {"model": str(folder), "threads": assay.setting.threads}
    request |= PRECISIONS[assay.setting.precision].request()
    if assay.setting.isa != "native":
        request["isa"] = assay.setting.isa
    file = folder / "model.safetensors"
    read_whole(file)
    load_s, pread_s = [], []
    for _ in range(options.rounds):
        time.sleep(SETTLE_S)
        pread_s.append(read_whole(file))
        time.sleep(SETTLE_S)
        answer = assay.guarded(lambda: assay.worker.ask("load", **request), "load")
        if answer:
            load_s.append(answer["load_s"])
    row = {"case": "load", "peer": "assay", "label": assay.label, "precision": assay.setting.precision}
    row |= {"threads": assay.setting.threads, "isa": assay.setting.isa, "model": options.model, "marks": []}
    row |= {
        "status": "ok" if load_s else "failed",
        "failure": assay.failure,
        "load_s": load_s,
        "pread_s": pread_s,
    }
    if load_s:
        row["ratio_to_pread"] = statistics.median(load_s) / statistics.median(pread_s)
    return [row]


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
        for name in options.cases:
            print(f"  {name}", file=sys.stderr)
            if name == "load":
                add_rows(run_load(participants, options))
            else:
                case = shortened(CASES[name], options.new_tokens)
                add_rows(run_case(case, participants, options, differences, is_resident))
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
    document = {"version": 1, "machine": machine_facts(options), "rounds": options.rounds, "rows": []}
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
                run_setting(Setting(precision, threads, isa, options.model), options, add_rows)
    return document


if __name__ == "__main__":
    asked = read_options()
    if asked.prepare:
        sys.exit(1 if prepare(asked) else 0)
    print(tables.markdown(compare(asked)))
    print(f"{asked.output / 'compare.json'}, {asked.output / 'compare.md'}", file=sys.stderr)
