"""What Assay's rows are stored and computed in; peers are put beside the row whose bytes theirs are nearest to.

Names are Assay's own: int8-dynamic has the LM head in the dtype of what is not quantized, as Transformers leaves it,
int8-dynamic+head:int8 in int8 too. That dtype is bfloat16 beside every quantized precision, keys and values too.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Precision:
    name: str
    body_bits: float  # that of a weight of the blocks, with the scales of blocks of weights
    head_bits: float
    product: str  # what prefill multiplies in: float32, bfloat16 or int8
    kv_bytes: int = 2  # that of an element of Assay's cache
    # What the logits may differ by, in standard deviations. In float32 arithmetic the largest difference, else the root
    # of the mean square; from Assay's row of the same precision, of quantized rows from its float32. Unrelated logits: 1.4.
    tolerance: float = 5e-2

    @property
    def is_quantized(self):
        return self.body_bits < 16

    @property
    def is_rounded(self):
        """What rounding adds has no largest value, and grows with the layers."""
        return self.is_quantized or self.name == "bfloat16"

    def request(self):
        """Of Assay's worker, beside the model."""
        if self.name == "bf16x3":
            return {"precision": "float32", "float32_matmul": self.name}
        name, _, activations = self.name.partition("+activations:")
        base, _, head = name.partition("+head:")
        request = {"precision": base} | ({"activations": activations} if activations else {})
        if self.is_quantized:
            request["dtype"] = "bfloat16"
        return request | ({"quantize_head": head} if head else {})

    def output_scales(self):
        """Bytes of scales of each output of the blocks, of the LM head."""
        return 4 * (self.body_bits == 8), 4 * (self.head_bits == 8)


INT8, FOUR_BIT = 0.15, 0.5
NF4 = 4.5  # a float32 scale per 64

PRECISIONS = {
    precision.name: precision
    for precision in (
        Precision("float32", 32, 32, "float32", kv_bytes=4, tolerance=1e-2),
        Precision("bfloat16", 16, 16, "bfloat16"),
        Precision("bf16x3", 32, 32, "bfloat16", kv_bytes=4, tolerance=1e-2),
        Precision("int8-dynamic+head:int8", 8, 8, "int8", tolerance=INT8),
        Precision("int8-dynamic", 8, 16, "int8", tolerance=INT8),
        Precision("int8-static+head:int8", 8, 8, "int8", tolerance=INT8),
        Precision("llm-int8", 8, 16, "int8", tolerance=INT8),
        Precision("nf4+head:int8", NF4, 8, "bfloat16", tolerance=FOUR_BIT),
        # as llama.cpp and OpenVINO multiply their 4-bit weights
        Precision("nf4+head:int8+activations:int8", NF4, 8, "int8", tolerance=FOUR_BIT),
        Precision("nf4+head:nf4", NF4, NF4, "bfloat16", tolerance=FOUR_BIT),
        Precision("nf4", NF4, 16, "bfloat16", tolerance=FOUR_BIT),
        Precision("fp4", NF4, 16, "bfloat16", tolerance=FOUR_BIT),
        Precision("int4-g128+head:int8", 4.25, 8, "bfloat16", tolerance=FOUR_BIT),
    )
}
PLAIN = ("float32", "bfloat16")
QUANTIZED = tuple(name for name, precision in PRECISIONS.items() if precision.is_quantized)
