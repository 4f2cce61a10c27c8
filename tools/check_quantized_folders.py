#!/usr/bin/env python3
"""Checks quantized folders, ours and those of Transformers with bitsandbytes, against plain models of the same weights.

usage: tools/check_quantized_folders.py [MODEL...]        (needs torch, transformers, bitsandbytes, accelerate)

Without models: small random ones of four families, of shapes that bitsandbytes dequantizes rightly everywhere. Each is
quantized by `assay quantize` and by Transformers, and both programs load both folders. Weights are taken out of
Transformers' modules as codes times scales and put into the plain model. What its logits in float32 say of the others:

  nf4, fp4, nf4-dq, fp4-dq  Assay's logits, and Transformers', are at most 2e-4 of their standard deviation away.
                            bitsandbytes' own dequantization is wrong for some shapes on some processors: where it is
                            not codes times scales, Transformers' logits are not looked at.
  llm-int8                  Activations become bytes, and one that lies between two codes may fall either way. Tokens
                            behind it then differ by a percent or more. So in models of one layer the nearest token of
                            Assay is held to LLM.int8 without bitsandbytes' rounding to float16. All logits of Assay and
                            Transformers are held to each other and to those of the dequantized weights, by RMS_INT8.

Exits with 1 where one does not hold.
"""

import functools
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import bitsandbytes
import bitsandbytes.nn.modules
import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM, BitsAndBytesConfig
from transformers.pytorch_utils import Conv1D
from transformers.utils import logging

ROOT = Path(__file__).resolve().parent.parent
ASSAY = Path(os.environ.get("ASSAY", ROOT / "build/release/assay"))
SIZES = {
    "vocab_size": 199, "hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2, "initializer_range": 0.1,
}  # fmt: skip
FAMILIES = ("gpt2", "llama", "qwen3", "gemma3_text")
PRECISIONS = ("nf4", "fp4", "nf4-dq", "fp4-dq", "llm-int8")
IDS = [1, 5, 9, 2, 8, 3, 7, 4, 6, 1, 2, 3]
TOLERANCE, RMS_INT8 = 2e-4, 0.05


def write_random(family, layers, out):
    torch.manual_seed(7)
    sizes = SIZES | {"num_hidden_layers": layers}
    if family == "gpt2":
        sizes = {"vocab_size": 199, "n_embd": 128, "n_layer": layers, "n_head": 4, "n_positions": 64, "bos_token_id": 1,
                 "eos_token_id": 2, "initializer_range": 0.1}  # fmt: skip
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **sizes), dtype=torch.float32)
    model.save_pretrained(out)


def write_ours(model, precision, out):
    command = [ASSAY, "quantize", model, out, "--precision", precision, "--dtype", "float32"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def write_theirs(model, precision, out):
    if precision == "llm-int8":
        config = BitsAndBytesConfig(load_in_8bit=True)
    else:
        config = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type=precision[:3],
            bnb_4bit_use_double_quant=precision.endswith("dq"),
        )
    loaded = AutoModelForCausalLM.from_pretrained(
        model, quantization_config=config, device_map="cpu", dtype=torch.float32
    )
    loaded.save_pretrained(out)


def dequantized(module):
    """Codes times scales, [outputs, inputs]; and whether bitsandbytes finds the same."""
    weight = module.weight
    if isinstance(module, bitsandbytes.nn.Linear8bitLt):
        codes = weight.CB if getattr(weight, "CB", None) is not None else weight.data
        scales = weight.SCB if getattr(weight, "SCB", None) is not None else module.state.SCB
        return codes.float() * (scales.float() / 127)[:, None], True
    state = weight.quant_state
    scales = state.absmax
    if state.nested:
        per = state.state2.blocksize
        scales = state.state2.code[scales.long()] * state.state2.absmax.repeat_interleave(per)[: scales.numel()]
        scales = scales + state.offset
    count = state.shape[0] * state.shape[1]
    pairs = weight.data.flatten()
    codes = torch.stack([pairs >> 4, pairs & 15], 1).flatten()[:count].long()
    values = state.code[codes] * scales.float().repeat_interleave(state.blocksize)[:count]
    values = values.view(state.shape)
    own = bitsandbytes.functional.dequantize_4bit(weight.data, state)
    return values, torch.allclose(own.float(), values, rtol=1e-5, atol=1e-7)


def multiply_in_float32(module, x):
    """LLM.int8 (Dettmers et al. 2022) as bitsandbytes has it, but that sums are not rounded to float16."""
    codes = module.weight.CB if getattr(module.weight, "CB", None) is not None else module.weight.data
    scales = module.weight.SCB if getattr(module.weight, "SCB", None) is not None else module.state.SCB
    rows = x.half().float().reshape(-1, x.shape[-1])
    is_outlier = (rows.abs() >= module.state.threshold).any(0)
    plain = rows.masked_fill(is_outlier, 0)
    most = plain.abs().amax(1, keepdim=True)
    inputs = torch.round(plain * (127 / most))
    out = (inputs @ codes.float().T) * most * scales / (127 * 127)
    out = out + rows[:, is_outlier] @ (codes[:, is_outlier].float() * (scales / 127)[:, None]).T
    if module.bias is not None:
        out = out + module.bias.float()
    return out.view(*x.shape[:-1], -1)


def logits_of(model):
    with torch.no_grad():
        return model(torch.tensor([IDS])).logits[0].float().numpy()


def our_logits(folder, path):
    command = [ASSAY, "logits", folder, "--ids", ",".join(map(str, IDS)), "-o", path]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return np.load(path)


def check(model, precision, work):
    """Yields (what, difference in deviations or None where there is nothing to compare, most)."""
    for owner, write in (("ours", write_ours), ("theirs", write_theirs)):
        folder = work / owner
        write(model, precision, folder)
        loaded = AutoModelForCausalLM.from_pretrained(folder, device_map="cpu").eval()
        plain = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32, attn_implementation="eager").eval()
        kinds = (bitsandbytes.nn.Linear4bit, bitsandbytes.nn.Linear8bitLt)
        quantized, is_right = 0, True
        for name, module in loaded.named_modules():
            if not isinstance(module, kinds):
                continue
            values, agrees = dequantized(module)
            target = plain.get_submodule(name)
            quantized, is_right = quantized + 1, is_right and agrees
            target.weight.data = (values.T if isinstance(target, Conv1D) else values).contiguous()
        if quantized == 0:
            yield f"{owner}: Transformers found no quantized module", np.inf, 0
            continue
        want = logits_of(plain)
        here, there = our_logits(folder, work / "logits.npy"), logits_of(loaded)

        def largest(a, b):
            return np.abs(a - b).max() / want.std()

        def rms(a, b):
            return np.sqrt(np.square(a - b).mean()) / want.std()

        if precision == "llm-int8":
            for module in loaded.modules():
                if isinstance(module, bitsandbytes.nn.Linear8bitLt):
                    module.forward = functools.partial(multiply_in_float32, module)
            apart = np.abs(here - logits_of(loaded)).max(1) / want.std()
            yield f"{owner}: Assay to LLM.int8, one token", apart.min(), TOLERANCE
            yield f"{owner}: Assay to Transformers", rms(here, there), RMS_INT8
            yield f"{owner}: Assay to dequantized", rms(here, want), RMS_INT8
            yield f"{owner}: Transformers to dequantized", rms(there, want), RMS_INT8
            continue
        yield f"{owner}: Assay to dequantized", largest(here, want), TOLERANCE
        yield f"{owner}: Transformers to dequantized", largest(there, want) if is_right else None, TOLERANCE


def main():
    bitsandbytes.nn.modules.has_avx512bf16 = lambda: False  # its own products round to bfloat16 there
    warnings.simplefilter("ignore")
    logging.set_verbosity_error()
    if any(argument.startswith("-") for argument in sys.argv[1:]):
        sys.exit(__doc__)
    logging.disable_progress_bar()
    is_right = True
    for precision in PRECISIONS:
        with tempfile.TemporaryDirectory() as made:
            models = [Path(model) for model in sys.argv[1:]] or [Path(made) / family for family in FAMILIES]
            for model in models:
                if len(sys.argv) == 1:
                    write_random(model.name, 1 if precision == "llm-int8" else 3, model)
                with tempfile.TemporaryDirectory() as work:
                    for what, found, most in check(str(model), precision, Path(work)):
                        is_right = report(f"{precision:9} {model.name:12} {what:36}", found, most) and is_right
    sys.exit(0 if is_right else 1)


def report(what, found, most):
    """Whether it holds."""
    if found is None:
        print(what, "not compared: bitsandbytes dequantizes a shape of this model wrongly here", flush=True)
        return True
    holds = bool(found <= most)
    print(what, f"{found:.2g} of the deviation, at most {most:g}{'' if holds else ': WRONG'}", flush=True)
    return holds


if __name__ == "__main__":
    main()
