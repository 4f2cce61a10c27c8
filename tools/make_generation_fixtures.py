#!/usr/bin/env python3
"""Writes tests/fixtures/generation.json: what generate() of Transformers does with keys of generation_config.json.

usage: tools/make_generation_fixtures.py    (needs torch, transformers)

The model is tests/fixtures/models/llama_minimal. Each case has the keys of the file, a prompt, the number of new tokens and the ids
that model.generate(do_sample=False) gives, the generation configuration being the file alone.
"""

import json
import tempfile
import warnings
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, GenerationConfig
from transformers.utils import logging

FIXTURES = Path(__file__).resolve().parent.parent / "tests" / "fixtures"
MODEL = "llama_minimal"
PROMPT = [5, 9, 13, 9, 13, 2]


def cases(plain):
    """By name: keys, prompt, new tokens. `plain` are the ids of greedy decoding."""
    first, second, third = plain[:3]
    yield "plain", {}, PROMPT, 12
    yield "ends", {"eos_token_id": third}, PROMPT, 12
    yield "ends_list", {"eos_token_id": [third, 1]}, PROMPT, 12
    for penalty in (0.7, 1.3, 5.0):
        yield f"penalty_{penalty}", {"repetition_penalty": penalty}, PROMPT, 12
    for size in (1, 2, 3, 50):
        yield f"ngram_{size}", {"no_repeat_ngram_size": size}, PROMPT, 12
    yield "suppress", {"suppress_tokens": [first, third]}, PROMPT, 12
    yield "suppress_outside", {"suppress_tokens": [first, -1, 100000]}, PROMPT, 12
    yield "begin_suppress", {"begin_suppress_tokens": [first]}, PROMPT, 12
    yield "begin_suppress_forced", {"begin_suppress_tokens": [first, 7], "forced_bos_token_id": 7}, [5], 6
    yield "bad_word", {"bad_words_ids": [[second]]}, PROMPT, 12
    yield "bad_words", {"bad_words_ids": [[first, second], [3, 4, 5]]}, PROMPT, 12
    yield "bad_word_of_prompt", {"bad_words_ids": [[PROMPT[-2], PROMPT[-1], first]]}, PROMPT, 12
    yield "bad_word_is_end", {"bad_words_ids": [[third], [first]], "eos_token_id": third}, PROMPT, 12
    yield "min_new", {"min_new_tokens": 5, "eos_token_id": [third, first]}, PROMPT, 12
    yield "min_length", {"min_length": 10, "eos_token_id": third}, PROMPT, 12
    yield "min_length_of_prompt", {"min_length": 6, "eos_token_id": third}, PROMPT, 12
    yield "min_both", {"min_length": 30, "min_new_tokens": 1, "eos_token_id": third}, PROMPT, 12
    yield "min_without_end", {"min_new_tokens": 5}, PROMPT, 12
    yield "forced_bos", {"forced_bos_token_id": 11}, [5], 6
    yield "forced_bos_too_late", {"forced_bos_token_id": 11}, PROMPT, 6
    yield "forced_eos", {"forced_eos_token_id": 8}, PROMPT, 6
    yield "forced_eos_list", {"forced_eos_token_id": [9, 8], "eos_token_id": 8}, PROMPT, 6
    yield "everything", {"repetition_penalty": 1.2, "no_repeat_ngram_size": 2, "suppress_tokens": [first],
                         "begin_suppress_tokens": [second], "bad_words_ids": [[third]], "min_new_tokens": 3,
                         "eos_token_id": [1, 2, 3], "forced_eos_token_id": 1}, PROMPT, 12  # fmt: skip


def generate(model, keys, prompt, new_tokens):
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "generation_config.json").write_text(json.dumps(keys))
        config = GenerationConfig.from_pretrained(folder)
    ids = torch.tensor([prompt])
    # The whole configuration, so that nothing of the model's own is filled in.
    model.generation_config = config
    out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=new_tokens)
    return out[0, len(prompt) :].tolist()


def main():
    warnings.simplefilter("ignore")
    logging.set_verbosity_error()
    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(FIXTURES / "models" / MODEL, dtype=torch.float32)
    plain = generate(model, {}, PROMPT, 12)
    written = [{"name": name, "keys": keys, "prompt": prompt, "new_tokens": count,
                "ids": generate(model, keys, prompt, count)} for name, keys, prompt, count in cases(plain)]  # fmt: skip
    lines = ",\n".join("  " + json.dumps(case) for case in written)
    (FIXTURES / "generation.json").write_text(f'{{"model": "{MODEL}", "cases": [\n{lines}\n]}}\n')
    print(len(written), "cases;", len({tuple(case["ids"]) for case in written}), "different")


if __name__ == "__main__":
    main()
