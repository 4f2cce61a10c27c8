#!/usr/bin/env python3
"""Writes a Hugging Face folder of real shapes (tools/model_shapes.py) with random weights: for speed and memory, not for text.

The weights are normal with deviation 0.02 (the initializer of all of them), biases 0, gains 1 (of Gemma, which adds 1 to
what the file holds: 0).
Needs numpy alone: the file is streamed, one tensor in memory at a time. GPT-2's tokenizer is copied when its files are there.
With --pool the weights are runs of one pool of 16 million numbers, from random places of it: an 8B model takes seconds
instead of minutes, and times and sizes are those of other random weights.
"""

import argparse
import json
import math
import os
import shutil
from pathlib import Path

import numpy as np

from model_shapes import SHAPES

ROOT = Path(__file__).resolve().parent.parent


def draw(name, shape, rng, gain=1):
    if name.endswith("bias") or (len(shape) == 1 and not gain):
        return np.zeros(shape, np.float32)
    if len(shape) == 1:
        return np.ones(shape, np.float32)
    return np.float32(0.02) * rng.standard_normal(shape, dtype=np.float32)


class Pool:
    """What --pool draws from, in the type of the file."""

    NUMBERS = 1 << 24

    def __init__(self, rng, dtype):
        self.rng = rng
        self.data = memoryview(to_bytes(np.float32(0.02) * rng.standard_normal(self.NUMBERS, dtype=np.float32), dtype))
        self.size = len(self.data) // self.NUMBERS

    def write(self, file, count):
        while count > 0:
            begin = int(self.rng.integers(self.NUMBERS))
            run = min(count, self.NUMBERS - begin)
            file.write(self.data[begin * self.size : (begin + run) * self.size])
            count -= run


def to_bytes(values, dtype):
    if dtype != "bfloat16":
        return values.astype(dtype).tobytes()
    # numpy has no bfloat16: the upper half of a float32, rounded to nearest, ties to even.
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16).tobytes()


def header(tensors, dtype):
    """The head of a safetensors file: its length in 8 bytes, then JSON, padded so that data is aligned."""
    code, size = {"float32": ("F32", 4), "float16": ("F16", 2), "bfloat16": ("BF16", 2)}[dtype]
    entries, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in tensors:
        end = offset + size * math.prod(shape)
        entries[name] = {"dtype": code, "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


ARCHITECTURES = {
    "llama": "LlamaForCausalLM", "qwen3": "Qwen3ForCausalLM", "gemma3_text": "Gemma3ForCausalLM",
}  # fmt: skip
OF_FAMILY = {
    "llama": {"hidden_act": "silu", "rms_norm_eps": 1e-05, "rope_theta": 10000.0},
    "qwen3": {
        "hidden_act": "silu", "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": None,
        "use_sliding_window": False,
    },
    "gemma3_text": {
        "attn_logit_softcapping": None, "final_logit_softcapping": None, "hidden_activation": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000.0,
        "rope_theta": 1000000.0,
    },
}  # fmt: skip


def config_of(shape, dtype):
    config = {
        "bos_token_id": shape.vocab - 1, "dtype": dtype, "eos_token_id": shape.vocab - 1, "initializer_range": 0.02,
        "model_type": shape.family, "tie_word_embeddings": shape.is_head_tied, "use_cache": True,
        "vocab_size": shape.vocab,
    }  # fmt: skip
    if shape.family == "gpt2":
        config |= {
            "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
            "embd_pdrop": 0.1, "layer_norm_epsilon": 1e-05, "n_embd": shape.hidden, "n_head": shape.heads,
            "n_inner": None, "n_layer": shape.layers, "n_positions": shape.context, "resid_pdrop": 0.1,
        }  # fmt: skip
    else:
        config |= {
            "architectures": [ARCHITECTURES[shape.family]], "attention_bias": False, "attention_dropout": 0.0,
            "hidden_size": shape.hidden, "intermediate_size": shape.mlp_hidden,
            "max_position_embeddings": shape.context, "num_attention_heads": shape.heads,
            "num_hidden_layers": shape.layers, "num_key_value_heads": shape.kv_heads, "rope_scaling": None,
        } | OF_FAMILY[shape.family]  # fmt: skip
        if shape.own_head_dim:
            config["head_dim"] = shape.own_head_dim
        if shape.window:
            config["sliding_window"] = shape.window
            config["layer_types"] = [
                "sliding_attention" if (layer + 1) % shape.full_each else "full_attention" for layer in range(shape.layers)
            ]
    return dict(sorted(config.items()))


def split(tensors, shards, dtype):
    """The tensors of each file, in order, files as equal as tensors allow; and the bytes of all."""
    size = 4 if dtype == "float32" else 2
    total = size * sum(math.prod(dims) for _, dims in tensors)
    files, done = [[] for _ in range(shards)], 0
    for name, dims in tensors:
        files[min(shards - 1, done * shards // total)].append((name, dims))
        done += size * math.prod(dims)
    return [file for file in files if file], total


def write_weights(out, tensors, shards, dtype, rng, gain, has_pool=False):
    """Returns the bytes of all files."""
    files, total = split(tensors, shards, dtype)
    names = [f"model-{i + 1:05}-of-{len(files):05}.safetensors" for i in range(len(files))]
    if shards == 1:
        names = ["model.safetensors"]
    else:
        places = {name: file for file, held in zip(names, files) for name, _ in held}
        index = {"metadata": {"total_size": total}, "weight_map": places}
        (out / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
    pool = Pool(rng, dtype) if has_pool else None
    for file_name, held in zip(names, files):
        with open(out / file_name, "wb") as file:
            file.write(header(held, dtype))
            for name, dims in held:
                if pool and len(dims) > 1:
                    pool.write(file, math.prod(dims))
                else:
                    file.write(to_bytes(draw(name, dims, rng, gain), dtype))
    return sum((out / name).stat().st_size for name in names)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SHAPES, required=True)
    parser.add_argument("--out", type=Path, metavar="DIR", required=True)
    parser.add_argument("--dtype", choices=("float32", "float16", "bfloat16"), help="default: GPT-2 float32, others bfloat16")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shards", type=int, default=1, metavar="N", help="files of weights, with an index (default: 1)")
    parser.add_argument("--pool", action="store_true", help="draw the weights from one pool: seconds for a large model")
    data = Path(os.environ.get("ASSAY_DEV_DATA", ROOT.parent / "shared" / "data"))
    parser.add_argument("--tokenizer", type=Path, metavar="DIR", default=data / "gpt2-tokenizer", help="of GPT-2")
    args = parser.parse_args()

    shape = SHAPES[args.size]
    dtype = args.dtype or shape.dtype
    rng = np.random.default_rng(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    gain = 0 if shape.family == "gemma3_text" else 1
    file_bytes = write_weights(args.out, list(shape.tensors()), max(1, args.shards), dtype, rng, gain, args.pool)
    (args.out / "config.json").write_text(json.dumps(config_of(shape, dtype), indent=2) + "\n", encoding="utf-8")
    for name in ("vocab.json", "merges.txt") if shape.family == "gpt2" else ():
        if (args.tokenizer / name).exists():
            # copyfile: the mode of a read-only source is not wanted
            shutil.copyfile(args.tokenizer / name, args.out / name)
        else:
            print(f"{args.tokenizer / name}: not found, left out")
    weights = sum(math.prod(dims) for _, dims in shape.tensors())
    print(f"{args.out}: {weights} weights, {file_bytes} bytes")


if __name__ == "__main__":
    main()
