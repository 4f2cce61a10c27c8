#!/usr/bin/env python3
"""Times decoding of one model by PyTorch and Transformers: a line of JSON.

usage: bench/gpu_check_peer.py MODEL KIND DEVICE
KIND: eager, compiled (torch.compile, max-autotune, static cache: CUDA graphs), bitsandbytes-nf4, bitsandbytes-int8,
torchao-int8, torchao-int4. Batch 1, bfloat16, prompts of 8 tokens; the time of 32 steps in the middle of 36.
"""
import json
import sys
import time

import torch
from transformers import AutoModelForCausalLM

folder, kind, device = sys.argv[1:]
on_gpu = device != "cpu"
quantization = None
if kind.startswith("bitsandbytes"):
    from transformers import BitsAndBytesConfig

    quantization = BitsAndBytesConfig(
        load_in_4bit=kind.endswith("nf4"), load_in_8bit=kind.endswith("int8"), bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=torch.bfloat16,
    )  # fmt: skip
model = AutoModelForCausalLM.from_pretrained(
    folder, torch_dtype=torch.bfloat16, quantization_config=quantization, device_map=device if quantization else None
)
if not quantization:
    model = model.to(device)
model.eval()
if kind.startswith("torchao"):
    from torchao.quantization import int4_weight_only, int8_weight_only, quantize_

    quantize_(model, int8_weight_only() if kind.endswith("int8") else int4_weight_only())
how = {"do_sample": False, "eos_token_id": None, "pad_token_id": 0}
if kind == "compiled" or kind.startswith("torchao"):
    how["cache_implementation"] = "static"
    model.forward = torch.compile(model.forward, mode="max-autotune", fullgraph=True)


def seconds(ids, new_tokens):
    if on_gpu:
        torch.cuda.synchronize()
    begin = time.perf_counter()
    model.generate(ids, min_new_tokens=new_tokens, max_new_tokens=new_tokens, **how)
    if on_gpu:
        torch.cuda.synchronize()
    return time.perf_counter() - begin


def median(ids, new_tokens):
    for _ in range(2):
        seconds(ids, new_tokens)
    return sorted(seconds(ids, new_tokens) for _ in range(3))[1]


with torch.inference_mode():
    prompt = torch.arange(5, 13, device=device)[None]
    took = median(prompt, 36) - median(prompt, 4)
answer = {"decode b1, tokens/s": 32 / took, "torch": torch.__version__}
if on_gpu:
    answer["peak_bytes"] = torch.cuda.max_memory_allocated()
print(json.dumps(answer))
