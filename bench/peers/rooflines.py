"""What a case must read and compute at least, and how fast the machine could do it."""

import dataclasses
import json
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path

from precisions import PRECISIONS

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
from model_shapes import SHAPES  # noqa: E402  (its folder is put on the path above)

AVX2, AVX512 = "avx2 float32 FMA", "avx512 float32 FMA"
# Names of Assay's probes, best first, for what a precision's products are of and a tier.
PRODUCTS = {
    ("float32", "native"): (AVX512, AVX2),
    ("float32", "avx512"): (AVX512,),
    ("float32", "avx2"): (AVX2,),
    ("bfloat16", "native"): ("amx bfloat16", "avx512 bfloat16", AVX512, AVX2),
    ("bfloat16", "avx512"): ("avx512 bfloat16", AVX512),
    ("bfloat16", "avx2"): (AVX2,),
    ("int8", "native"): ("amx int8", "avx512 int8 VNNI", "avx2 int8 VNNI", "avx2 int8"),
    ("int8", "avx512"): ("avx512 int8 VNNI",),
    ("int8", "avx2"): ("avx2 int8 VNNI", "avx2 int8"),
}


@dataclasses.dataclass
class Rooflines:
    read: dict  # bytes of a working set -> bytes per second
    products: dict  # name -> operations per second

    def bytes_per_s(self, working_set):
        """Between the measured working sets, on logarithmic axes; beyond them, the nearest."""
        points = sorted(self.read.items())
        if not points:
            return None
        for (x0, y0), (x1, y1) in zip(points, points[1:]):
            if x0 <= working_set <= x1:
                share = math.log(working_set / x0) / math.log(x1 / x0)
                return y0 * (y1 / y0) ** share
        return points[0][1] if working_set < points[0][0] else points[-1][1]

    def operations_per_s(self, precision, isa):
        for name in PRODUCTS.get((PRECISIONS[precision].product, isa), ()):
            if self.products.get(name):
                return self.products[name]
        return None


def rooflines(assay, threads, cpus):
    """Measured now by `assay machine`, whose keys are known here alone; None where this build lacks it."""
    command = [str(assay), "machine", "--json", "-t", str(threads)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            preexec_fn=lambda: os.sched_setaffinity(0, cpus),
        )
        facts = json.loads(done.stdout) if done.returncode == 0 else {}
        known = Rooflines({}, {})
        for row in facts.get("read_bandwidth", []):
            if row["threads"] == threads:
                size = row["working_set_bytes"]
                known.read[size] = max(known.read.get(size, 0), 1e9 * row["gb_per_s"])
        for row in facts.get("products", []):
            if row["threads"] == threads and row["gflops"]:
                known.products[row["kind"]] = 1e9 * row["gflops"]
    except (OSError, ValueError, KeyError, TypeError, subprocess.TimeoutExpired):
        return None
    return known if known.read or known.products else None


def highest(some):
    """Of several measurements: a roofline is what was reached at best."""
    some = [each for each in some if each is not None]
    if not some:
        return None
    best = Rooflines({}, {})
    for each in some:
        for mine, theirs in ((best.read, each.read), (best.products, each.products)):
            for key, value in theirs.items():
                mine[key] = max(mine.get(key, 0), value)
    return best


@dataclasses.dataclass
class Need:
    """Of one forward pass of a case: all sequences of a decode step, or the whole prefill.

    2 x weights + attention for every token in every layer, the LM head for the last: one count for all. Programs
    that leave out the last layer's tokens which nobody reads (Assay: a fourteenth of GPT-2 124M; llama.cpp)
    compute less than it says.
    """

    bytes: float
    operations: float
    tokens: int


def weight_bytes(size, precision):
    """Read for a token: matrices and their scales, the LM head among them; norms and biases in float32."""
    shape = SHAPES[size]
    body, head = shape.body_weights(), shape.vocab * shape.hidden
    body_scales, head_scales = precision.output_scales()
    scales = shape.body_outputs() * body_scales + shape.vocab * head_scales
    codes = (body * precision.body_bits + head * precision.head_bits) / 8
    return codes + scales + 4 * shape.vector_elements()


def need(size, case, precision):
    shape = SHAPES[size]
    body, head = shape.body_weights(), shape.vocab * shape.hidden
    attention = shape.layers * 4 * shape.heads * shape.head_dim  # that of a token with one other
    read = weight_bytes(size, PRECISIONS[precision])
    if case.kind == "prefill":
        n = case.context
        operations = 2 * body * n + 2 * head + attention * shape.seen(range(1, n + 1))
        return Need(read, operations, n)
    past = shape.seen([case.context + (case.new_tokens + 1) / 2])
    read += case.batch * PRECISIONS[precision].kv_bytes * shape.kv_elements() * past
    operations = case.batch * (2 * body + 2 * head + attention * past)
    return Need(read, operations, case.batch)


def bound_tokens_per_s(per_pass, case, bytes_per_s, operations_per_s):
    """The longer of reading and computing decides; None where what the case needs is not known."""
    if case.kind == "prefill":
        return operations_per_s and per_pass.tokens * operations_per_s / per_pass.operations
    if not bytes_per_s:
        return None
    seconds = per_pass.bytes / bytes_per_s
    if operations_per_s:
        seconds = max(seconds, per_pass.operations / operations_per_s)
    return per_pass.tokens / seconds


def roofline_tokens_per_s(known, size, case, precision, isa="native"):
    """By the rooflines of `assay machine`; None where they are not known."""
    if known is None:
        return None
    per_pass = need(size, case, precision)
    rates = known.bytes_per_s(per_pass.bytes), known.operations_per_s(precision, isa)
    return bound_tokens_per_s(per_pass, case, *rates)


def measured_roofline_tokens_per_s(readings, size, case, precision):
    """By readings of Participant.roofline in turns with the case; None of none."""
    readings = [each for each in readings if each is not None]
    if not readings:
        return None
    rates = [statistics.median(column) for column in zip(*readings)]
    return bound_tokens_per_s(need(size, case, precision), case, *rates)
