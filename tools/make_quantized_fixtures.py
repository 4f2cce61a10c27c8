#!/usr/bin/env python3
"""Writes tests/fixtures/quantized: folders that Transformers and bitsandbytes save of a tiny model.

usage: tools/make_quantized_fixtures.py [FOLDER ...]    (needs torch, transformers, bitsandbytes, accelerate)

The models are tests/fixtures/models/n_inner, whose matrices do not end with a whole block of 64, and llama_scaled, whose
queries, keys and values are three matrices that Assay packs as one; gpt_neox_serial, where they are one matrix in
another order; opt_post_norm, with matrices outside the layers; and gemma3_scaled. Double quantization takes the mean of the scales;
where they are 16-bit numbers the order of that sum does not matter, so that files can be equal to the byte.
"""

import shutil
import sys
import warnings
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
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


def config_of(kind, dtype):
    if kind == "llm-int8":
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type=kind[:3],
        bnb_4bit_use_double_quant=kind.endswith("dq"),
        bnb_4bit_compute_dtype=dtype,
    )


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


if __name__ == "__main__":
    main()
