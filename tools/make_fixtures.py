#!/usr/bin/env python3
"""Writes the model fixtures of the tests: small random GPT-2 folders with the logits Transformers gives them.

    tools/make_fixtures.py                     tests/fixtures/models/*
    tools/make_fixtures.py --demo models/demo  tests/fixtures/demo_{logits.safetensors,greedy.json,perplexity.json,bfloat16.json}

Each model folder has expected.safetensors: `input_ids` (int64 [n]) and `logits` (float32 [n, vocab]), by
GPT2LMHeadModel in float32 with eager attention, from the folder as it was written. The fixtures can fail:
weights of deviation 0.2 and more, random biases and gains, embedding rows so flat that epsilon matters.
What would break each fixture is broken here, and has to move its logits (see BREAKS).
"""

import argparse
import copy
import hashlib
import json
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from perplexity_reference import encode, load_model, load_tokenizer, score
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "tests" / "fixtures"

# What a Transformers 4 save_pretrained writes beside the shape.
OLDER_KEYS = {
    "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1, "embd_pdrop": 0.1,
    "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_inner": None,
    "reorder_and_upcast_attn": False, "resid_pdrop": 0.1, "scale_attn_by_inverse_layer_idx": False,
    "scale_attn_weights": True, "summary_activation": None, "summary_first_dropout": 0.1,
    "summary_proj_to_labels": True, "summary_type": "cls_index", "summary_use_proj": True,
    "torch_dtype": "float32", "transformers_version": "4.44.2", "use_cache": True,
}  # fmt: skip
# Transformers 5 writes `dtype`, and the keys that used to be implied.
NEWER_KEYS = {key: value for key, value in OLDER_KEYS.items() if key != "torch_dtype"} | {
    "add_cross_attention": False, "dtype": "float32", "pad_token_id": None, "tie_word_embeddings": True,
    "transformers_version": "5.23.0",
}  # fmt: skip
# The config.json of the first GPT-2 repositories: no dtype, a key n_ctx, defaults left out.
OLDEST_KEYS = {"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
               "embd_pdrop": 0.1, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gpt2",
               "n_ctx": 48, "resid_pdrop": 0.1}  # fmt: skip

SMALL = {"n_embd": 28, "n_head": 4, "n_layer": 2, "n_positions": 48, "vocab_size": 101}
MIDDLE = {"n_embd": 36, "n_head": 3, "n_layer": 2, "n_positions": 64, "vocab_size": 101}
LARGE = {"n_embd": 60, "n_head": 4, "n_layer": 2, "n_positions": 160, "vocab_size": 257}
ONE = {"n_embd": 8, "n_head": 1, "n_layer": 1, "n_positions": 8, "vocab_size": 11}

# name: (keys, shape and switches, how it is stored)
MODELS = {
    "base": (OLDER_KEYS, MIDDLE, {"generation": True}),
    "odd_heads": (OLDER_KEYS, LARGE, {"tokens": 150}),
    "untied": (NEWER_KEYS, SMALL | {"tie_word_embeddings": False}, {}),
    "sharded": (OLDER_KEYS, SMALL, {"shards": 3}),
    "no_prefix": (OLDEST_KEYS, SMALL, {"prefix": "", "masks": True}),
    "f16": (OLDER_KEYS | {"torch_dtype": "float16"}, MIDDLE, {"dtype": torch.float16}),
    "bf16": (NEWER_KEYS | {"dtype": "bfloat16"}, MIDDLE, {"dtype": torch.bfloat16}),
    "n_inner": (OLDER_KEYS, SMALL | {"n_inner": 50}, {}),
    "gelu_erf": (OLDER_KEYS, SMALL | {"activation_function": "gelu"}, {}),
    "relu": (OLDER_KEYS, SMALL | {"activation_function": "relu"}, {}),
    "silu": (OLDER_KEYS, SMALL | {"activation_function": "silu"}, {}),
    "gelu_pytorch_tanh": (OLDER_KEYS, ONE | {"activation_function": "gelu_pytorch_tanh"}, {}),
    "no_scale": (OLDER_KEYS, SMALL | {"scale_attn_weights": False}, {}),
    "inverse_layer": (OLDER_KEYS, SMALL | {"scale_attn_by_inverse_layer_idx": True, "n_layer": 3}, {}),
    "upcast": (OLDER_KEYS, SMALL | {"reorder_and_upcast_attn": True}, {}),
    "epsilon": (OLDER_KEYS, SMALL | {"layer_norm_epsilon": 0.05}, {}),
    "minimal": ({"model_type": "gpt2"}, ONE, {}),
    "with_tokenizer": (OLDER_KEYS, MIDDLE | {"n_embd": 20, "n_head": 4, "vocab_size": 300}, {"tokenizer": True}),
}
# A reader that takes the left value for the right one must be caught in the fixtures that use the left one.
BREAKS = {
    "activation_function": {"gelu_new": "gelu", "gelu": "gelu_new", "relu": "gelu", "silu": "gelu",
                            "gelu_pytorch_tanh": "gelu"},
    "layer_norm_epsilon": {1e-05: 1e-06, 0.05: 1e-05},
    "scale_attn_weights": {True: False, False: True},
    "scale_attn_by_inverse_layer_idx": {False: True, True: False},
}  # fmt: skip
SMALLEST_MOVE = 1e-3
FLAT = 5  # every fifth token and position has a flat embedding


def draw_weights(config, rng):
    """The state dict of GPT2LMHeadModel, without the LM head where it is tied."""
    tensors = {}
    for name, like in GPT2LMHeadModel(config).state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        values = rng.standard_normal(tuple(like.shape), dtype=np.float32)
        if ".ln_" in name and name.endswith("weight"):
            values = 1 + 0.3 * values
        elif "wte" in name or "wpe" in name:
            values *= 0.3
            # Variance 1e-5 after the sum: where both are flat, epsilon decides what LayerNorm gives.
            values[::FLAT] *= 0.0075
        else:
            values *= 0.22
        tensors[name] = torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))
    return tensors


def draw_ids(config, count, rng):
    ids = rng.integers(0, config.vocab_size, count)
    ids[::FLAT] -= ids[::FLAT] % FLAT  # flat tokens on flat positions
    return torch.from_numpy(ids.astype(np.int64))


def write_json(path, value):
    text = json.dumps(value, indent=2, ensure_ascii=False)
    text = re.sub(r"\[[\d,\s]+\]", lambda ids: re.sub(r"\s+", " ", ids[0]), text)  # a list of ids is one line
    path.write_text(text + "\n", encoding="utf-8")


def write_tokenizer(folder, config):
    """Byte-level BPE of 256 bytes, some merges and <|endoftext|>, trained on the sentence below."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    text = ("the rain in spain, and then the sun: there is the end of the road, she said, and he ran home again. "
            "Once upon a time, in a land far away, 12 cats and 34 dogs were waiting for their dinner, weren't they?")  # fmt: skip
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=config.vocab_size - 1, show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))  # fmt: skip
    tokenizer.train_from_iterator([text], trainer)
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", normalized=False, special=True)])
    assert tokenizer.get_vocab_size() == config.vocab_size
    tokenizer.save(str(folder / "tokenizer.json"))
    write_json(folder / "tokenizer_config.json", {
        "add_prefix_space": False, "bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>",
        "model_max_length": config.n_positions, "tokenizer_class": "GPT2Tokenizer", "unk_token": "<|endoftext|>",
    })  # fmt: skip
    prompt = "the sun and the rain: he said <|endoftext|> we ran home, and there's 12 caf\u00e9s " * 2
    ids = tokenizer.encode(prompt).ids[: config.n_positions]
    (folder / "prompt.txt").write_text(tokenizer.decode(ids, skip_special_tokens=False), encoding="utf-8")
    assert tokenizer.encode((folder / "prompt.txt").read_text(encoding="utf-8")).ids == ids
    return torch.tensor(ids)


def save_model(folder, tensors, config, prefix="transformer.", dtype=torch.float32, shards=1, masks=False):
    stored = {}
    for name, tensor in tensors.items():
        name = name if name == "lm_head.weight" else prefix + name.removeprefix("transformer.")
        stored[name] = tensor.to(dtype)
    if masks:
        # Buffers that the first GPT-2 files carry, in both of the types seen: no weights, to be ignored.
        n = config.n_positions
        for layer in range(config.n_layer):
            mask = torch.ones(n, n).tril().view(1, 1, n, n)
            stored[f"{prefix}h.{layer}.attn.bias"] = mask.to([torch.uint8, torch.bool][layer % 2])
            stored[f"{prefix}h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    if shards == 1:
        save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
        return
    weight_map = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        # Dealt in turn, so that the tensors of one layer lie in different files.
        names = sorted(stored)[shard::shards]
        save_file({name: stored[name] for name in names}, folder / file, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(names, file)
    size = sum(t.numel() * t.element_size() for t in stored.values())
    write_json(folder / "model.safetensors.index.json",
               {"metadata": {"total_size": size}, "weight_map": dict(sorted(weight_map.items()))})  # fmt: skip


def run_logits(model, ids):
    with torch.no_grad():
        return model(input_ids=ids[None], use_cache=False).logits[0]


def in_float64(folder):
    """The same weights and arithmetic in double, to show how far float32 itself is off."""
    model = load_model(folder).double()
    for block in model.transformer.h:
        block.attn.reorder_and_upcast_attn = False  # would refuse float64; in one precision it changes nothing
    return model


def smallest_break(folder, model, ids, logits):
    """Loads the folder with one switch wrong at a time; the least that this moves any fixture's logits."""
    moves = {}
    for key, wrong in BREAKS.items():
        if key == "scale_attn_by_inverse_layer_idx" and model.config.n_layer == 1:
            continue  # there the scale is 1
        if key == "activation_function" and model.config.n_embd == ONE["n_embd"]:
            continue  # too few activations for the two GELUs to differ visibly
        config = GPT2Config.from_pretrained(folder)
        setattr(config, key, wrong[getattr(config, key)])
        config._attn_implementation = "eager"
        broken = GPT2LMHeadModel(config).eval()
        broken.load_state_dict(model.state_dict())
        moves[key] = (run_logits(broken, ids) - logits).abs().max().item()
        assert moves[key] > SMALLEST_MOVE, (folder.name, key, moves[key])
    return min(moves, key=moves.get), min(moves.values())


def make_model(name, keys, shape, storage, out, seed):
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    end = shape["vocab_size"] - 1
    written = keys | {"bos_token_id": end, "eos_token_id": end} | shape
    config = GPT2Config(**written)
    write_json(folder / "config.json", dict(sorted(written.items())))
    storage = dict(storage)
    if storage.pop("generation", False):
        generation = {"_from_model_config": True, "bos_token_id": end, "eos_token_id": end}
        write_json(folder / "generation_config.json", generation | {"transformers_version": "4.44.2"})
    count = storage.pop("tokens", config.n_positions)
    ids = write_tokenizer(folder, config) if storage.pop("tokenizer", False) else draw_ids(config, count, rng)
    tensors = draw_weights(config, rng)
    save_model(folder, tensors, config, **storage)

    model = load_model(folder)
    # from_pretrained only warns of a name that it does not find, and draws that tensor itself.
    for tensor_name, tensor in tensors.items():
        assert torch.equal(model.state_dict()[tensor_name], tensor.to(storage.get("dtype")).float()), tensor_name
    logits = run_logits(model, ids)
    exact = run_logits(in_float64(folder), ids)
    assert torch.isfinite(logits).all() and logits.abs().max() < 30
    save_file({"input_ids": ids, "logits": logits.contiguous()}, folder / "expected.safetensors")
    for file in folder.iterdir():
        file.chmod(0o644)  # safetensors gives its files to their owner alone
    key, move = smallest_break(folder, model, ids, logits)
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{name:18} {size:7} bytes  logits to {logits.abs().max():5.2f}, within {(logits - exact).abs().max():.1e}"
          f" of float64, least moved ({move:.1e}) by {key}")  # fmt: skip
    return size


def greedy(model, ids, count):
    """`count` ids by plain argmax, end-of-text like any other, and the smallest gap between the best two."""
    ids, smallest = list(ids), float("inf")
    for _ in range(count):
        top = run_logits(model, torch.tensor(ids))[-1].topk(2)
        smallest = min(smallest, (top.values[0] - top.values[1]).item())
        ids.append(top.indices[0].item())
    return ids[-count:], smallest


def make_demo(demo, data, out):
    model, tokenizer = load_model(demo), load_tokenizer(demo)
    evaluate = encode(tokenizer, demo / "texts" / "evaluate.txt")

    ids, rows = evaluate[:1024], [0, 16, 511, 1023]
    logits = run_logits(model, ids)
    save_file({"input_ids": ids, "logits": logits[rows].contiguous()}, out / "demo_logits.safetensors")
    (out / "demo_logits.safetensors").chmod(0o644)

    cases, smallest = [], float("inf")
    prompts = (demo / "texts" / "prompts.txt").read_text(encoding="utf-8").splitlines()
    for prompt in filter(None, prompts):
        prompt_ids = tokenizer.encode(prompt, add_special_tokens=False).ids
        new_ids, gap = greedy(model, prompt_ids, 64)
        smallest = min(smallest, gap)
        cases.append({"prompt": prompt, "prompt_ids": prompt_ids, "ids": new_ids, "smallest_gap": gap})
    # Tells a test that fails because the weights are newer from one that fails because of the code.
    sha256 = hashlib.sha256((demo / "model.safetensors").read_bytes()).hexdigest()
    write_json(out / "demo_greedy.json", {"model_sha256": sha256, "smallest_gap": smallest, "cases": cases})

    files = {"evaluate.txt": demo / "texts" / "evaluate.txt", "novel.txt": data / "heldout" / "novel.txt"}
    # How far bfloat16 takes Transformers itself from float32: what Assay's is held to.
    brain = copy.deepcopy(model).to(torch.bfloat16)
    error = (run_logits(brain, ids)[rows].float() - logits[rows]) / logits[rows].std()
    write_json(out / "demo_bfloat16.json", {"rms_error": error.square().mean().sqrt().item(),
                                            "largest_error": error.abs().max().item()})

    for name in [name for name, path in files.items() if not path.exists()]:
        print(f"{name}: not found, left out")
        del files[name]
    texts = {name: encode(tokenizer, path) for name, path in files.items()}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {(name, stride): pool.submit(score, model, tokens, 1024, stride)
                for name, tokens in sorted(texts.items(), key=lambda t: -len(t[1])) for stride in (512, 1024)}
    results = {name: {str(stride): jobs[name, stride].result() for stride in (512, 1024)} for name in files}
    for name, strides in results.items():
        print(name, {stride: result["perplexity"] for stride, result in strides.items()}, flush=True)
    write_json(out / "demo_perplexity.json", results)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=FIXTURES)
    parser.add_argument("--demo", type=Path, metavar="DIR", help="write the demo model's files instead")
    parser.add_argument("--data", type=Path, default=os.environ.get("ASSAY_DEV_DATA", ROOT.parent / "shared" / "data"))
    args = parser.parse_args()
    # These models are too small to gain from a second thread, and on a busy machine waiting for it costs all.
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.demo:
        make_demo(args.demo, Path(args.data), args.out)
    else:
        models = args.out / "models"
        sizes = [make_model(name, *parts, models, seed) for seed, (name, parts) in enumerate(MODELS.items())]
        print(f"{len(sizes)} models, {sum(sizes)} bytes")


if __name__ == "__main__":
    main()
