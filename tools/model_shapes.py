"""The shapes of the random models that tools/make_random_model.py writes and bench/peers measures."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Shape:
    family: str  # `model_type` of config.json
    label: str
    hidden: int
    mlp_hidden: int
    layers: int
    heads: int
    kv_heads: int
    vocab: int
    context: int
    is_head_tied: bool
    dtype: str  # that the weights are written in by default
    own_head_dim: int = 0  # 0: the hidden states are divided among the heads
    window: int = 0  # tokens that a layer sees, but for every full_each-th, which sees all; 0: all of them do
    full_each: int = 0

    @property
    def head_dim(self):
        return self.own_head_dim or self.hidden // self.heads

    @property
    def norms(self):
        """(name, elements) of the norms of each block."""
        if self.family == "gpt2":
            return [("ln_1", self.hidden), ("ln_2", self.hidden)]
        names = ["input_layernorm", "post_attention_layernorm"]
        if self.family == "gemma3_text":
            names += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
        of_heads = ["q_norm", "k_norm"] if self.family in ("qwen3", "gemma3_text") else []
        return [(n, self.hidden) for n in names] + [(f"self_attn.{n}", self.head_dim) for n in of_heads]

    def linears(self):
        """(name, inputs, outputs) of the linear layers of each block."""
        width, keys, queries = self.hidden, self.kv_heads * self.head_dim, self.heads * self.head_dim
        if self.family == "gpt2":
            yield "attn.c_attn", width, 3 * width
            yield "attn.c_proj", width, width
            yield "mlp.c_fc", width, self.mlp_hidden
            yield "mlp.c_proj", self.mlp_hidden, width
        else:
            yield "self_attn.q_proj", width, queries
            yield "self_attn.k_proj", width, keys
            yield "self_attn.v_proj", width, keys
            yield "self_attn.o_proj", queries, width
            yield "mlp.gate_proj", width, self.mlp_hidden
            yield "mlp.up_proj", width, self.mlp_hidden
            yield "mlp.down_proj", self.mlp_hidden, width

    def tensors(self):
        """(name, shape) of each tensor in the file, in the order that weights are drawn in.

        The linear layers of GPT-2 are stored as [inputs, outputs], those of the others as [outputs, inputs].
        """
        if self.family == "gpt2":
            yield "transformer.wte.weight", (self.vocab, self.hidden)
            yield "transformer.wpe.weight", (self.context, self.hidden)
            for layer in range(self.layers):
                for name, inputs, outputs in self.linears():
                    yield f"transformer.h.{layer}.{name}.weight", (inputs, outputs)
                    yield f"transformer.h.{layer}.{name}.bias", (outputs,)
                for name, elements in self.norms:
                    yield f"transformer.h.{layer}.{name}.weight", (elements,)
                    yield f"transformer.h.{layer}.{name}.bias", (elements,)
            yield "transformer.ln_f.weight", (self.hidden,)
            yield "transformer.ln_f.bias", (self.hidden,)
            return
        yield "model.embed_tokens.weight", (self.vocab, self.hidden)
        for layer in range(self.layers):
            for name, inputs, outputs in self.linears():
                yield f"model.layers.{layer}.{name}.weight", (outputs, inputs)
            for name, elements in self.norms:
                yield f"model.layers.{layer}.{name}.weight", (elements,)
        yield "model.norm.weight", (self.hidden,)
        if not self.is_head_tied:
            yield "lm_head.weight", (self.vocab, self.hidden)

    def body_weights(self):
        """Weights of the linear layers of all blocks."""
        return self.layers * sum(inputs * outputs for _, inputs, outputs in self.linears())

    def body_outputs(self):
        """Output features of the same layers: a scale for each of them in int8."""
        return self.layers * sum(outputs for _, _, outputs in self.linears())

    def vector_elements(self):
        """Elements of all biases and norms."""
        return sum(shape[0] for _, shape in self.tensors() if len(shape) == 1)

    def seen(self, positions):
        """Tokens that one at each of the positions sees, itself among them, summed, as a mean over the layers."""
        every = sum(positions)
        if not self.window:
            return every
        full = self.layers // self.full_each
        near = sum(min(position, self.window) for position in positions)
        return (full * every + (self.layers - full) * near) / self.layers

    def kv_elements(self):
        """Keys and values of one token in all layers."""
        return 2 * self.layers * self.kv_heads * self.head_dim


def gpt2(label, hidden, layers, heads):
    return Shape(
        "gpt2", label, hidden, 4 * hidden, layers, heads, heads,
        vocab=50257, context=1024, is_head_tied=True, dtype="float32",
    )  # fmt: skip


SHAPES = {
    "124m": gpt2("GPT-2 124M", 768, 12, 12),
    "355m": gpt2("GPT-2 355M", 1024, 24, 16),
    # TinyLlama 1.1B (Zhang et al. 2024)
    "llama-1b": Shape(
        "llama", "Llama 1.1B", 2048, 5632, 22, 32, 4,
        vocab=32000, context=2048, is_head_tied=False, dtype="bfloat16",
    ),
    # Llama 3.1 8B (Meta 2024), with a sixteenth of its context
    "llama-8b": Shape(
        "llama", "Llama 8.0B", 4096, 14336, 32, 32, 8,
        vocab=128256, context=8192, is_head_tied=False, dtype="bfloat16",
    ),
    # Llama 3.2 3B (Meta 2024), with a quarter of its context
    "llama-3b": Shape(
        "llama", "Llama 3.2B", 3072, 8192, 28, 24, 8,
        vocab=128256, context=32768, is_head_tied=True, dtype="bfloat16",
    ),
    # Qwen3 (Qwen Team 2025), with the context that its model cards name
    "qwen3-0.6b": Shape(
        "qwen3", "Qwen3 0.6B", 1024, 3072, 28, 16, 8,
        vocab=151936, context=32768, is_head_tied=True, dtype="bfloat16", own_head_dim=128,
    ),
    "qwen3-4b": Shape(
        "qwen3", "Qwen3 4B", 2560, 9728, 36, 32, 8,
        vocab=151936, context=32768, is_head_tied=True, dtype="bfloat16", own_head_dim=128,
    ),
    # Gemma 3 1B (Gemma Team 2025): one layer in six sees everything, the others 512 tokens
    "gemma3-1b": Shape(
        "gemma3_text", "Gemma3 1B", 1152, 6912, 26, 4, 1,
        vocab=262144, context=32768, is_head_tied=True, dtype="bfloat16", own_head_dim=256,
        window=512, full_each=6,
    ),
}  # fmt: skip
