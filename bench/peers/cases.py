"""What is measured: the cases, and the token ids that they run on."""

import dataclasses
import random


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    kind: str  # prefill or decode
    context: int  # tokens of a prompt; in a batch, their mean
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


def prompts(case, is_ragged, vocab):
    """Equal lengths, or from half to one and a half of it: the same number of tokens either way."""
    last = max(case.batch - 1, 1)
    spread = is_ragged and case.batch > 1
    lengths = [
        case.context // 2 + round(case.context * i / last) if spread else case.context
        for i in range(case.batch)
    ]
    return [some_ids(length, seed, vocab) for seed, length in enumerate(lengths)]


def shortened(case, new_tokens):
    """The case with at most so many new tokens, for models that take long over each; None: as it is."""
    return dataclasses.replace(case, new_tokens=min(case.new_tokens, new_tokens or case.new_tokens))
