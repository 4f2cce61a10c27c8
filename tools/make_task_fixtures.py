#!/usr/bin/env python3
"""Writes tests/fixtures/tasks: 200 items of each kind of task, and what lm-eval measures of them with the model that ships.

    tools/make_task_fixtures.py                                       # needs lm-eval 0.4.13 (tools/requirements.txt)
    tools/make_task_fixtures.py --model FOLDER --output FOLDER        # with another model, to compare by hand:
    tools/make_task_fixtures.py --model FOLDER --output FOLDER --check build/release/assay

The kinds are those of `assay task`: its own three, and the files of six data sets in the form in which they are downloaded,
which lm-eval's own task files score. All items are made of the words of models/demo/texts by a seeded generator. Every
kind has what is hard: blanks around texts, empty prompts, other scripts, ties, prompts that exceed the context, answers as
places and as texts. A line of `expected.json` per item has a digit (1: acc, 2: acc_norm, 4: acc_bytes) and the
log-likelihoods, with six digits behind the point.
"""

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import lm_eval
from make_quality_fixtures import (DOWNLOADS, OF_CHOICES, OF_COMPLETIONS, write_download_task, write_lines,
                                   write_task)  # fmt: skip
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager

ROOT = Path(__file__).resolve().parent.parent
ITEMS = 200
LONG = 2  # items of each kind whose prompt exceeds the context
SUBJECTS = ("abstract_algebra", "us_foreign_policy", "high_school_us_history")
STRANGE = ["naïve — déjà vu", "été", "e\u0301te\u0301", "река течёт", "ζωή", "川は長い", "🙂👨‍👩‍👧", "½ ﬁ ﬃ", "\u00a0nbsp", "שלום",
           "x\u200by", "tab\there", "two\nlines", "CAPITALS", "12,000.50", "it's o'clock", '"quoted"', "\\n \\ {x}",
           "<|endoftext|>", "a" * 40]  # fmt: skip
CONTEXTS = '''def text(doc): return doc["place"]
def choices(doc): return doc["contexts"]
def target(doc): return doc["continuation"]
'''


class Words:
    """Parts of the project's own texts, by a seeded generator."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        text = "\n\n".join((ROOT / f"models/demo/texts/{name}.txt").read_text() for name in ("evaluate", "calibrate"))
        self.text = text
        self.sentences = [s for p in text.split("\n\n") for s in re.split(r"(?<=[.!?])\s+", p.strip()) if len(s.split()) > 7]

    def sentence(self):
        return self.rng.choice(self.sentences)

    def phrase(self, low=1, high=7):
        words = self.sentence().split()
        begin = self.rng.randrange(len(words) - 1)
        phrase = " ".join(words[begin : begin + self.rng.randint(low, high)])
        return phrase + " " + self.rng.choice(STRANGE) if self.rng.random() < 0.12 else phrase

    def strange(self):
        return self.rng.choice(STRANGE)

    def long(self):
        """More than the context of the model that ships."""
        begin = self.rng.randrange(4000)
        return self.text[begin : begin + self.rng.randint(4600, 5200)].strip()

    def prompt(self, number):
        """Number 0 and 1 are long; then come the other hard ones."""
        sentence = self.sentence()
        cut = " ".join(sentence.split()[: self.rng.randint(2, 12)])
        hard = {0: self.long, 1: self.long, 2: lambda: "", 3: lambda: cut + " ", 4: lambda: cut + "  \n", 5: lambda: "  " + cut,
                6: lambda: cut + "\u00a0", 7: lambda: self.strange(), 8: lambda: f"<|endoftext|>{cut}", 9: lambda: "",
                10: lambda: cut + "<|endoftext|>", 11: lambda: "." + cut + "\t"}  # fmt: skip
        return hard[number]() if number in hard else cut

    def choices(self, number, count, sizes=(1, 7)):
        found = [self.phrase(*sizes) for _ in range(count)]
        if number % 17 == 3:
            found[-1] = found[0]  # a tie
        if number % 17 == 4:
            found = [self.strange() for _ in found]
        if number % 17 == 5:
            found[0], found[-1] = " " + found[0], found[-1] + " "
        if number % 17 == 6:
            found = [self.rng.choice("abcdefgxyz.,;!?") for _ in found]  # each has one token, and they share their inputs
        if number % 17 == 7:
            found[1] = found[0] + found[1]  # one begins the other
        if number == 13:
            found[0] = self.text[:1200].strip()
        return found

    def answer(self, choices, number):
        """As a place, a text or a place in digits; and the place."""
        place = self.rng.randrange(len(choices))
        if number % 3 == 1:
            return choices[place], choices.index(choices[place])
        if number % 3 == 2 and str(place) not in choices:
            return str(place), place
        return place, place


def choices_items(words):
    for i in range(ITEMS):
        choices = words.choices(i, words.rng.randint(2, 5))
        answer, place = words.answer(choices, i)
        yield {"prompt": words.prompt(i), "choices": choices, "answer": answer}, {"answer": place}


def contexts_items(words):
    for i in range(ITEMS):
        prompt = words.prompt(i)
        contexts = [f"{prompt} {choice}".lstrip(" ") if i > 12 else prompt + choice for choice in words.choices(i, 2 + i % 2)]
        if i == 14:
            contexts[1] += "  "
        answer, place = words.answer(contexts, i)
        continuation = words.phrase(1, 9) + words.rng.choice([".", "", " ", "?"])
        yield {"contexts": contexts, "continuation": continuation, "answer": answer}, {"place": place}


def completion_items(words):
    for i in range(ITEMS):
        prompt, completion = words.prompt(i), words.phrase(1, 3 if i % 2 else 1)
        if i % 4 == 1:  # what greedy decoding may well give: the words that follow in the text
            sentence = words.sentence().split()
            cut = words.rng.randrange(1, len(sentence) - 1)
            prompt, completion = " ".join(sentence[:cut]), sentence[cut]
        if i % 3 == 0:
            completion = " " + completion
        # lm-eval has no delimiter of a completion: ours is a blank, unless there is one.
        yield ({"prompt": prompt, "completion": completion},
               {"completion": completion if completion[0].isspace() else " " + completion})  # fmt: skip


def hellaswag_items(words):
    for i in range(ITEMS):
        label = words.rng.randrange(4)
        marks = ["", " [step]", " [title]", "[header] ", "  ", " [unclosed", "]"]
        parts = [words.phrase(3, 9) + words.rng.choice(marks) + words.rng.choice(["", " " + words.phrase(2, 5)]) for _ in range(4)]
        if i % 17 == 3:
            parts[3] = parts[0]
        yield {"ind": i, "activity_label": words.phrase(1, 3), "ctx_a": words.prompt(i) + words.rng.choice(marks),
               "ctx_b": words.rng.choice(["", words.phrase(1, 4).lower(), words.phrase(1, 4), "ÉTÉ Was"]), "ctx": "unused",
               "endings": parts, "label": str(label), "split": "val", "source_id": "x"}, {}  # fmt: skip


def arc_items(words):
    for i in range(ITEMS):
        choices = words.choices(i, words.rng.choice([3, 4, 4, 4, 5]))
        labels = ("12345" if i % 4 == 0 else "ABCDE")[: len(choices)]
        yield {"id": f"own_{i}", "question": words.prompt(i) + words.rng.choice(["?", ""]),
               "choices": {"text": choices, "label": list(labels)}, "answerKey": words.rng.choice(labels)}, {}  # fmt: skip


def piqa_items(words):
    for i in range(ITEMS):
        one, other = words.choices(i, 2, (4, 14))
        yield {"goal": words.prompt(i), "sol1": one, "sol2": other, "label": words.rng.randrange(2)}, {}


def mmlu_items(words):
    for i in range(ITEMS):
        yield {"question": words.prompt(i) + words.rng.choice(["?", " ", "\n"]), "subject": SUBJECTS[i % 3],
               "choices": words.choices(i, 4), "answer": words.rng.randrange(4)}, {}  # fmt: skip


def winogrande_items(words):
    for i in range(ITEMS):
        one, other = (choice.replace("_", "") for choice in words.choices(i, 2, (1, 3)))
        behind = words.rng.choice([" ", "  ", "", "'s "]) + words.phrase(2, 9) + words.rng.choice([".", " ", " _."])
        yield {"sentence": words.prompt(i) + words.rng.choice([" ", " because "]) + "_" + behind, "option1": one, "option2": other,
               "answer": words.rng.choice("12")}, {}  # fmt: skip


def lambada_items(words):
    for i in range(ITEMS):
        last = words.rng.choice([words.phrase(1, 1), words.sentence().split()[-1]])
        prompt, blanks = words.prompt(i), words.rng.choice([" ", " ", "  "])
        # lm-eval cannot score what follows blanks alone.
        yield {"text": prompt + (blanks if prompt else " ") + last + (" " if i == 15 else "")}, {}


KINDS = {"choices": choices_items, "contexts": contexts_items, "completion": completion_items, "hellaswag": hellaswag_items,
         "arc": arc_items, "piqa": piqa_items, "mmlu": mmlu_items, "winogrande": winogrande_items,
         "lambada": lambada_items}  # fmt: skip
OWN = {"choices": 'doc_to_text: "{{prompt}}"\ndoc_to_choice: "{{choices}}"\ndoc_to_target: answer\n',
       "contexts": "doc_to_text: !function contexts.text\ndoc_to_choice: !function contexts.choices\n"
                   "doc_to_target: !function contexts.target\n",
       "completion": 'doc_to_text: "{{prompt}}"\ndoc_to_target: "{{completion}}"\n'}  # fmt: skip


def write_tasks(output, folder):
    """Items as Assay reads them, and lm-eval's task files. The names of the tasks of each kind."""
    (folder / "contexts.py").write_text(CONTEXTS)
    names = {}
    for seed, (kind, items_of) in enumerate(KINDS.items()):
        items = list(items_of(Words(seed)))
        write_lines(output / f"{kind}.jsonl", [item for item, _ in items])
        rows = [{**item, **more} for item, more in items]
        parts = {kind: (DOWNLOADS.get(kind), rows)}
        if kind == "mmlu":
            parts = {s: (f"mmlu/default/mmlu_{s}.yaml", [row for row in rows if row["subject"] == s]) for s in SUBJECTS}
        for name, (path, own) in parts.items():
            data = folder / f"{name}.jsonl"
            write_lines(data, own)
            if path:
                write_download_task(folder, f"own_{name}", path, data)
            elif kind == "completion":
                write_task(folder, f"own_{name}", data, "output_type: loglikelihood\n" + OWN[kind] + OF_COMPLETIONS)
            else:
                write_task(folder, f"own_{name}", data, "output_type: multiple_choice\n" + OWN[kind] + OF_CHOICES)
        names[kind] = [f"own_{name}" for name in parts]
    return names


def items_of_samples(samples):
    for sample in sorted(samples, key=lambda sample: sample["doc_id"]):
        digit = sum(bit for bit, key in ((1, "acc"), (2, "acc_norm"), (4, "acc_bytes")) if sample.get(key))
        yield [digit, *(round(response[0], 6) for response in sample["filtered_resps"])]


def measure(model, names, folder):
    lm = HFLM(pretrained=str(model), device="cpu", dtype="float32", batch_size=1)
    manager = TaskManager(include_path=str(folder), include_defaults=False)
    tasks = [name for part in names.values() for name in part]
    results = lm_eval.simple_evaluate(lm, tasks=tasks, task_manager=manager, log_samples=True, bootstrap_iters=0)
    expected = {}
    for kind, own in names.items():
        parts = [list(items_of_samples(results["samples"][name])) for name in own]
        items = [parts[i % len(parts)][i // len(parts)] for i in range(ITEMS)]
        figures = {key: sum(item[0] & bit > 0 for item in items) / ITEMS for key, bit in (("acc", 1), ("acc_norm", 2), ("acc_bytes", 4))}
        for key, value in figures.items():  # as it says itself
            theirs = [results["results"][name].get(f"{key},none") for name in own]
            if theirs[0] is not None:
                sizes = [len(part) for part in parts]
                assert abs(sum(t * s for t, s in zip(theirs, sizes)) / ITEMS - value) < 1e-12, (kind, key)
        if "perplexity,none" in results["results"][own[0]]:
            figures = {"acc": figures["acc"], "perplexity": results["results"][own[0]]["perplexity,none"]}
        expected[kind] = {**figures, "items": items}
    return expected


def write_expected(path, expected):
    with path.open("w") as file:
        parts = []
        for kind, figures in expected.items():
            head = ", ".join(f'"{key}": {json.dumps(value)}' for key, value in figures.items() if key != "items")
            parts.append(f'"{kind}": {{{head}, "items": [\n' + ",\n".join(map(json.dumps, figures["items"])) + "]}")
        file.write("{" + ",\n".join(parts) + "}\n")


def check(assay, model, output, expected):
    """The largest difference of a log-likelihood, and how many items are right there and wrong here."""
    for kind, figures in expected.items():
        command = [assay, "task", str(model), str(output / f"{kind}.jsonl"), "--precision", "float32", "--json", "--quiet"]
        answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        row = next(row for row in answer["rows"] if "answers" in row)
        pairs = list(zip(row["answers"], figures["items"]))
        apart = max(abs(a - b) for own, item in pairs for a, b in zip(own["log_likelihoods"], item[1:]))
        other = sum(own["is_right"] != bool(item[0] & 1) for own, item in pairs)
        print(f"{kind}: {len(pairs)} items, largest difference {apart:.1e}, {other} answered otherwise")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=ROOT / "models/demo")
    parser.add_argument("--output", type=Path, default=ROOT / "tests/fixtures/tasks")
    parser.add_argument("--check", metavar="ASSAY", help="compare with this program, too")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        names = write_tasks(args.output, Path(name))
        expected = measure(args.model, names, Path(name))
    write_expected(args.output / "expected.json", expected)
    for kind, figures in expected.items():
        print(kind, {key: value for key, value in figures.items() if key != "items"})
    print(sum(path.stat().st_size for path in args.output.iterdir()), "bytes")
    if args.check:
        check(args.check, args.model, args.output, expected)


if __name__ == "__main__":
    sys.exit(main())
