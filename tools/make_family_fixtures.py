#!/usr/bin/env python3
"""Writes the fixtures of model families other than GPT-2: small random folders with the logits Transformers gives them.

    tools/make_family_fixtures.py                tests/fixtures/models/, all of them
    tools/make_family_fixtures.py qwen3_heads    those alone

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

# Sizes that are no powers of two; what Transformers 5 writes, and what 4 did.
V5 = {"dtype": "float16", "transformers_version": "5.23.0"}
V4 = {"torch_dtype": "float16", "transformers_version": "4.44.2"}
HALF = {"dtype": torch.float16, "tokens": 60}
SIZES = {"hidden_size": 24, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 36, "vocab_size": 59,
         "num_hidden_layers": 2, "max_position_embeddings": 96}  # fmt: skip
GPT_SIZES = {"n_embd": 24, "n_head": 3, "n_layer": 2, "n_positions": 96, "vocab_size": 59}


EMBEDDING = dict.fromkeys(["gemma", "gemma2", "gemma3_text", "granite"], 0.08)


def rope(theta, kind="default", **keys):
    return {"rope_type": kind, "rope_theta": theta, **keys}


# name: config.json, of models stored in float16
HALF_MODELS = {
    "mistral_window": V5 | SIZES | {
        "model_type": "mistral", "head_dim": 10, "sliding_window": 17, "rms_norm_eps": 1e-5,
        "rope_parameters": rope(1000.0)},
    "mistral_yarn": V4 | SIZES | {
        "model_type": "mistral", "hidden_size": 32, "head_dim": None, "sliding_window": None, "rms_norm_eps": 1e-5,
        "rope_theta": 500.0, "tie_word_embeddings": True,
        "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 24}},
    # The window is switched off.
    "qwen2_biased": V4 | SIZES | {
        "model_type": "qwen2", "rms_norm_eps": 1e-5, "rope_theta": 3000.0, "sliding_window": 5,
        "use_sliding_window": False, "max_window_layers": 1, "tie_word_embeddings": True},
    "qwen2_window": V5 | SIZES | {
        "model_type": "qwen2", "num_hidden_layers": 3, "rms_norm_eps": 1e-5, "sliding_window": 11,
        "use_sliding_window": True, "max_window_layers": 1, "rope_parameters": rope(2000.0, "dynamic", factor=2.0)},
    "qwen3_heads": V5 | SIZES | {
        "model_type": "qwen3", "head_dim": 16, "num_key_value_heads": 1, "rms_norm_eps": 1e-5,
        "rope_parameters": rope(5000.0), "tie_word_embeddings": True},
    "qwen3_yarn": V4 | SIZES | {
        "model_type": "qwen3", "head_dim": 12, "rms_norm_eps": 1e-5, "attention_bias": True, "rope_theta": 400.0,
        "layer_types": ["sliding_attention", "full_attention"], "use_sliding_window": True, "sliding_window": 13,
        "rope_scaling": {"rope_type": "yarn", "factor": 3.0, "attention_factor": 1.3, "beta_fast": 8.0, "beta_slow": 0.5,
                         "original_max_position_embeddings": 32}},
    "gpt_neox_parallel": V4 | SIZES | {
        "model_type": "gpt_neox", "hidden_size": 30, "num_attention_heads": 3, "rotary_pct": 0.4, "rotary_emb_base": 700,
        "layer_norm_eps": 1e-5, "use_parallel_residual": True},
    # Three elements of a head would be turned; four are.
    "gpt_neox_serial": V5 | SIZES | {
        "model_type": "gpt_neox", "hidden_size": 30, "num_attention_heads": 3, "layer_norm_eps": 1e-5,
        "use_parallel_residual": False, "attention_bias": False, "tie_word_embeddings": True,
        "rope_parameters": rope(900.0, "linear", factor=2.0, partial_rotary_factor=0.3)},
    "gpt_neo_alternating": V4 | {
        "model_type": "gpt_neo", "hidden_size": 24, "num_heads": 3, "num_layers": 4, "vocab_size": 59, "window_size": 9,
        "max_position_embeddings": 96, "attention_types": [[["global", "local"], 2]], "intermediate_size": 36},
    "gpt_neo_untied": V5 | {
        "model_type": "gpt_neo", "hidden_size": 24, "num_heads": 2, "num_layers": 3, "vocab_size": 59, "window_size": 21,
        "max_position_embeddings": 96, "attention_types": [[["local"], 1], [["global"], 2]], "intermediate_size": None,
        "activation_function": "relu", "tie_word_embeddings": False},
    "opt_plain": V4 | {
        "model_type": "opt", "hidden_size": 24, "num_attention_heads": 3, "num_hidden_layers": 2, "ffn_dim": 40,
        "vocab_size": 59, "max_position_embeddings": 96, "word_embed_proj_dim": 24, "do_layer_norm_before": True},
    "opt_post_norm": V4 | {
        "model_type": "opt", "hidden_size": 24, "num_attention_heads": 3, "num_hidden_layers": 2, "ffn_dim": 40,
        "vocab_size": 59, "max_position_embeddings": 96, "word_embed_proj_dim": 14, "do_layer_norm_before": False},
    "opt_projected": V5 | {
        "model_type": "opt", "hidden_size": 24, "num_attention_heads": 2, "num_hidden_layers": 2, "ffn_dim": 40,
        "vocab_size": 59, "max_position_embeddings": 96, "word_embed_proj_dim": 30, "enable_bias": False,
        "tie_word_embeddings": False},
    "phi_partial": V4 | SIZES | {
        "model_type": "phi", "hidden_size": 40, "num_key_value_heads": None, "partial_rotary_factor": 0.4,
        "rope_theta": 3000.0, "layer_norm_eps": 1e-5},
    "phi_normed": V5 | SIZES | {
        "model_type": "phi", "hidden_size": 32, "qk_layernorm": True, "layer_norm_eps": 1e-5,
        "rope_parameters": rope(800.0, partial_rotary_factor=0.5)},
    "phi3_window": V4 | SIZES | {
        "model_type": "phi3", "sliding_window": 14, "original_max_position_embeddings": 96, "rope_theta": 2000.0,
        "rope_scaling": None, "rms_norm_eps": 1e-5, "pad_token_id": 0},
    "phi3_longrope": V5 | SIZES | {
        "model_type": "phi3", "hidden_size": 32, "max_position_embeddings": 256,
        "original_max_position_embeddings": 64, "rms_norm_eps": 1e-5, "pad_token_id": 0, "tie_word_embeddings": True,
        "rope_parameters": rope(1500.0, "longrope", partial_rotary_factor=0.75, short_factor=[1.0, 1.3, 2.1],
                                long_factor=[1.5, 4.0, 9.0])},
    # Its own tokens and its greedy ones go beyond the original context: the long factors, from the first token on.
    "phi3_beyond": V4 | SIZES | {
        "model_type": "phi3", "hidden_size": 32, "max_position_embeddings": 128,
        "original_max_position_embeddings": 24, "rope_theta": 1500.0, "rms_norm_eps": 1e-5, "pad_token_id": 0,
        "rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.2, 1.6, 2.5], "long_factor": [1.3, 2.5, 6.0, 9.0]}},
    "gemma_legacy": V4 | SIZES | {
        "model_type": "gemma", "head_dim": 12, "num_key_value_heads": 1, "hidden_act": "gelu", "rope_theta": 2000.0,
        "rms_norm_eps": 1e-5},
    "gemma_biased": V5 | SIZES | {
        "model_type": "gemma", "head_dim": 8, "hidden_act": "gelu_pytorch_tanh", "attention_bias": True,
        "rms_norm_eps": 1e-5, "rope_parameters": rope(600.0)},
    "gemma2_capped": V4 | SIZES | {
        "model_type": "gemma2", "num_hidden_layers": 3, "head_dim": 10, "query_pre_attn_scalar": 20,
        "attn_logit_softcapping": 3.0, "final_logit_softcapping": 5.0, "sliding_window": 11, "rope_theta": 900.0,
        "rms_norm_eps": 1e-5},
    "gemma2_typed": V5 | SIZES | {
        "model_type": "gemma2", "head_dim": 8, "query_pre_attn_scalar": 7, "attn_logit_softcapping": 6.0,
        "final_logit_softcapping": None, "sliding_window": 15, "layer_types": ["full_attention", "sliding_attention"],
        "rope_parameters": rope(3000.0), "rms_norm_eps": 1e-5},
    "gemma3_scaled": V4 | SIZES | {
        "model_type": "gemma3_text", "num_hidden_layers": 3, "head_dim": 12, "query_pre_attn_scalar": 10,
        "sliding_window": 13, "sliding_window_pattern": 3, "rope_theta": 5000.0, "rope_local_base_freq": 200.0,
        "rope_scaling": {"rope_type": "linear", "factor": 4.0}, "rms_norm_eps": 1e-5},
    "gemma3_typed": V5 | SIZES | {
        "model_type": "gemma3_text", "head_dim": 10, "num_key_value_heads": 1, "query_pre_attn_scalar": 12,
        "sliding_window": 9, "layer_types": ["full_attention", "sliding_attention"], "final_logit_softcapping": 6.0,
        "rope_parameters": {"full_attention": rope(3000.0), "sliding_attention": rope(150.0)}, "rms_norm_eps": 1e-5},
    "smollm3_interval": V4 | SIZES | {
        "model_type": "smollm3", "num_hidden_layers": 3, "no_rope_layer_interval": 2, "rope_theta": 2000.0,
        "rms_norm_eps": 1e-5, "pad_token_id": 0},
    "smollm3_window": V5 | SIZES | {
        "model_type": "smollm3", "no_rope_layers": [0, 1], "use_sliding_window": True, "sliding_window": 12,
        "rope_parameters": rope(700.0), "rms_norm_eps": 1e-5, "attention_bias": True, "mlp_bias": True,
        "tie_word_embeddings": False, "pad_token_id": 0},
    "olmo2_grouped": V4 | SIZES | {"model_type": "olmo2", "rope_theta": 2000.0, "rms_norm_eps": 1e-5},
    "olmo2_biased": V5 | SIZES | {
        "model_type": "olmo2", "num_attention_heads": 2, "rope_parameters": rope(600.0), "rms_norm_eps": 1e-5,
        "attention_bias": True, "tie_word_embeddings": True},
    "granite_scaled": V4 | SIZES | {
        "model_type": "granite", "rope_theta": 2000.0, "rms_norm_eps": 1e-5, "embedding_multiplier": 5.0,
        "residual_multiplier": 0.35, "attention_multiplier": 0.6, "logits_scaling": 2.5},
    "granite_biased": V5 | SIZES | {
        "model_type": "granite", "rope_parameters": rope(700.0), "rms_norm_eps": 1e-5, "attention_bias": True,
        "mlp_bias": True, "embedding_multiplier": 0.7, "residual_multiplier": 1.0, "attention_multiplier": 0.3,
        "logits_scaling": 0.8},
    "stablelm_serial": V4 | SIZES | {
        "model_type": "stablelm", "hidden_size": 32, "partial_rotary_factor": 0.5, "rope_theta": 2000.0,
        "layer_norm_eps": 1e-5, "use_qkv_bias": True},
    "stablelm_normed": V5 | SIZES | {
        "model_type": "stablelm", "hidden_size": 32, "layer_norm_eps": 1e-5, "qk_layernorm": True,
        "use_parallel_residual": True, "rope_parameters": rope(600.0, partial_rotary_factor=0.25),
        "tie_word_embeddings": True},
    "falcon_one_key": V4 | SIZES | {
        "model_type": "falcon", "multi_query": True, "parallel_attn": True, "bias": False,
        "new_decoder_architecture": False, "rope_theta": 2000.0},
    "falcon_grouped": V5 | SIZES | {
        "model_type": "falcon", "num_kv_heads": 2, "new_decoder_architecture": True, "ffn_hidden_size": 40,
        "rope_parameters": rope(600.0), "bias": True},
    "falcon_alibi": V4 | SIZES | {
        "model_type": "falcon", "num_attention_heads": 6, "alibi": True, "multi_query": False, "parallel_attn": False,
        "bias": True, "new_decoder_architecture": False, "tie_word_embeddings": False},
    "bloom_four": V4 | {
        "model_type": "bloom", "hidden_size": 24, "n_layer": 2, "num_attention_heads": 4, "vocab_size": 59,
        "seq_length": 96},
    "bloom_six": V5 | {
        "model_type": "bloom", "hidden_size": 24, "n_layer": 2, "n_head": 6, "vocab_size": 59,
        "tie_word_embeddings": False},
    "gptj_partial": V4 | GPT_SIZES | {"model_type": "gptj", "rotary_dim": 6, "n_inner": 40},
    "gptj_whole": V5 | GPT_SIZES | {
        "model_type": "gptj", "n_head": 2, "rotary_dim": 12, "n_inner": None, "activation_function": "gelu"},
    "starcoder2_window": V4 | SIZES | {
        "model_type": "starcoder2", "sliding_window": 15, "rope_theta": 2000.0, "norm_epsilon": 1e-5},
    "starcoder2_untied": V5 | SIZES | {
        "model_type": "starcoder2", "rope_parameters": rope(700.0), "norm_epsilon": 1e-5, "use_bias": False,
        "tie_word_embeddings": False},
    "cohere_scaled": V4 | SIZES | {
        "model_type": "cohere", "rope_theta": 2000.0, "layer_norm_eps": 1e-5, "logit_scale": 0.4},
    "cohere_biased": V5 | SIZES | {
        "model_type": "cohere", "rope_parameters": rope(700.0), "layer_norm_eps": 1e-5, "logit_scale": 1.7,
        "attention_bias": True, "tie_word_embeddings": False},
}  # fmt: skip
MODELS |= {name: (keys, HALF) for name, keys in HALF_MODELS.items()}

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
        if name in ("lm_head.weight", "embed_out.weight") and config.tie_word_embeddings:
            continue
        values = rng.standard_normal(tuple(like.shape), dtype=np.float32)
        if any(part in name for part in ("norm", "ln_")) and name.endswith("weight"):
            values = 0.3 * values + (0 if "gemma" in config.model_type else 1)  # Gemma multiplies by 1 + weight
            values *= 0.3 if "word_embeddings" in name else 1
        elif like.ndim == 2 and any(part in name for part in ("embed_tokens", "embed_in", "wte.", "word_embeddings.")):
            # Embeddings that are scaled, or tied, would else repeat the last token for ever.
            values *= 0.3 if config.model_type == "llama" else EMBEDDING.get(config.model_type, 0.3)
            values[::FLAT] *= 0.0075  # the mean square becomes 5e-6: epsilon decides what the first norm gives
        else:
            values *= 0.22
        tensors[name] = torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))
    return tensors


def save_model(folder, tensors, config, dtype=torch.float32, shards=1, buffers=False):
    stored = {name: tensor.to(dtype) for name, tensor in tensors.items()}
    if config.model_type == "gpt_neox" and "lm_head.weight" in stored:
        stored["embed_out.weight"] = stored.pop("lm_head.weight")  # as files have it
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
    # Eager, Transformers 5.23 adds Falcon's ALiBi twice: to the mask and to the scores.
    attention = "sdpa" if folder.name == "falcon_alibi" else "eager"
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation=attention).eval()


def greedy(model, ids):
    # In one go: what a window sees of the cache is the model's to say, and this is its definition.
    ids, gap = list(ids), float("inf")
    for _ in range(GREEDY):
        top = run_logits(model, torch.tensor(ids))[-1].topk(2)
        gap = min(gap, (top.values[0] - top.values[1]).item())
        ids.append(top.indices[0].item())
    return ids[-GREEDY:], gap


def smallest_break(folder, model, ids, logits):
    moves = {}
    for key, apply in BREAKS.items():
        if model.config.model_type != "llama":
            break  # tests break an ingredient at a time
        config = AutoConfig.from_pretrained(folder, attn_implementation="eager")
        before = config.to_dict()
        apply(config)
        if config.to_dict() == before:
            continue
        broken = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval().float()
        broken.load_state_dict(model.state_dict())
        moves[key] = (run_logits(broken, ids) - logits).abs().max().item()
        assert moves[key] > SMALLEST_MOVE, (folder.name, key, moves[key])
    return (min(moves, key=moves.get), min(moves.values())) if moves else ("none", 0.0)


def make_model(name, keys, storage, out, seed):
    """A model whose greedy choices are clear; seeds are tried in turn."""
    for tried in range(seed, seed + 40_000, 1000):
        if (size := try_model(name, keys, storage, out, tried)) is not None:
            return size
    raise RuntimeError(f"{name}: no seed has a clear greedy continuation")


def try_model(name, keys, storage, out, seed):
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    written = keys | {"bos_token_id": 1, "eos_token_id": keys["vocab_size"] - 1}
    write_json(folder / "config.json", dict(sorted(written.items())))
    config = AutoConfig.from_pretrained(folder)
    storage = dict(storage)
    count = storage.pop("tokens", None) or config.max_position_embeddings
    ids = draw_ids(config, count, rng)
    save_model(folder, draw_weights(config, rng), config, **storage)
    model = load(folder)
    logits = run_logits(model, ids)
    exact = run_logits(load(folder).double(), ids)
    assert torch.isfinite(logits).all() and logits.abs().max() < 30
    prompt = ids[:11]
    new_ids, gap = greedy(model, prompt.tolist())
    if name in HALF_MODELS and (gap < 2e-3 or len(set(new_ids)) < 5):
        return None
    save_file({"input_ids": ids, "logits": logits.contiguous(), "prompt_ids": prompt.clone(),
               "greedy_ids": torch.tensor(new_ids)}, folder / "expected.safetensors")  # fmt: skip
    for file in folder.iterdir():
        file.chmod(0o644)
    key, move = smallest_break(folder, model, ids, logits)
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{name:20} {size:6} bytes  logits to {logits.abs().max():5.2f}, within {(logits - exact).abs().max():.1e} of "
          f"float64, greedy gap {gap:.1e}, least moved ({move:.1e}) by {key}")  # fmt: skip
    return size


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", choices=[[], *MODELS], help="which ones [all]")
    parser.add_argument("--out", type=Path, default=FIXTURES)
    args = parser.parse_args()
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    models = args.out / "models"
    sizes = [make_model(name, *parts, models, seed) for seed, (name, parts) in enumerate(MODELS.items())
             if not args.models or name in args.models]  # fmt: skip
    print(f"{len(sizes)} models, {sum(sizes)} bytes")


if __name__ == "__main__":
    main()
