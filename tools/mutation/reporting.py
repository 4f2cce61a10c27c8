"""The share of the bugs that the tests find, as a table and as docs/mutation.md."""
from .mutants import key_of
from .places import DOCUMENT, TARGET


def shorten(text, most=110):
    return text if len(text) <= most else text[: most - 3] + "..."


def table(folders, results, equivalent):
    lines = ["| folder | planted | found | survived | equivalent | found of those that can be |", "|---|---|---|---|---|---|"]
    fine = True
    for folder in folders:
        own = [(m, r) for m, r in results if m.file.split("/")[0] == folder]
        same = [m for m, _ in own if key_of(m) in equivalent]
        found = sum(r == "found" for m, r in own if key_of(m) not in equivalent)
        left = len(own) - len(same) - found
        share = 100 * found / max(1, found + left)
        fine = fine and share >= TARGET
        lines.append(f"| `{folder}` | {len(own)} | {found} | {left} | {len(same)} | {share:.0f} % |")
    return lines, fine


def survivors_of(results, equivalent):
    return [(m, r) for m, r in results if r != "found" and key_of(m) not in equivalent]


def document(args, folders, results, equivalent, names, seconds):
    lines, _ = table(folders, results, equivalent)
    by_hand = [(m, r) for m, r in results if m.kind.startswith("planted: ")]
    left = survivors_of(results, equivalent)
    text = [
        "# Planted bugs that the tests find", "",
        "Written by `tools/mutate.py --write-docs`, which plants bugs in the measuring layer, one at a time, and runs the tests of",
        "the same folders; its first lines say how. A bug is found when a test fails, crashes or runs far too long.", "",
        f"Sample: {args.count} bugs a folder, seed {args.seed}, beside those planted by hand; {len(names)} tests.", "",
        *lines, "",
        "Equivalent are bugs that change nothing that anyone could see; `tests/mutation/equivalent.txt` gives the reason of each.",
        "", "## Planted by hand", "", f"Of {len(by_hand)} bugs in `tests/mutation/planted.txt`, "
        f"{sum(r == 'found' for _, r in by_hand)} are found.", "", "| file | bug | |", "|---|---|---|",
        *[f"| `{m.file}` | {m.kind[9:]} | {r} |" for m, r in by_hand], "",
        "## Survivors", "",
    ]  # fmt: skip
    if left:
        text += ["| place | kind | before | after | |", "|---|---|---|---|---|"]
        for m, r in left:
            cells = [shorten(s, 70).replace("|", "\\|").replace("`", "'") for s in (m.before, m.after)]
            text.append(f"| {m.file}:{m.line} | {m.kind} | {cells[0]} | {cells[1]} | {r} |")
    else:
        text.append("None.")
    DOCUMENT.write_text("\n".join(text) + "\n")
