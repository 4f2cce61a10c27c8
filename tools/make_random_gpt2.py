#!/usr/bin/env python3
"""Writes a Hugging Face GPT-2 folder of real shapes with random weights: for speed and memory, not for text.

The weights are normal with deviation 0.02 (GPT-2's own initializer), biases 0, gains 1, the head tied.
Needs numpy alone: the file is streamed, one tensor in memory at a time. The tokenizer is copied when its files are there.
"""

import argparse
import json
import math
import os
import shutil
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
SIZES = {"124m": (768, 12, 12), "355m": (1024, 24, 16)}  # n_embd, n_layer, n_head
VOCAB, CONTEXT = 50257, 1024


def shapes(width, layers):
    """Names and shapes in the order that weights are drawn in. Conv1D: [inputs, outputs]."""
    yield "wte.weight", (VOCAB, width)
    yield "wpe.weight", (CONTEXT, width)
    for layer in range(layers):
        for name, inputs, outputs in (
            ("attn.c_attn", width, 3 * width),
            ("attn.c_proj", width, width),
            ("mlp.c_fc", width, 4 * width),
            ("mlp.c_proj", 4 * width, width),
        ):
            yield f"h.{layer}.{name}.weight", (inputs, outputs)
            yield f"h.{layer}.{name}.bias", (outputs,)
        for name in ("ln_1", "ln_2"):
            yield f"h.{layer}.{name}.weight", (width,)
            yield f"h.{layer}.{name}.bias", (width,)
    yield "ln_f.weight", (width,)
    yield "ln_f.bias", (width,)


def draw(name, shape, rng):
    if name.endswith("bias"):
        return np.zeros(shape, np.float32)
    if "ln_" in name:
        return np.ones(shape, np.float32)
    return np.float32(0.02) * rng.standard_normal(shape, dtype=np.float32)


def to_bytes(values, dtype):
    if dtype != "bfloat16":
        return values.astype(dtype).tobytes()
    # numpy has no bfloat16: the upper half of a float32, rounded to nearest, ties to even.
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16).tobytes()


def header(named_shapes, dtype):
    """The head of a safetensors file: its length in 8 bytes, then JSON, padded so that data is aligned."""
    code, size = {"float32": ("F32", 4), "float16": ("F16", 2), "bfloat16": ("BF16", 2)}[dtype]
    entries, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in named_shapes:
        end = offset + size * math.prod(shape)
        entries[f"transformer.{name}"] = {"dtype": code, "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, required=True)
    parser.add_argument("--out", type=Path, metavar="DIR", required=True)
    parser.add_argument("--dtype", choices=("float32", "float16", "bfloat16"), default="float32")
    parser.add_argument("--seed", type=int, default=0)
    data = Path(os.environ.get("ASSAY_DEV_DATA", ROOT.parent / "shared" / "data"))
    parser.add_argument("--tokenizer", type=Path, metavar="DIR", default=data / "gpt2-tokenizer")
    args = parser.parse_args()

    width, layers, heads = SIZES[args.size]
    rng = np.random.default_rng(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    with open(args.out / "model.safetensors", "wb") as file:
        file.write(header(shapes(width, layers), args.dtype))
        for name, shape in shapes(width, layers):
            file.write(to_bytes(draw(name, shape, rng), args.dtype))
    config = {
        "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
        "bos_token_id": VOCAB - 1, "dtype": args.dtype, "embd_pdrop": 0.1, "eos_token_id": VOCAB - 1,
        "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_embd": width,
        "n_head": heads, "n_inner": None, "n_layer": layers, "n_positions": CONTEXT, "resid_pdrop": 0.1,
        "tie_word_embeddings": True, "use_cache": True, "vocab_size": VOCAB,
    }  # fmt: skip
    (args.out / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    for name in ("vocab.json", "merges.txt"):
        if (args.tokenizer / name).exists():
            # copyfile: the mode of a read-only source is not wanted
            shutil.copyfile(args.tokenizer / name, args.out / name)
        else:
            print(f"{args.tokenizer / name}: not found, left out")
    weights = sum(math.prod(shape) for _, shape in shapes(width, layers))
    print(f"{args.out}: {weights} weights, {(args.out / 'model.safetensors').stat().st_size} bytes")


if __name__ == "__main__":
    main()
