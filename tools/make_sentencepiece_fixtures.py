#!/usr/bin/env python3
"""Writes SentencePiece models and what Transformers makes of them, for the tests of text/ and base/.

tests/fixtures/piece_merges.json: lists of pieces with scores, and the merges that `generate_merges` of Transformers
makes of them by score (`scored`: as for a GGUF file), by place (`placed`: as for tokenizer.model) and as SpmConverter
ranks them (`ranked`). Among the pieces are scores that are equal, characters of several bytes and runs of one.
"""

import json
import random
import sys
from pathlib import Path

import sentencepiece
from transformers.tokenization_utils_base import generate_merges

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "tests/fixtures"


def ranked(pieces, scores):
    """As SpmConverter.build_tokenizer_from_spm_proto ranks normal pieces."""
    normal = {piece: (score, i) for i, (piece, score) in enumerate(zip(pieces, scores))}
    splits = ((piece, at) for piece in normal for at in range(1, len(piece)))
    found = [(-normal[piece][0], normal[piece][1], piece[:at], piece[at:]) for piece, at in splits if piece[:at] in normal and piece[at:] in normal]
    return [[left, right] for _, _, left, right in sorted(found)]


def merge_lists():
    rng = random.Random(7)
    yield "runs", ["a" * n for n in (1, 2, 3, 4, 5, 8)], [-3.0, -1.0, -2.0, -1.0, -5.0, 0.0]
    yield "ties", ["<s>", "s", ">", "s>", "<", "ab", "a", "b", "abab", "ba", "aba", "bab"], [0.0] * 12
    words = "▁the ▁then ▁them en he hen ▁t th é né ▁né née 中文 中 文 😀😀 😀 ▁ ▁▁ ▁▁▁ t h e n m".split()
    yield "words", words, [-float(i) for i in range(len(words))]
    letters = [*"abé中", *{"".join(rng.choices("abé中", k=rng.randint(2, 6))) for _ in range(120)}]
    letters = sorted(set(letters), key=lambda text: (len(text), text))
    rng.shuffle(letters)
    yield "random", letters, [-float(rng.randint(0, 12)) / 4 for _ in letters]


def make_merges():
    cases = {}
    for name, pieces, scores in merge_lists():
        assert len(set(pieces)) == len(pieces)
        vocab = {piece: i for i, piece in enumerate(pieces)}
        cases[name] = {"pieces": pieces, "scores": scores, "scored": generate_merges(vocab, dict(zip(pieces, scores))),
                       "placed": generate_merges(vocab), "ranked": ranked(pieces, scores)}  # fmt: skip
    write(FIXTURES / "piece_merges.json", cases)


def write(path, content):
    path.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    make_merges()
