#!/usr/bin/env python3
"""Writes tests/fixtures/quantized: folders that Transformers and bitsandbytes save of a tiny model.

usage: tools/make_quantized_fixtures.py        (needs torch, transformers, bitsandbytes, accelerate)

The model is tests/fixtures/models/n_inner: its matrices do not end with a whole block of 64. Double quantization takes
the mean of the scales; where they are 16-bit numbers the order of that sum does not matter, so that files can be equal
to the byte.
"""

import shutil
import warnings
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from transformers.utils import logging

FIXTURES = Path(__file__).resolve().parent.parent / "tests" / "fixtures"
DTYPES = {"nf4": "float32", "fp4": "float16", "nf4-dq": "bfloat16", "fp4-dq": "float16", "llm-int8": "float32"}


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
    for kind, dtype in DTYPES.items():
        out = FIXTURES / "quantized" / kind
        shutil.rmtree(out, ignore_errors=True)
        model = AutoModelForCausalLM.from_pretrained(
            FIXTURES / "models" / "n_inner",
            quantization_config=config_of(kind, dtype),
            dtype=getattr(torch, dtype),
            device_map="cpu",
        )
        model.save_pretrained(out)
        print(kind, dtype, sum(file.stat().st_size for file in out.iterdir()), "bytes")


if __name__ == "__main__":
    main()
