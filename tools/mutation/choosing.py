"""Which mutants a run tries: a sample of each folder, beside those planted by hand."""
import collections
import json
import random

from .mutants import planted
from .operators import Finder
from .places import COPY, MEASURING, ROOT


def sample(mutants, count, seed, folder):
    """Spread over files by the root of their sizes, and over kinds within a file."""
    chance = random.Random(f"{seed} {folder}")
    by_file = collections.defaultdict(lambda: collections.defaultdict(list))
    for m in mutants:
        by_file[m.file][m.kind].append(m)
    queues = {}
    for file, kinds in sorted(by_file.items()):
        queue = []
        lists = [chance.sample(kinds[k], len(kinds[k])) for k in sorted(kinds)]
        while lists:
            chance.shuffle(lists)
            queue += [one.pop() for one in lists]
            lists = [one for one in lists if one]
        queues[file] = queue
    weights = {file: len(queue) ** 0.5 for file, queue in queues.items()}
    taken, chosen = collections.Counter(), []
    while len(chosen) < count and any(queues.values()):
        file = min((f for f in queues if queues[f]), key=lambda f: ((taken[f] + 0.5) / weights[f], f))
        chosen.append(queues[file].pop(0))
        taken[file] += 1
    return chosen


def choose(args):
    """The mutants of this run, by number, and the folders they are in."""
    last = COPY / "last.json"
    wanted = set()
    if args.survivors:
        kept = json.loads(last.read_text())
        args.folders = kept["folders"]
        args.count, args.seed = kept["count"], kept["seed"]
        wanted = set(kept["survivors"])
    folders = args.folders or ([args.only.split("/")[0]] if args.only else MEASURING)
    numbered, number = {}, 0
    for folder in folders:
        mutants, by_hand = [], []
        for path in sorted((ROOT / "src/assay" / folder).rglob("*.cpp")):
            name = str(path.relative_to(ROOT / "src/assay"))
            if args.only and name != args.only:
                continue
            text = path.read_text()
            mutants += Finder(name, text).run()
            by_hand += planted(name, text)
        # A quarter more than asked for stands in for those that do not compile.
        chosen = mutants if args.only else sample(mutants, args.count + args.count // 3, args.seed, folder)
        for m in by_hand + chosen:
            number += 1
            numbered[number] = m
    return folders, numbered, wanted


def first_of(numbered, compiled, count):
    """Those that count: all planted by hand, and of each folder the first that compile."""
    taken, chosen = collections.Counter(), {}
    for number, m in numbered.items():
        folder = m.file.split("/")[0]
        if number not in compiled:
            if m.kind.startswith("planted: "):
                print(f"planted.txt: does not compile and is left out: {m.before} -> {m.after}", flush=True)
            continue
        if m.kind.startswith("planted: "):
            chosen[number] = m
        elif count is None or taken[folder] < count:
            taken[folder] += 1
            chosen[number] = m
    return chosen
