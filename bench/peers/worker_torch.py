#!/usr/bin/env python3
"""Transformers on torch as a worker: --mode eager, or --mode compile (static shapes and cache)."""

import protocol

a = protocol.arguments(__doc__)
import torch  # noqa: E402  (after the settings it reads)
import transformers  # noqa: E402
from transformers import AutoModelForCausalLM, DynamicCache, StaticCache  # noqa: E402

CACHE_STEP = 64  # static caches are a multiple of it long, so that near lengths share a compilation


class Torch:
    def __init__(self, folder, precision, threads):
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self.threads = torch.get_num_threads()
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, precision)).eval()
        self.kernels = torch.backends.cpu.get_cpu_capability()
        self.label = f"torch {torch.__version__} {a.mode}, Transformers {transformers.__version__}"
        self.forward = self.model
        self.context = self.model.config.max_position_embeddings
        if a.mode == "compile":
            if a.isa == "avx2":
                torch._inductor.config.cpp.simdlen = 256
            torch._dynamo.config.recompile_limit = 64
            self.forward = torch.compile(self.model, dynamic=False)

    def prefill(self, ids):
        if a.mode == "compile":
            return self.last_logits(ids).argmax(-1).tolist()
        return self.start(ids, DynamicCache(config=self.model.config))

    def last_logits(self, ids):
        # Frozen weights are packed once. Not for the steps: they would find the cache frozen too.
        with torch._inductor.config.patch(freezing=True):
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
