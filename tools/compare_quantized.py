#!/usr/bin/env python3
"""Compares the folders that `assay quantize` writes with those that Transformers and bitsandbytes save, both ways.

usage: tools/compare_quantized.py MODEL [PRECISION...]        (needs torch, transformers, bitsandbytes, accelerate)

For each precision: are the two model.safetensors equal; how far are Transformers' logits of our folder from those of
its own, and ours of its folder from ours of our own. Exits with 1 where a file, or a logit, differs.
"""

import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import bitsandbytes.nn.modules
import numpy as np
import torch
from check_quantized_folders import write_theirs
from transformers import AutoModelForCausalLM
from transformers.utils import logging

ASSAY = Path(os.environ.get("ASSAY", Path(__file__).resolve().parent.parent / "build/release/assay"))
PRECISIONS = ("nf4", "fp4", "nf4-dq", "fp4-dq", "llm-int8")
IDS = list(range(1, 8))


def their_logits(folder):
    model = AutoModelForCausalLM.from_pretrained(folder, device_map="cpu").eval()
    with torch.no_grad():
        return model(torch.tensor([IDS])).logits[0].float().numpy()


def our_logits(folder, path):
    ids = ",".join(map(str, IDS))
    subprocess.run([ASSAY, "logits", folder, "--ids", ids, "-o", path], check=True, stdout=subprocess.DEVNULL)
    return np.load(path)


def compare(model, precision, work):
    ours, theirs = work / "ours", work / "theirs"
    subprocess.run(
        [ASSAY, "quantize", model, ours, "--precision", precision, "--dtype", "float32"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    write_theirs(model, precision, theirs)
    same_file = (ours / "model.safetensors").read_bytes() == (theirs / "model.safetensors").read_bytes()
    a, b = their_logits(ours), their_logits(theirs)
    c, d = our_logits(ours, work / "c.npy"), our_logits(theirs, work / "d.npy")
    print(
        f"{precision:9} file {'equal' if same_file else 'DIFFERS'}; logits of ours and theirs differ by at most "
        f"{abs(a - b).max():g} in Transformers, {abs(c - d).max():g} here; here and there by {abs(d - b).max():g} "
        f"(deviation {b.std():.3g})"
    )
    return same_file and np.array_equal(a, b) and np.array_equal(c, d)


def main():
    bitsandbytes.nn.modules.has_avx512bf16 = lambda: False  # its own products round to bfloat16 there
    warnings.simplefilter("ignore")
    logging.set_verbosity_error()
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    is_equal = True
    for precision in sys.argv[2:] or PRECISIONS:
        with tempfile.TemporaryDirectory() as work:
            is_equal = compare(sys.argv[1], precision, Path(work)) and is_equal
    sys.exit(0 if is_equal else 1)


if __name__ == "__main__":
    main()
