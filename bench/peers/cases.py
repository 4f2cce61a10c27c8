"""What is measured: the cases, and the token ids that they run on."""

import dataclasses
import random


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    kind: str  # prefill or decode
    context: int  # tokens of each prompt
    new_tokens: int = 0
    batch: int = 1


CASES = {
    case.name: case
    for case in (
        Case("prefill-128", "prefill", 128),
        Case("prefill-512", "prefill", 512),
        Case("prefill-1000", "prefill", 1000),
        Case("decode-0", "decode", 16, 64),
        Case("decode-900", "decode", 900, 64),
        Case("batch-1", "decode", 64, 32, 1),
        Case("batch-8", "decode", 64, 32, 8),
        Case("batch-32", "decode", 64, 32, 32),
    )
}


def some_ids(count, seed, vocab):
    """All but the last of the vocabulary, which ends a text."""
    rng = random.Random(seed)
    return [rng.randrange(vocab - 1) for _ in range(count)]


def prompts(case, vocab):
    """The same for everybody, of equal lengths, as static shapes demand."""
    return [some_ids(case.context, seed, vocab) for seed in range(case.batch)]


def shortened(case, new_tokens):
    """The case with at most so many new tokens, for models that take long over each; None: as it is."""
    return dataclasses.replace(case, new_tokens=min(case.new_tokens, new_tokens or case.new_tokens))
