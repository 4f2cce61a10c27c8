"""A compare.py document as Markdown tables."""

from intervals import ratio_text
from rooflines import SHAPES


def is_assay(row):
    """Its row, or the one that it is held to."""
    return row["peer"].startswith("assay")


def best_peer(rows, case):
    """The fastest row not Assay's, or None. A marked one counts: it can only make Assay look worse."""
    found = [r for r in rows if r["case"] == case and not is_assay(r) and "median" in r]
    return max(found, key=lambda r: r["median"], default=None)


def groups(rows):
    """Rows of the same setting, in the order of their first."""
    found = {}
    for row in rows:
        found.setdefault((row["isa"], row["threads"], row["precision"], row["model"]), []).append(row)
    return found


def cell(row):
    if row is None:
        return ""
    if "median" not in row:
        return "failed"
    digits = 0 if row["median"] >= 200 else 1
    return f"{row['median']:.{digits}f} ({100 * row['spread']:.0f} %)" + ("*" if row["marks"] else "")


def line(cells):
    return "| " + " | ".join(cells) + " |"


def table(rows):
    cases = list(dict.fromkeys(r["case"] for r in rows))
    peers = list(dict.fromkeys(r["peer"] for r in rows))
    at = {(r["peer"], r["case"]): r for r in rows}
    labels = {r["peer"]: r["label"] for r in rows}
    held = {r["peer"]: r.get("weight_bytes") for r in rows}
    out = [line(["", "weights, MB", *cases]), line(["---"] + ["---:"] * (len(cases) + 1))]
    for peer in peers:
        size = f"{held[peer] / 1e6:.1f}" if held[peer] else ""
        cells = (cell(at.get((peer, case))) for case in cases)
        out.append(line([f"{peer}: {labels[peer]}", size, *cells]))
    ratios, shares = [], []
    for case in cases:
        mine, best = at.get(("assay", case)), best_peer(rows, case)
        has_both = mine and best and "median" in mine
        ratio = best.get("ratio") if has_both else None
        text = ratio_text(ratio) if ratio else f"{mine['median'] / best['median']:.2f}" if has_both else ""
        ratios.append(f"{text} ({best['peer']})" if has_both else "")
        share = mine.get("share_of_roofline") if mine else None
        shares.append(f"{100 * share:.0f} %" if share else "")
    out.append(line(["Assay / best peer", "", *ratios]))
    out.append(line(["Assay, share of roofline", "", *shares]))
    return out


def notes(rows):
    out = []
    for row in rows:
        for mark in row["marks"]:
            out.append(f"- {row['peer']}, {row['case']}: {mark}")
        if row.get("failure"):
            out.append(f"- {row['peer']}, {row['case']}: {row['failure']}")
    return list(dict.fromkeys(out))


def markdown(document):
    machine = document["machine"]
    load = machine["load_average"][0]
    out = [
        "# Assay beside its peers",
        "",
        f"{machine['cpu']}, processors {machine['cpus']}, load average {load:.1f} at the start; "
        f"{machine['assay']}, {document['date']}. Tokens/s, medians of {document['rounds']} rounds in turns (interquartile "
        "range / median); the ratio with its 95 % interval over the rounds; * see below. Weights: all of them with their scales, as each holds them. Quantized rows of "
        "Assay: everything else, keys and values in bfloat16.",
    ]
    out += [f"\n**Failed: {failure}**" for failure in document.get("failures", ())]
    for (isa, threads, precision, model), rows in groups(document["rows"]).items():
        out += ["", f"## {precision}, {threads} thread(s), {isa}, {SHAPES[model].label}"]
        timed = [row for row in rows if row["case"] != "load"]
        if timed:
            out += ["", *table(timed)]
        for row in rows:
            if row["case"] == "load" and "ratio_to_pread" in row:
                out += [
                    "",
                    f"Loading takes {row['ratio_to_pread']:.2f} times as long as reading the file by pread.",
                ]
        if notes(rows):
            out += ["", *notes(rows)]
    return "\n".join(out) + "\n"
