#!/usr/bin/env python3
"""Holds Assay to its targets against the peers and the rooflines measured beside it: each as a ratio, passed or failed.

usage: bench/check.py COMPARE.json...      judges what bench/peers/compare.py wrote; several files are joined
       bench/check.py --output DIR [...]   measures what the targets need first (an hour; a quiet machine)
       bench/check.py --only quantized ... the targets of quantized precisions, or plain: the others
Exit code 1 when a target is missed or cannot be judged.
"""

import argparse
import dataclasses
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))
import compare  # noqa: E402  (its folder is put on the path above)
import models  # noqa: E402
from participants import KINDS  # noqa: E402
from precisions import PRECISIONS  # noqa: E402
from tables import best_peer, is_assay  # noqa: E402


@dataclasses.dataclass(frozen=True)
class Target:
    """Of Assay's row with the medians of GPT-2 124M; what is None is not asked for."""

    case: str
    precision: str
    isa: str = "native"
    of_best_peer: float = None  # at least this ratio to the fastest peer of the same precision
    of_roofline: float = None  # at least this share of the case's roofline
    or_of_roofline: float = None  # this share of the roofline satisfies of_best_peer too
    of_base: float = None  # at least this ratio to Assay in the precision that participants.py holds it to
    of_pread: float = None  # at most this multiple of the time of reading the file

    @property
    def group(self):
        return "quantized" if PRECISIONS[self.precision].is_quantized else "plain"


THREADS, MODEL = 2, "124m"
INT8 = "int8-dynamic+head:int8"
HIGHEST_SHARE = 1.03  # above it the measurement of the roofline was disturbed

TARGETS = (
    Target("decode-0", "float32", of_best_peer=1.05, or_of_roofline=0.90),
    Target("decode-0", "bfloat16", of_best_peer=1.4, or_of_roofline=0.90),
    Target("decode-0", "float32", of_roofline=0.90),
    Target("decode-0", "bfloat16", of_roofline=0.90),
    Target("decode-900", "float32", of_roofline=0.85),
    Target("decode-900", "bfloat16", of_roofline=0.85),
    Target("prefill-512", "float32", of_best_peer=1.15),
    Target("prefill-512", "float32", of_roofline=0.75),
    Target("prefill-512", "bfloat16", of_best_peer=2.5),
    Target("prefill-512", "bfloat16", of_roofline=0.35),
    Target("prefill-512", "bf16x3", of_base=2.0),
    Target("batch-32", "float32", of_best_peer=1.5),
    Target("batch-32", "bfloat16", of_best_peer=1.6),
    Target("load", "float32", of_pread=3.0),
    *(
        Target(case, precision, isa, of_roofline=share)
        for isa in ("avx2", "avx512")
        for case, precision, share in (
            ("decode-0", "float32", 0.80),
            ("decode-0", "bfloat16", 0.80),
            ("prefill-512", "float32", 0.70),
        )
    ),
    # Ahead of the peers that are restricted alike.
    *(
        Target(case, precision, isa, of_best_peer=1.0, or_of_roofline=0.90)
        for isa in ("avx2", "avx512")
        for case, precision in (
            ("decode-0", "float32"),
            ("decode-0", "bfloat16"),
            ("prefill-512", "float32"),
        )
    ),
    Target("decode-0", INT8, of_best_peer=1.5, or_of_roofline=0.90),
    Target("decode-0", "nf4+head:int8", of_best_peer=1.25, or_of_roofline=0.90),
    Target("decode-0", "nf4+head:nf4", of_best_peer=1.5, or_of_roofline=0.90),
    Target("decode-0", INT8, of_roofline=0.80),
    Target("decode-0", "nf4+head:int8", of_roofline=0.70),
    Target("decode-0", "nf4+head:nf4", of_roofline=0.70),
    Target("prefill-512", INT8, of_best_peer=3.0),
    Target("prefill-512", INT8, of_roofline=0.25),
    Target("prefill-512", "nf4", of_base=0.85),
    Target("prefill-512", "fp4", of_base=0.85),
    *(
        Target(case, precision, of_base=ratio)
        for case in ("decode-0", "prefill-512")
        for precision, ratio in (("int8-static+head:int8", 1.0), ("llm-int8", 1 / 1.5))
    ),
    Target("batch-32", INT8, of_best_peer=2.0),
    Target("batch-32", "nf4+head:int8", of_best_peer=1.8),
    # Loading quantizes: the whole file is read, and every matrix becomes codes.
    Target("load", INT8, of_pread=3.0),
    Target("load", "nf4+head:nf4", of_pread=3.0),
    *(
        Target(case, INT8, isa, of_roofline=share)
        for isa in ("avx2", "avx512")
        for case, share in (("decode-0", 0.80), ("prefill-512", 0.70))
    ),
)


def needed_runs(targets, output):
    """Arguments of compare.py for what the targets need, a run for each instruction set and precision."""
    for isa, precision in dict.fromkeys((t.isa, t.precision) for t in targets):
        its = [t for t in targets if (t.isa, t.precision) == (isa, precision)]
        has_peers, has_base = any(t.of_best_peer for t in its), any(t.of_base for t in its)
        folder = output / f"{isa}-{precision.replace(':', '-')}"
        yield [
            *("--model", MODEL, "--threads", str(THREADS), "--isa", isa, "--output", str(folder)),
            *("--cases", ",".join(dict.fromkeys(t.case for t in its)), "--precisions", precision),
            *([] if has_peers else ["--peers", "assay,assay-base" if has_base else "assay"]),
        ]


def judge(target, rows):
    """(what was found, whether it passed; None where it cannot be told)."""
    setting = {"threads": THREADS, "model": MODEL, "isa": target.isa}
    here = [r for r in rows if all(r[key] == value for key, value in setting.items())]
    same = [r for r in here if r["precision"] == target.precision]

    def found(peer):
        rows = [r for r in same if (r["peer"], r["case"]) == (peer, target.case)]
        return rows[-1] if rows else {}

    row = found("assay")
    if target.of_pread is not None:
        ratio = row.get("ratio_to_pread")
        text = f"{ratio:.2f}x the time of pread" if ratio else "not measured"
        return f"{text}, at most {target.of_pread:g}", ratio and ratio <= target.of_pread
    if "median" not in row:
        return f"missing: {row.get('failure') or 'not measured'}", None
    share = row.get("share_of_roofline")
    if target.of_roofline is not None:
        text = f"{100 * share:.0f} % of the roofline" if share else "roofline unknown"
        return f"{text}, at least {100 * target.of_roofline:.0f} %", share and share >= target.of_roofline
    if target.of_base is not None:
        base, name = found("assay-base").get("median"), KINDS["assay-base"].forms[target.precision]
        text = f"{row['median'] / base:.3f}x" if base else "no row"
        has_passed = base and row["median"] >= target.of_base * base
        return f"{text} of Assay's {name}, at least {target.of_base:.3g}", has_passed
    best = best_peer(same, target.case)
    if best is None:
        return "no peer was measured", None
    ratio = row["median"] / best["median"]
    text = f"{ratio:.2f}x the best peer ({': '.join([best['peer'], *best['marks']])}), "
    text += f"at least {target.of_best_peer:g}"
    absent = [r["peer"] for r in same if r["case"] == target.case and "median" not in r and not is_assay(r)]
    text += f" (no figure of {', '.join(absent)})" if absent else ""
    has_passed = ratio >= target.of_best_peer
    if target.or_of_roofline is not None:
        text += f", or {100 * target.or_of_roofline:.0f} % of the roofline"
        text += f" ({100 * share:.0f} %)" if share else " (not known)"
        has_passed = has_passed or bool(share and share >= target.or_of_roofline)
    return text, has_passed


def read_rows(path):
    """Of compare.py; files of earlier versions call the share of the roofline otherwise."""
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    for row in rows:
        if "share_of_roof" in row:
            row["share_of_roofline"] = row.pop("share_of_roof")
    return rows


def report(targets, rows):
    """Prints each target; gives how many failed or could not be judged."""
    bad = 0
    for target in targets:
        text, has_passed = judge(target, rows)
        word = "MISSING" if has_passed is None else "pass" if has_passed else "FAIL"
        bad += not has_passed
        print(f"{word:<8}{target.case:<12} {target.precision:<22} {target.isa:<7} {text}")
    for row in rows:
        # The lower end of what so few rounds show is the slowest of them.
        share = row.get("share_of_roofline") or 0
        lowest = share * min(row["tokens_per_s"]) / row["median"] if share else 0
        if lowest > HIGHEST_SHARE:
            bad += 1
            text = f"{row['peer']}, {row['threads']} thread(s): at least {100 * lowest:.0f} % of the roofline"
            print(f"FAIL    {row['case']:<12} {row['precision']:<22} {row['isa']:<7} {text}, so its measurement was disturbed")
    return bad


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="COMPARE.json")
    parser.add_argument("--output", type=Path, metavar="DIR", help="measure first, into this folder")
    parser.add_argument("--only", choices=("plain", "quantized"), help="of the targets; default: all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dir", type=Path, default=models.default_dir(), help="where setup.sh put the peers")
    parser.add_argument("--assay", type=Path, default=models.ROOT / "build" / "release" / "assay")
    a = parser.parse_args()
    if bool(a.files) == bool(a.output):
        parser.error("give files to judge, or --output DIR to measure first")
    targets = [t for t in TARGETS if a.only in (None, t.group)]
    rows = []
    for path in a.files:
        rows += read_rows(path)
    if a.output:
        common = ["--rounds", str(a.rounds), "--dir", str(a.dir), "--assay", str(a.assay)]
        for arguments in needed_runs(targets, a.output):
            rows += compare.compare(compare.read_options([*arguments, *common]))["rows"]
    return 1 if report(targets, rows) else 0


if __name__ == "__main__":
    sys.exit(main())
