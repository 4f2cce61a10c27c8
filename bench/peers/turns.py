"""A case measured: everybody warmed up, then in turns, and what came of it as rows."""

import dataclasses
import math
import statistics
import time

from cases import prompts, some_ids
from expected import is_low
from intervals import paired_ratio
from participants import Participant
from precisions import PRECISIONS
from rooflines import measured_roofline_tokens_per_s, need, roofline_tokens_per_s

SETTLE_S = 0.3  # between turns: threads that spin after their work have gone to sleep by then
CHECKED_IDS = 128


def relative_difference(mine, theirs, is_rounded):
    """The largest difference of logits in standard deviations; of rounded arithmetic the root of the mean square."""
    deviation = statistics.pstdev(mine)
    differences = [abs(a - b) for a, b in zip(mine, theirs)]
    if is_rounded:
        return math.sqrt(statistics.fmean(d * d for d in differences)) / deviation
    return max(differences) / deviation


def check_logits(participants, is_resident, options):
    """How far each peer's last logits are from Assay's, before anything is timed; of quantized rows, Assay's among
    them, from Assay's in float32."""
    found = {}
    assay = next((p for p in participants if p.name == "assay"), None)
    if assay is None:
        return found
    precision = PRECISIONS[assay.setting.precision]
    judge = assay
    if precision.is_quantized:
        setting = dataclasses.replace(assay.setting, precision="float32")
        judge = Participant("assay", setting, assay.cpus, options)
    ids = some_ids(CHECKED_IDS, 1000, assay.setting.shape.vocab)
    reference = judge.logits(ids)
    if judge is not assay:
        judge.stop()
    for p in participants:
        if p is judge or reference is None:
            continue
        theirs = p.logits(ids)
        if not is_resident:
            p.stop()
        if theirs:
            found[p.name] = relative_difference(reference, theirs, precision.is_rounded)
    return found


def take_turns(participants, case, rounds, is_resident, readings):
    """Samples of each participant by name, one of each round, None where it failed; the order rotates, so that nobody
    always follows the same one. The roofline at the case's working set, read before and after each turn of Assay's, is
    added to `readings`."""
    samples = {p.name: [] for p in participants}

    def read_roofline(p):
        if p.name == "assay" and p.worker is not None:
            readings.append(p.roofline(need(p.setting.size, case, p.setting.precision).bytes))

    for r in range(rounds):
        shift = r % len(participants)
        for p in participants[shift:] + participants[:shift]:
            time.sleep(SETTLE_S)
            read_roofline(p)
            samples[p.name].append(p.turn(case, prompts(case, p.setting.shape.vocab)))
            read_roofline(p)
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


def make_row(p, case, by_round, assay_by_round):
    """`ratio` is Assay's rate over the row's in the same rounds."""
    setting, samples = p.setting, [x for x in by_round if x is not None]
    row = {"case": case.name, "peer": p.name, "label": p.label, "precision": setting.precision}
    row |= {"threads": setting.threads, "isa": setting.isa, "model": setting.size, "marks": []}
    row |= {"context": case.context, "new_tokens": case.new_tokens}
    row |= {"status": "ok" if samples else "failed", "failure": p.failure, "tokens_per_s": samples}
    row["weight_bytes"] = p.loaded.get("weight_bytes") or None
    row |= p.memory()
    if samples:
        row |= {"median": statistics.median(samples), "spread": spread_of(samples)}
    if samples and p.name != "assay" and assay_by_round:
        row["ratio"] = paired_ratio(assay_by_round, by_round)
    if samples and p.is_pinned is False:
        row["marks"].append("its threads had no processor each")
    if p.loaded.get("has_all_positions") and case.kind == "prefill":
        row["marks"].append("computes the logits of all positions")
    return row


def measured_again(p, assay, row, case, options, is_resident, readings, expected):
    """The row after more rounds, in turns with Assay."""
    pair = [each for each in (assay, p) if each is not None]
    samples = take_turns(pair, case, options.rounds, is_resident, readings)
    if not any(samples[p.name]):
        return row
    again = make_row(p, case, samples[p.name], samples.get("assay"))
    again |= {"expected": expected, "first_tokens_per_s": row["tokens_per_s"]}
    again["marks"].append("crippled" if is_low(again) else "below its usual level: measured again")
    return again


def run_case(case, participants, options, differences, is_resident, known, expected):
    """Rows of the case, one for each participant. `known`: the rooflines of `assay machine`."""
    setting = participants[0].setting
    assay = next((p for p in participants if p.name == "assay"), None)
    ids = {}
    for p in participants:
        p.forgive()
        ids[p.name] = p.warm_up(case, prompts(case, setting.shape.vocab))
        if not is_resident:
            p.stop()
    readings = []
    samples = take_turns(participants, case, options.rounds, is_resident, readings)
    roofline = measured_roofline_tokens_per_s(readings, setting.size, case, setting.precision)
    roofline = roofline or roofline_tokens_per_s(known, setting.size, case, setting.precision, setting.isa)
    rows = []
    for p in participants:
        row = make_row(p, case, samples[p.name], samples.get("assay"))
        usual = expected.tokens_per_s(p.name, case, setting, known, roofline)
        row["expected"] = usual
        if is_low(row) and not p.is_assay:
            row = measured_again(p, assay, row, case, options, is_resident, readings, usual)
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
        if p.name != "assay" and ids.get("assay") and ids[p.name]:
            row["id_agreement"] = agreement(ids["assay"], ids[p.name])
        if known is not None and p.name == "assay":
            row["rooflines"] = {"read_bytes_per_s": known.read, "operations_per_s": known.products}
        rows.append(row)
    return rows
