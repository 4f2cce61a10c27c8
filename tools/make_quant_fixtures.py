#!/usr/bin/env python3
"""Writes tests/fixtures/quant.safetensors: what bitsandbytes makes of small tensors and small models on a CPU.

usage: tools/make_quant_fixtures.py        (needs torch, transformers, bitsandbytes)

Tensors are float16 values held in float32: outliers, blocks of zeros, values half-way between two codes. Logits are
those of Transformers with the products of bitsandbytes, on models of tests/fixtures/models, for the
last 40 ids of their expected.safetensors.
"""

import warnings
from pathlib import Path

import bitsandbytes.functional as F
import numpy as np
import torch
from bitsandbytes.autograd._functions import MatmulLtState, matmul
from safetensors.torch import load_file, save_file
from transformers import GPT2LMHeadModel
from transformers.utils import logging

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "tests" / "fixtures"
MODELS = ("base", "odd_heads")


def hard_values(count, seed):
    """Normal values with outliers, zeros and exact ties, as float16 can hold them."""
    generator = np.random.default_rng(seed)
    x = generator.normal(0, 0.04, count).astype(np.float16).astype(np.float32)
    x[generator.integers(0, count, count // 97)] *= 40
    x[64:128] = 0
    x[130:140] = 0
    return torch.from_numpy(x.astype(np.float16).astype(np.float32))


def four_bit(out):
    # 301 blocks and a part of one; the first blocks hold the codes' own values and the points half-way between them.
    x = hard_values(301 * 64 + 37, 1)
    for block, kind in ((3, "nf4"), (4, "fp4")):
        book = F.get_4bit_type(kind, device="cpu").sort().values
        ties = torch.cat([book, (book[1:] + book[:-1]) / 2, -book])
        x[block * 64 : block * 64 + len(ties)] = ties
        x[block * 64 + 63] = 1
    out["x"] = x
    for kind in ("nf4", "fp4"):
        packed, state = F.quantize_4bit(x, blocksize=64, quant_type=kind)
        out[f"{kind}.packed"], out[f"{kind}.absmax"] = packed.flatten(), state.absmax
        out[f"{kind}.values"] = F.dequantize_4bit(packed, state).flatten()[: len(x)].contiguous()
        _, nested = F.quantize_4bit(x, blocksize=64, quant_type=kind, compress_statistics=True)
        out[f"{kind}.nested_codes"], out[f"{kind}.nested_absmax"] = nested.absmax, nested.state2.absmax
        out[f"{kind}.nested_offset"] = nested.offset.reshape(1)
        scales = F.dequantize_blockwise(nested.absmax, nested.state2) + nested.offset
        out[f"{kind}.nested_scales"] = scales.flatten()
    out["dynamic_map"] = F.create_dynamic_map().float()


def int8_state(codes, absmax, threshold):
    state = MatmulLtState()
    state.CB, state.SCB, state.threshold, state.has_fp16_weights = codes, absmax, threshold, False
    state.is_training = False  # else inputs stay as they are
    return state


def int8(out):
    rows, k, n = 9, 80, 24
    w = hard_values(n * k, 2).reshape(n, k)
    x = hard_values(rows * k, 3).reshape(rows, k) * 20
    x[2, 7], x[5, 7], x[5, 61] = 9.5, -6.0, 12.25  # 6.0 is an outlier too
    x = x.half().float()
    bias = hard_values(200, 4)[:n].contiguous()
    out["int8.w"], out["int8.x"], out["int8.bias"] = w, x, bias
    codes, scb, _ = F.int8_vectorwise_quant(w.half())
    out["int8.codes"], out["int8.absmax"] = codes, scb
    for threshold in (0.0, 6.0):
        out[f"int8.y{threshold:.0f}"] = matmul(x, codes, bias=bias, state=int8_state(codes, scb, threshold)).float()


class Int8Linear(torch.nn.Module):
    def __init__(self, conv):
        super().__init__()
        self.codes, self.absmax, _ = F.int8_vectorwise_quant(conv.weight.T.contiguous().half())
        self.bias = conv.bias

    def forward(self, x):
        # Its steps, but for the factor of its kernel for a CPU: 6.200124e-05, where 1 / 127^2 is 6.2000124e-05 (as on a
        # GPU). That much moves inputs of later layers over the edge to another code.
        rows = x.reshape(-1, x.shape[-1])
        codes, absmax, outliers = F.int8_vectorwise_quant(rows.half(), threshold=6.0)
        sums = torch.ops.bitsandbytes.int8_linear_matmul(codes, self.codes).float()
        y = sums * (absmax[:, None] * self.absmax[None]) * (1 / 127**2)
        y += rows[:, outliers] @ (self.codes[:, outliers].float() * self.absmax[:, None] / 127).T
        return (y + self.bias).reshape(*x.shape[:-1], -1)


def quantize(model, kind):
    """Every Conv1D as bitsandbytes has it: by the operations of its modules, whose own forward on a CPU with bfloat16
    instructions rounds to bfloat16 and wants widths of 32."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child).__name__ != "Conv1D":
                continue
            if kind == "llm-int8":
                setattr(module, name, Int8Linear(child))
                continue
            # Flat, as blocks are meant to run: its kernel for a CPU starts a block with each row.
            rows = child.weight.data.T.contiguous()
            packed, state = F.quantize_4bit(
                rows.flatten(), blocksize=64, quant_type=kind[:3], compress_statistics=kind.endswith("dq")
            )
            child.weight.data = F.dequantize_4bit(packed, state).reshape(rows.shape).T.contiguous()


def logits(out):
    for name in MODELS:
        folder = FIXTURES / "models" / name
        ids = load_file(folder / "expected.safetensors")["input_ids"]
        for kind in ("nf4", "fp4", "nf4-dq", "fp4-dq", "llm-int8"):
            model = GPT2LMHeadModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
            with torch.no_grad():
                quantize(model, kind)
                out[f"{name}.{kind}"] = model(ids[None]).logits[0, -40:].float().contiguous()


def main():
    warnings.simplefilter("ignore")
    logging.set_verbosity_error()
    torch.set_num_threads(1)
    out = {}
    four_bit(out)
    int8(out)
    logits(out)
    save_file({k: v.contiguous() for k, v in out.items()}, FIXTURES / "quant.safetensors")
    for name, tensor in out.items():
        print(f"{name:24} {str(tensor.dtype):14} {tuple(tensor.shape)}")


if __name__ == "__main__":
    main()
