#!/usr/bin/env python3
"""Writes the fixtures of model families other than GPT-2: small random folders with the logits Transformers gives them.

    tools/make_family_fixtures.py        tests/fixtures/models/llama_*

Each folder has expected.safetensors: `input_ids` (int64 [n]), `logits` (float32 [n, vocab]), and the first tokens of a
greedy continuation, `prompt_ids` and `greedy_ids` (int64), by AutoModelForCausalLM in float32 with eager attention, from
the folder as it was written. The fixtures can fail: weights of deviation 0.2 and more, random gains and biases, embedding
rows so flat that epsilon matters; what would break each is broken here, and has to move its logits (see BREAKS).
"""

import argparse
import shutil
from pathlib import Path

import numpy as np
import torch
from make_fixtures import FIXTURES, FLAT, SMALLEST_MOVE, draw_ids, run_logits, write_json
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils import logging

GREEDY = 32

LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": False, "attention_dropout": 0.0,
         "hidden_act": "silu", "initializer_range": 0.02, "mlp_bias": False, "pretraining_tp": 1, "use_cache": True}  # fmt: skip
LLAMA3_ROPE = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
               "high_freq_factor": 4.0, "original_max_position_embeddings": 32}  # fmt: skip

# name: (config.json, how it is stored)
MODELS = {
    # Grouped heads of an odd size, an MLP that fills no whole panel; what Transformers 5 writes.
    "llama_grouped": (LLAMA | {
        "hidden_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 12, "intermediate_size": 52,
        "num_hidden_layers": 2, "vocab_size": 77, "max_position_embeddings": 160, "rms_norm_eps": 1e-05,
        "tie_word_embeddings": False, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        "dtype": "float32", "transformers_version": "5.23.0"}, {"tokens": 150}),
    # One key head for all, Llama 3's scaled rotary embedding, a tied head, several files.
    "llama_scaled": (LLAMA | {
        "hidden_size": 40, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 16, "intermediate_size": 64,
        "num_hidden_layers": 2, "vocab_size": 89, "max_position_embeddings": 128, "rms_norm_eps": 1e-05,
        "tie_word_embeddings": True, "rope_parameters": LLAMA3_ROPE, "dtype": "float32",
        "transformers_version": "5.23.0"}, {"tokens": 100, "shards": 3}),
    # What Transformers 4 writes, with biases, heads wider than the hidden states, positions interpolated.
    "llama_biased": (LLAMA | {
        "hidden_size": 40, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 14, "intermediate_size": 64,
        "num_hidden_layers": 2, "vocab_size": 71, "max_position_embeddings": 96, "rms_norm_eps": 1e-05,
        "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": False, "rope_theta": 1000.0,
        "rope_scaling": {"type": "linear", "factor": 2.0}, "torch_dtype": "float32",
        "transformers_version": "4.44.2"}, {}),
    # Llama 1's defaults left out, in bfloat16, with the buffers that old files carry.
    "llama_minimal": ({
        "model_type": "llama", "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 48,
        "num_hidden_layers": 1, "vocab_size": 67, "max_position_embeddings": 64, "torch_dtype": "bfloat16"},
        {"dtype": torch.bfloat16, "buffers": True}),
}  # fmt: skip

# How a wrong reader would see a configuration; what does not apply to a model is left out.
BREAKS = {
    "rotary_base": lambda c: setattr(c, "rope_parameters", dict(c.rope_parameters) | {"rope_theta": 2000.0}),
    "rotary_scaling": lambda c: setattr(
        c, "rope_parameters", {"rope_type": "default", "rope_theta": c.rope_parameters["rope_theta"]})
    if c.rope_parameters["rope_type"] != "default" else None,
    "epsilon": lambda c: setattr(c, "rms_norm_eps", 1e-07),
    "activation": lambda c: setattr(c, "hidden_act", "gelu"),
}


def draw_weights(config, rng):
    tensors = {}
    for name, like in AutoModelForCausalLM.from_config(config).state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        values = rng.standard_normal(tuple(like.shape), dtype=np.float32)
        if "norm" in name and name.endswith("weight"):
            values = 1 + 0.3 * values
        elif "embed_tokens" in name:
            values *= 0.3
            values[::FLAT] *= 0.0075  # of mean square 5e-6: epsilon decides what the first norm gives
        else:
            values *= 0.22
        tensors[name] = torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))
    return tensors


def save_model(folder, tensors, config, dtype=torch.float32, shards=1, buffers=False):
    stored = {name: tensor.to(dtype) for name, tensor in tensors.items()}
    if buffers:
        pairs = config.hidden_size // config.num_attention_heads // 2
        for layer in range(config.num_hidden_layers):
            stored[f"model.layers.{layer}.self_attn.rotary_emb.inv_freq"] = torch.ones(pairs)
    if shards == 1:
        save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
        return
    weight_map = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        names = sorted(stored)[shard::shards]  # dealt in turn: tensors of one layer lie in different files
        save_file({name: stored[name] for name in names}, folder / file, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(names, file)
    size = sum(t.numel() * t.element_size() for t in stored.values())
    write_json(folder / "model.safetensors.index.json",
               {"metadata": {"total_size": size}, "weight_map": dict(sorted(weight_map.items()))})  # fmt: skip


def load(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def greedy(model, ids):
    ids, gap = list(ids), float("inf")
    for _ in range(GREEDY):
        top = run_logits(model, torch.tensor(ids))[-1].topk(2)
        gap = min(gap, (top.values[0] - top.values[1]).item())
        ids.append(top.indices[0].item())
    return ids[-GREEDY:], gap


def smallest_break(folder, model, ids, logits):
    moves = {}
    for key, apply in BREAKS.items():
        config = AutoConfig.from_pretrained(folder, attn_implementation="eager")
        before = config.to_dict()
        apply(config)
        if config.to_dict() == before:
            continue
        broken = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval().float()
        broken.load_state_dict(model.state_dict())
        moves[key] = (run_logits(broken, ids) - logits).abs().max().item()
        assert moves[key] > SMALLEST_MOVE, (folder.name, key, moves[key])
    return min(moves, key=moves.get), min(moves.values())


def make_model(name, keys, storage, out, seed):
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    written = keys | {"bos_token_id": 1, "eos_token_id": keys["vocab_size"] - 1}
    write_json(folder / "config.json", dict(sorted(written.items())))
    config = AutoConfig.from_pretrained(folder)
    storage = dict(storage)
    count = storage.pop("tokens", config.max_position_embeddings)
    ids = draw_ids(config, count, rng)
    save_model(folder, draw_weights(config, rng), config, **storage)
    model = load(folder)
    logits = run_logits(model, ids)
    exact = run_logits(load(folder).double(), ids)
    assert torch.isfinite(logits).all() and logits.abs().max() < 30
    prompt = ids[:11]
    new_ids, gap = greedy(model, prompt.tolist())
    save_file({"input_ids": ids, "logits": logits.contiguous(), "prompt_ids": prompt.clone(),
               "greedy_ids": torch.tensor(new_ids)}, folder / "expected.safetensors")  # fmt: skip
    for file in folder.iterdir():
        file.chmod(0o644)
    key, move = smallest_break(folder, model, ids, logits)
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{name:18} {size:7} bytes  logits to {logits.abs().max():5.2f}, within {(logits - exact).abs().max():.1e} of "
          f"float64, greedy gap {gap:.1e}, least moved ({move:.1e}) by {key}")  # fmt: skip
    return size


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=FIXTURES)
    args = parser.parse_args()
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    models = args.out / "models"
    sizes = [make_model(name, *parts, models, seed) for seed, (name, parts) in enumerate(MODELS.items())]
    print(f"{len(sizes)} models, {sum(sizes)} bytes")


if __name__ == "__main__":
    main()
