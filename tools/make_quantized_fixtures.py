#!/usr/bin/env python3
"""Writes tests/fixtures/quantized and quantized_blocks: folders that Transformers and bitsandbytes save of a tiny model.

usage: tools/make_quantized_fixtures.py [FOLDER ...]    (needs torch, transformers, bitsandbytes, accelerate)

The models are tests/fixtures/models/n_inner, whose matrices do not end with a whole block of 64, and llama_scaled, whose
queries, keys and values are three matrices that Assay packs as one; gpt_neox_serial, where they are one matrix in
another order; opt_post_norm, with matrices outside the layers; and gemma3_scaled. Double quantization takes the mean of the scales;
where they are 16-bit numbers the order of that sum does not matter, so that files can be equal to the byte.
Folders of quantized_blocks have other blocks than 64, the logits that bitsandbytes gives, and the weights that it dequantizes.
"""

import shutil
import sys
import warnings
from pathlib import Path

import bitsandbytes
import torch
from bitsandbytes.backends.default.ops import _dequantize_4bit_compute
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from transformers.pytorch_utils import Conv1D
from transformers.utils import logging

FIXTURES = Path(__file__).resolve().parent.parent / "tests" / "fixtures"
# folder: (model, precision, dtype of everything that is not quantized)
FOLDERS = {
    "nf4": ("n_inner", "nf4", "float32"), "fp4": ("n_inner", "fp4", "float16"), "nf4-dq": ("n_inner", "nf4-dq", "bfloat16"),
    "fp4-dq": ("n_inner", "fp4-dq", "float16"), "llm-int8": ("n_inner", "llm-int8", "float32"),
    "llama-nf4": ("llama_scaled", "nf4", "bfloat16"), "llama-fp4-dq": ("llama_scaled", "fp4-dq", "float16"),
    "llama-llm-int8": ("llama_scaled", "llm-int8", "float32"),
    "neox-nf4-dq": ("gpt_neox_serial", "nf4-dq", "float16"), "opt-fp4": ("opt_post_norm", "fp4", "float16"),
    "gemma3-llm-int8": ("gemma3_scaled", "llm-int8", "float32"),
}  # fmt: skip

# folder: (model, precision, block)
BLOCKS = {
    "nf4-32": ("n_inner", "nf4", 32), "fp4-128": ("n_inner", "fp4", 128), "nf4-dq-256": ("llama_scaled", "nf4-dq", 256),
    "fp4-dq-4096": ("n_inner", "fp4-dq", 4096),
}  # fmt: skip
IDS = [1, 5, 58, 7, 0, 33, 2, 2, 51]


def config_of(kind, dtype):
    if kind == "llm-int8":
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type=kind[:3],
        bnb_4bit_use_double_quant=kind.endswith("dq"),
        bnb_4bit_compute_dtype=dtype,
    )


def set_block(block):
    """Params4bit takes blocks of this many weights where its caller names none; Transformers names none."""
    make = ORIGINAL_NEW

    def new(cls, *args, **options):
        return make(cls, *args, **{"blocksize": block, **options})

    bitsandbytes.nn.Params4bit.__new__ = new if block else make


ORIGINAL_NEW = bitsandbytes.nn.Params4bit.__new__


def dequantized(weight):
    """By the generic rules: bitsandbytes' kernel for AVX-512 takes wrong scales where a row is shorter than a block."""
    state = weight.quant_state
    absmax = state.absmax
    if state.nested:
        absmax = bitsandbytes.functional.dequantize_blockwise(absmax, state.state2) + state.offset
    codes = weight.data.reshape(-1)
    return _dequantize_4bit_compute(codes, absmax, state.code, state.blocksize, state.shape, torch.float32).contiguous()


def write_blocks(name, source, kind, block):
    out = FIXTURES / "quantized_blocks" / name
    shutil.rmtree(out, ignore_errors=True)
    set_block(block)
    model = AutoModelForCausalLM.from_pretrained(
        FIXTURES / "models" / source,
        quantization_config=config_of(kind, "float32"),
        dtype=torch.float32,
        device_map="cpu",
    )
    set_block(None)
    model.save_pretrained(out)
    expected = {"input_ids": torch.tensor(IDS, dtype=torch.int64)}
    for module, layer in model.named_modules():
        if isinstance(layer, bitsandbytes.nn.Linear4bit):
            assert layer.weight.quant_state.blocksize == block
            expected[module + ".weight"] = dequantized(layer.weight)
    # Its own product on a CPU wants whole tiles, which such small matrices do not fill.
    plain = AutoModelForCausalLM.from_pretrained(FIXTURES / "models" / source, dtype=torch.float32)
    with torch.no_grad():
        for module, layer in plain.named_modules():
            if (values := expected.get(module + ".weight")) is not None:
                layer.weight.copy_(values.T if isinstance(layer, Conv1D) else values)
        expected["logits"] = plain(torch.tensor([IDS])).logits[0].contiguous()
    save_file(expected, out / "expected.safetensors")
    print(name, sum(file.stat().st_size for file in out.iterdir()), "bytes")


def main():
    warnings.simplefilter("ignore")
    logging.set_verbosity_error()
    torch.set_num_threads(1)
    for name, (source, kind, dtype) in FOLDERS.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        out = FIXTURES / "quantized" / name
        shutil.rmtree(out, ignore_errors=True)
        model = AutoModelForCausalLM.from_pretrained(
            FIXTURES / "models" / source,
            quantization_config=config_of(kind, dtype),
            dtype=getattr(torch, dtype),
            device_map="cpu",
        )
        model.save_pretrained(out)
        print(name, dtype, sum(file.stat().st_size for file in out.iterdir()), "bytes")
    for name, what in BLOCKS.items():
        if not sys.argv[1:] or name in sys.argv[1:]:
            write_blocks(name, *what)


if __name__ == "__main__":
    main()
