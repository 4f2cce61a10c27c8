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
    head_size: int = 0  # where heads are not as wide together as the hidden states
    has_head_norms: bool = False  # of queries and keys

    @property
    def head_dim(self):
        return self.head_size or self.hidden // self.heads

    def linears(self):
        """(name, inputs, outputs) of the linear layers of each block."""
        width, queries, keys = self.hidden, self.heads * self.head_dim, self.kv_heads * self.head_dim
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

        The linear layers of GPT-2 are stored as [inputs, outputs], those of Llama as [outputs, inputs].
        """
        if self.family == "gpt2":
            yield "transformer.wte.weight", (self.vocab, self.hidden)
            yield "transformer.wpe.weight", (self.context, self.hidden)
            for layer in range(self.layers):
                for name, inputs, outputs in self.linears():
                    yield f"transformer.h.{layer}.{name}.weight", (inputs, outputs)
                    yield f"transformer.h.{layer}.{name}.bias", (outputs,)
                for name in ("ln_1", "ln_2"):
                    yield f"transformer.h.{layer}.{name}.weight", (self.hidden,)
                    yield f"transformer.h.{layer}.{name}.bias", (self.hidden,)
            yield "transformer.ln_f.weight", (self.hidden,)
            yield "transformer.ln_f.bias", (self.hidden,)
            return
        yield "model.embed_tokens.weight", (self.vocab, self.hidden)
        for layer in range(self.layers):
            for name, inputs, outputs in self.linears():
                yield f"model.layers.{layer}.{name}.weight", (outputs, inputs)
            for name in ("input_layernorm", "post_attention_layernorm"):
                yield f"model.layers.{layer}.{name}.weight", (self.hidden,)
            for name in ("q_norm", "k_norm") if self.has_head_norms else ():
                yield f"model.layers.{layer}.self_attn.{name}.weight", (self.head_dim,)
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
    # Llama 3.2 3B (Meta 2024), with a quarter of its context
    "llama-3b": Shape(
        "llama", "Llama 3.2B", 3072, 8192, 28, 24, 8,
        vocab=128256, context=32768, is_head_tied=True, dtype="bfloat16",
    ),
    # Qwen3 0.6B and 4B (Yang et al. 2025)
    "qwen3-0.6b": Shape(
        "qwen3", "Qwen3 0.6B", 1024, 3072, 28, 16, 8,
        vocab=151936, context=32768, is_head_tied=True, dtype="bfloat16", head_size=128, has_head_norms=True,
    ),
    "qwen3-4b": Shape(
        "qwen3", "Qwen3 4B", 2560, 9728, 36, 32, 8,
        vocab=151936, context=32768, is_head_tied=True, dtype="bfloat16", head_size=128, has_head_norms=True,
    ),
}  # fmt: skip
