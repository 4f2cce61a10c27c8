#!/usr/bin/env python3
"""Transformers on torch as a worker: --mode eager, or --mode compile (static shapes and cache, frozen weights).

Precisions float32 and bfloat16; int8: torch's dynamic quantization of every product, in float32; llm-int8, nf4, fp4: by
bitsandbytes, in bfloat16.
"""

import importlib.metadata
import logging

import protocol

a = protocol.arguments(__doc__)
import torch  # noqa: E402  (after the settings it reads)
import transformers  # noqa: E402
from transformers import AutoModelForCausalLM, DynamicCache, StaticCache  # noqa: E402

CACHE_STEP = 64  # static caches are a multiple of it long, so that near lengths share a compilation


def load(folder, precision):
    if precision in ("float32", "bfloat16"):
        return in_own_memory(AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, precision)))
    if precision == "int8":
        model = with_linears(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32))
        how = {torch.nn.Linear: torch.ao.quantization.per_channel_dynamic_qconfig}
        return torch.ao.quantization.quantize_dynamic(model, how)
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # it warns of a cast in each product
    how = {"load_in_8bit": True}
    if precision != "llm-int8":
        how = {
            "load_in_4bit": True,
            "bnb_4bit_quant_type": precision,
            "bnb_4bit_compute_dtype": torch.bfloat16,
        }
    return AutoModelForCausalLM.from_pretrained(
        folder,
        dtype=torch.bfloat16,
        device_map="cpu",
        quantization_config=transformers.BitsAndBytesConfig(**how),
    )


def in_own_memory(model):
    """Parameters in memory of the allocator's, which asks for huge pages, and not in the pages of a file."""
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()
    return model


def with_linears(model):
    """GPT-2's Conv1D as Linear, which torch knows how to quantize."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child).__name__ != "Conv1D":
                continue
            linear = torch.nn.Linear(*child.weight.shape, device="meta")
            linear.weight = torch.nn.Parameter(child.weight.data.T.contiguous())
            linear.bias = child.bias
            setattr(parent, name, linear)
    return model


def bytes_of(tensor):
    return tensor.numel() * tensor.element_size()


def weight_bytes(model):
    """Parameters, tied ones once, and the scales that a footprint leaves out."""
    total = sum(bytes_of(p) for p in model.parameters())
    for module in model.modules():
        state = getattr(getattr(module, "weight", None), "quant_state", None)
        if state is not None:
            total += bytes_of(state.absmax)
        scales = getattr(getattr(module, "weight", None), "SCB", None)
        if scales is not None:
            total += bytes_of(scales)
        if "quantized.dynamic" in type(module).__module__:
            weight = module.weight()
            total += weight.numel() + bytes_of(weight.q_per_channel_scales())
    return total


class Torch:
    def __init__(self, folder, precision, threads):
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self.threads = torch.get_num_threads()
        self.model = load(folder, precision).eval()
        self.weight_bytes = weight_bytes(self.model)
        self.kernels = torch.backends.cpu.get_cpu_capability()
        self.label = f"torch {torch.__version__} {a.mode}, Transformers {transformers.__version__}"
        if precision in ("llm-int8", "nf4", "fp4"):
            self.label += f", bitsandbytes {importlib.metadata.version('bitsandbytes')}"
        self.forward = self.model
        self.context = self.model.config.max_position_embeddings
        if a.mode == "compile":
            if a.isa == "avx2":
                torch._inductor.config.cpp.simdlen = 256
            torch._dynamo.config.recompile_limit = 64
            # Frozen weights are constants, packed once. Tensors of a fixed address would be frozen too, and a cache
            # declares its own to be of that kind, for the sake of GPUs.
            torch._inductor.config.freezing = True
            torch._dynamo.mark_static_address = lambda *arguments, **keywords: None
            self.forward = torch.compile(self.model, dynamic=False)

    def prefill(self, ids):
        if a.mode == "compile":
            return self.last_logits(ids).argmax(-1).tolist()
        return self.start(ids, DynamicCache(config=self.model.config))

    def last_logits(self, ids):
        return self.forward(torch.tensor(ids), use_cache=False, logits_to_keep=1).logits[:, -1]

    def start(self, ids, cache):
        """Fills the cache, without compilation."""
        self.cache = cache
        out = self.model(torch.tensor(ids), past_key_values=cache, use_cache=True, logits_to_keep=1)
        return out.logits[:, -1].argmax(-1).tolist()

    def step(self, last):
        ids = torch.tensor(last).unsqueeze(1)
        out = self.forward(ids, past_key_values=self.cache, use_cache=True, logits_to_keep=1)
        return out.logits[:, -1].argmax(-1).tolist()

    def decode(self, ids, new_tokens):
        length = min(self.context, -(-(len(ids[0]) + new_tokens + 1) // CACHE_STEP) * CACHE_STEP)
        return protocol.timed_decode(Decoding(self, length), ids, new_tokens)

    def logits(self, ids):
        return self.last_logits([ids])[0].float().tolist()


class Decoding:
    """Prefill that leaves the cache which the steps need."""

    def __init__(self, peer, length):
        self.peer, self.length, self.step = peer, length, peer.step

    def prefill(self, ids):
        config = self.peer.model.config
        if a.mode == "eager":
            return self.peer.start(ids, DynamicCache(config=config))
        return self.peer.start(ids, StaticCache(config=config, max_cache_len=self.length))


if __name__ == "__main__":
    protocol.serve(Torch)
