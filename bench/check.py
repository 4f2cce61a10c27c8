#!/usr/bin/env python3
"""Holds Assay to its targets against the peers and the rooflines measured beside it: each as a ratio, passed or failed.

usage: bench/check.py COMPARE.json...      judges what bench/peers/compare.py wrote, or bench/results/NAME.json, by the
                                           targets of that kind of processor; files of one kind are joined
       bench/check.py --output DIR [...]   measures what the targets need first (an hour; a quiet machine)
       bench/check.py --only quantized ... the targets of quantized precisions, or plain: the others
Exit code 1 when a target is missed or cannot be judged. A target against the best peer is not judged where that peer is
crippled, or where a crippled one would be the best at its usual level: what Assay then passes says little.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))
import compare  # noqa: E402  (its folder is put on the path above)
import models  # noqa: E402
import processor  # noqa: E402
from intervals import ratio_text  # noqa: E402
from participants import KINDS  # noqa: E402
from tables import best_peer, is_assay  # noqa: E402
from targets import TARGETS  # noqa: E402

THREADS, MODEL = 2, "124m"
HIGHEST_SHARE = 1.03  # above it the measurement of the roofline was disturbed
OLD_KIND = "amx"  # those of files that do not name their processor's kind


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


PASS, FAIL, MISSING, NOT_JUDGED = "pass", "FAIL", "MISSING", "NOT JUDGED"


def verdict(value, has_passed):
    return MISSING if not value else PASS if has_passed else FAIL


def judge(target, rows):
    """(what was found, the verdict)."""
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
        return f"{text}, at most {target.of_pread:g}", verdict(ratio, ratio and ratio <= target.of_pread)
    if "median" not in row:
        return f"missing: {row.get('failure') or 'not measured'}", MISSING
    share = row.get("share_of_roofline")
    if target.of_roofline is not None:
        text = f"{100 * share:.0f} % of the roofline" if share else "roofline unknown"
        has_passed = share and share >= target.of_roofline
        return f"{text}, at least {100 * target.of_roofline:.0f} %", verdict(share, has_passed)
    if target.of_base is not None:
        base, name = found("assay-base").get("median"), KINDS["assay-base"].forms[target.precision]
        text = f"{row['median'] / base:.3f}x" if base else "no row"
        has_passed = base and row["median"] >= target.of_base * base
        return f"{text} of Assay's {name}, at least {target.of_base:.3g}", verdict(base, has_passed)
    return judge_beside_peers(target, row, [r for r in same if r["case"] == target.case and not is_assay(r)])


def judge_beside_peers(target, row, peers):
    best = best_peer(peers, target.case)
    if best is None:
        return "no peer was measured", MISSING
    known, share = best.get("ratio"), row.get("share_of_roofline")
    ratio = known["estimate"] if known else row["median"] / best["median"]
    text = f"{ratio_text(known) if known else f'{ratio:.2f}'}x the best peer "
    text += f"({': '.join([best['peer'], *best['marks']])}), at least {target.of_best_peer:g}"
    absent = [r["peer"] for r in peers if "median" not in r]
    text += f" (no figure of {', '.join(absent)})" if absent else ""
    if target.or_of_roofline is not None:
        text += f", or {100 * target.or_of_roofline:.0f} % of the roofline"
        text += f" ({100 * share:.0f} %)" if share else " (not known)"
        if share and share >= target.or_of_roofline:
            return text, PASS
    if ratio < target.of_best_peer:
        return text, FAIL  # the more so against peers at their best
    in_doubt = crippled_rivals(peers, best)
    if in_doubt:
        return f"{text}; {', '.join(in_doubt)}: crippled", NOT_JUDGED
    return text, PASS


def crippled_rivals(rows, best):
    """Names of the crippled peers that are the best, or would be at their usual level."""
    return [
        r["peer"]
        for r in rows
        if "crippled" in r["marks"] and (r is best or (r.get("expected") or 0) > best["median"])
    ]


def read_document(path):
    """(kind of processor, rows)."""
    document = json.loads(path.read_text(encoding="utf-8"))
    return document["machine"].get("kind", OLD_KIND), document["rows"]


def report(targets, rows):
    """Prints each target; gives how many failed or could not be judged."""
    bad = 0
    for target in targets:
        text, word = judge(target, rows)
        bad += word != PASS
        print(f"{word:<12}{target.case:<12} {target.precision:<22} {target.isa:<7} {text}")
    for row in rows:
        # The lower end of what so few rounds show is the slowest of them.
        share = row.get("share_of_roofline") or 0
        lowest = share * min(row.get("tokens_per_s") or [0]) / row["median"] if share else 0
        if lowest > HIGHEST_SHARE:
            bad += 1
            text = f"{row['peer']}, {row['threads']} thread(s): at least {100 * lowest:.0f} % of the roofline"
            print(f"{FAIL:<12}{row['case']:<12} {row['precision']:<22} {row['isa']:<7} {text}, so its measurement was disturbed")
    return bad


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="COMPARE.json")
    parser.add_argument("--output", type=Path, metavar="DIR", help="measure first, into this folder")
    parser.add_argument("--only", choices=("plain", "quantized"), help="of the targets; default: all")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--dir", type=Path, default=models.default_dir(), help="where setup.sh put the peers")
    parser.add_argument("--assay", type=Path, default=models.ROOT / "build" / "release" / "assay")
    a = parser.parse_args()
    if bool(a.files) == bool(a.output):
        parser.error("give files to judge, or --output DIR to measure first")
    found = {}  # rows by kind of processor
    for path in a.files:
        kind, rows = read_document(path)
        found.setdefault(kind, []).extend(rows)
    if a.output:
        kind = processor.facts()["kind"]
        found[kind] = []
        common = ["--rounds", str(a.rounds), "--dir", str(a.dir), "--assay", str(a.assay)]
        for arguments in needed_runs(chosen_targets(kind, a.only), a.output):
            found[kind] += compare.compare(compare.read_options([*arguments, *common]))["rows"]
    bad = 0
    for kind, rows in found.items():
        print(f"targets of processors with {kind}:")
        bad += report(chosen_targets(kind, a.only), rows) or kind not in TARGETS
    return 1 if bad else 0


def chosen_targets(kind, only):
    return [t for t in TARGETS.get(kind, ()) if only in (None, t.group)]


if __name__ == "__main__":
    sys.exit(main())
