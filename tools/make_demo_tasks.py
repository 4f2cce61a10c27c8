#!/usr/bin/env python3
"""Writes models/demo/tasks/continuations.jsonl, a task for the model that ships: which words continue a sentence?

    tools/make_demo_tasks.py

The sentences are those of models/demo/texts/evaluate.txt, which no model was trained or calibrated on. An item is the
beginning of a sentence, with what precedes it up to 24 words, and four choices of eight words or fewer: what follows there, and
what follows in other sentences at the same part of them. Python's standard library alone; the result is the same each time.
"""

import json
import random
import re
from pathlib import Path

DEMO = Path(__file__).resolve().parent.parent / "models/demo"
ITEMS, CHOICES, PROMPT_WORDS, CHOICE_WORDS = 150, 4, 24, 8


def sentences():
    text = (DEMO / "texts/evaluate.txt").read_text(encoding="utf-8")
    for paragraph in text.split("\n\n"):
        words = paragraph.split()
        begin = 0
        for i, word in enumerate(words):
            if re.search(r"[.!?][\"”')]*$", word) and not re.fullmatch(r"(Mr|Mrs|Dr|St)\.", word):
                yield words[:begin], words[begin : i + 1]
                begin = i + 1


def places():
    """(prompt, continuation, which part of the sentence) wherever a sentence is cut."""
    found = []
    for before, sentence in sentences():
        for part in (1, 2, 3):
            cut = len(sentence) * part // 4
            rest = sentence[cut : cut + CHOICE_WORDS]
            if cut >= 3 and len(rest) >= 4:
                prompt = (before + sentence[:cut])[-PROMPT_WORDS:]
                found.append((" ".join(prompt), " ".join(rest), part))
    return found


def main():
    rng = random.Random(20)
    found = places()
    items = []
    for prompt, right, part in rng.sample(found, ITEMS):
        others = [rest for other, rest, own in found if own == part and rest != right and not other.startswith(prompt)]
        choices = [right, *rng.sample(others, CHOICES - 1)]
        rng.shuffle(choices)
        items.append({"prompt": prompt, "choices": choices, "answer": choices.index(right)})
    out = DEMO / "tasks/continuations.jsonl"
    out.parent.mkdir(exist_ok=True)
    out.write_text("".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items), encoding="utf-8")
    print(len(items), "items of", len(found), "places,", out.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
