#!/usr/bin/env python3
"""A model in PyTorch and Transformers, for gpu_peers.py: it prepares, says so in a line of JSON, and answers requests.

usage: bench/gpu_peer_torch.py MODEL KIND DEVICE BATCHES
KIND is compiled (torch.compile, a static cache, a CUDA graph of the step, bfloat16), bitsandbytes-nf4 or
bitsandbytes-int8 (a static cache and, where it can be captured, a CUDA graph). Requests: {"batch": 8, "steps": 64}
decodes greedily behind prompts of 8 tokens; {"prefill": 512} runs one prompt. The answer is {"seconds": ...}.
"""
import json
import sys
import time

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, StaticCache

folder, kind, device, batches = sys.argv[1:]
on_gpu = device != "cpu"
PROMPT, STEPS = 8, 64
transformers.logging.set_verbosity_error()


def load():
    if kind == "compiled":  # its weights' values change no time
        with torch.device(device):
            return AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), dtype=torch.bfloat16)
    import bitsandbytes
    from transformers import BitsAndBytesConfig

    quantization = BitsAndBytesConfig(
        load_in_4bit=kind.endswith("nf4"), load_in_8bit=kind.endswith("int8"), bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=torch.bfloat16,
    )  # fmt: skip
    versions.append(f"bitsandbytes {bitsandbytes.__version__}")
    return AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.bfloat16, quantization_config=quantization, device_map=device
    )  # fmt: skip


def synchronize():
    if on_gpu:
        torch.cuda.synchronize()


def step(model, token, cache):
    """One greedy step; whatever changes lies in tensors that stay where they are."""
    token.copy_(model(input_ids=token, past_key_values=cache, use_cache=True).logits[:, -1:].argmax(-1))


class Decoder:
    """A batch with its static cache, and the step that is repeated."""

    def __init__(self, model, batch):
        self.model, self.graph = model, None
        numbers = torch.Generator().manual_seed(1)
        self.ids = torch.randint(5, model.config.vocab_size, (batch, PROMPT), generator=numbers).to(device)
        self.token = torch.zeros((batch, 1), dtype=torch.long, device=device)
        self.cache = StaticCache(config=model.config, max_cache_len=PROMPT + STEPS + 8)
        self.run = compiled if kind == "compiled" else step
        for _ in range(2):  # a rewound cache may be compiled for once more
            self.seconds(3)
        if on_gpu:
            self.capture()

    def rewind(self):
        self.cache.reset()
        self.token.copy_(
            self.model(input_ids=self.ids, past_key_values=self.cache, use_cache=True, logits_to_keep=1).logits.argmax(-1)
        )  # fmt: skip
        synchronize()

    def capture(self):
        self.rewind()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.run(self.model, self.token, self.cache)
        torch.cuda.current_stream().wait_stream(side)
        synchronize()
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.run(self.model, self.token, self.cache)
            self.graph = graph
        except RuntimeError:
            if kind == "compiled":
                raise
            synchronize()  # without a graph

    def seconds(self, steps):
        self.rewind()
        begin = time.perf_counter()
        for _ in range(min(steps, STEPS)):
            self.graph.replay() if self.graph else self.run(self.model, self.token, self.cache)
        synchronize()
        took = time.perf_counter() - begin
        length = int(self.cache.get_seq_length())
        if length != PROMPT + min(steps, STEPS):
            raise RuntimeError(f"the steps filled the cache to {length}, not to {PROMPT + min(steps, STEPS)}")
        return took * steps / min(steps, STEPS)


def prefill_seconds(model, length):
    ids = torch.randint(5, model.config.vocab_size, (1, length), device=device)
    synchronize()
    begin = time.perf_counter()
    model(input_ids=ids, use_cache=True, logits_to_keep=1).logits.argmax(-1)
    synchronize()
    return time.perf_counter() - begin


def answer(request):
    if "prefill" in request:
        return {"seconds": prefill_seconds(model, request["prefill"])}
    return {"seconds": decoders[request["batch"]].seconds(request["steps"])}


versions = [f"torch {torch.__version__}", f"Transformers {transformers.__version__}"]
torch.manual_seed(1)
with torch.inference_mode():
    model = load().eval()
    model.generation_config.eos_token_id = None
    compiled = torch.compile(step, dynamic=False, fullgraph=True)
    decoders = {int(batch): Decoder(model, int(batch)) for batch in batches.split(",")}
    how = "graph" if all(each.graph for each in decoders.values()) else "no graph"
    print(json.dumps({"ok": True, "label": ", ".join([kind, how, *versions])}), flush=True)
    for line in sys.stdin:
        try:
            print(json.dumps({"ok": True, **answer(json.loads(line))}), flush=True)
        except (RuntimeError, KeyError) as error:  # such as no memory
            print(json.dumps({"ok": False, "error": str(error)[-300:]}), flush=True)
