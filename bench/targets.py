"""What Assay is held to, by the kind of processor that processor.py names. GPT-2 124M, 2 threads."""

import dataclasses
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))
from precisions import PRECISIONS  # noqa: E402  (its folder is put on the path above)


@dataclasses.dataclass(frozen=True)
class Target:
    """Of Assay's row with the medians of GPT-2 124M; what is None is not asked for."""

    case: str
    precision: str
    isa: str = "native"
    of_best_peer: float = None  # at least this ratio to the fastest peer of the same precision
    of_roofline: float = None  # at least this share of the case's roofline
    or_of_roofline: float = None  # this share of the roofline satisfies of_best_peer too
    of_base: float = None  # at least this ratio to Assay in the precision that participants.py holds it to
    of_pread: float = None  # at most this multiple of the time of reading the file

    @property
    def group(self):
        return "quantized" if PRECISIONS[self.precision].is_quantized else "plain"


INT8, NF4, BITS4 = "int8-dynamic+head:int8", "nf4+head:int8", "nf4+head:nf4"
NF4_INT8 = "nf4+head:int8+activations:int8"
MAIN = ("float32", "bfloat16", INT8, NF4)
# For many rows: the peers' 4-bit products round activations to int8, so that row stands beside them.
MANY_ROWS = ("float32", "bfloat16", INT8, NF4_INT8)

# On every kind.
LOADING = (
    Target("load", "float32", of_pread=3.0),
    # Loading quantizes: the whole file is read, and every matrix becomes codes.
    Target("load", INT8, of_pread=3.0),
    Target("load", BITS4, of_pread=3.0),
)

AMX = (
    Target("decode-0", "float32", of_best_peer=1.05, or_of_roofline=0.90),
    Target("decode-0", "bfloat16", of_best_peer=1.4, or_of_roofline=0.90),
    Target("decode-0", "float32", of_roofline=0.90),
    Target("decode-0", "bfloat16", of_roofline=0.90),
    Target("decode-900", "float32", of_roofline=0.85),
    Target("decode-900", "bfloat16", of_roofline=0.85),
    Target("prefill-512", "float32", of_best_peer=1.15),
    Target("prefill-512", "float32", of_roofline=0.75),
    Target("prefill-512", "bfloat16", of_best_peer=2.5),
    Target("prefill-512", "bfloat16", of_roofline=0.35),
    Target("prefill-512", "bf16x3", of_base=2.0),
    *(Target("batch-8", precision, of_best_peer=1.2) for precision in MAIN),
    Target("batch-32", "float32", of_best_peer=1.5),
    Target("batch-32", "bfloat16", of_best_peer=1.6),
    *(
        Target(case, precision, isa, of_roofline=share)
        for isa in ("avx2", "avx512")
        for case, precision, share in (
            ("decode-0", "float32", 0.80),
            ("decode-0", "bfloat16", 0.80),
            ("prefill-512", "float32", 0.70),
        )
    ),
    # Ahead of the peers that are restricted alike.
    *(
        Target(case, precision, isa, of_best_peer=1.0, or_of_roofline=0.90)
        for isa in ("avx2", "avx512")
        for case, precision in (
            ("decode-0", "float32"),
            ("decode-0", "bfloat16"),
            ("prefill-512", "float32"),
        )
    ),
    Target("decode-0", INT8, of_best_peer=1.5, or_of_roofline=0.90),
    Target("decode-0", NF4, of_best_peer=1.25, or_of_roofline=0.90),
    Target("decode-0", BITS4, of_best_peer=1.5, or_of_roofline=0.90),
    Target("decode-0", INT8, of_roofline=0.80),
    Target("decode-0", NF4, of_roofline=0.70),
    Target("decode-0", BITS4, of_roofline=0.70),
    Target("prefill-512", INT8, of_best_peer=3.0),
    Target("prefill-512", INT8, of_roofline=0.25),
    Target("prefill-512", "nf4", of_base=0.85),
    Target("prefill-512", "fp4", of_base=0.85),
    *(
        Target(case, precision, of_base=ratio)
        for case in ("decode-0", "prefill-512")
        for precision, ratio in (("int8-static+head:int8", 1.0), ("llm-int8", 1 / 1.5))
    ),
    Target("batch-32", INT8, of_best_peer=2.0),
    Target("batch-32", NF4, of_best_peer=1.8),
    *(
        Target(case, INT8, isa, of_roofline=share)
        for isa in ("avx2", "avx512")
        for case, share in (("decode-0", 0.80), ("prefill-512", 0.70))
    ),
)

# Zen 4 and 5, Cooper Lake: bfloat16 products without tiles.
AVX512BF16 = (
    *(Target("decode-0", precision, of_best_peer=1.2, or_of_roofline=0.90) for precision in MAIN),
    *(Target("decode-0", precision, of_roofline=0.85) for precision in MAIN),
    Target("prefill-512", "float32", of_best_peer=1.15),
    Target("prefill-512", "bfloat16", of_best_peer=1.5),
    Target("prefill-512", "bfloat16", of_roofline=0.65),
    Target("prefill-512", INT8, of_best_peer=1.5),
    Target("prefill-512", INT8, of_roofline=0.62),
    Target("prefill-512", "nf4", of_base=0.90),
    Target("prefill-512", NF4_INT8, of_best_peer=1.8),
    *(Target("batch-8", precision, of_best_peer=1.2) for precision in MANY_ROWS),
    *(Target("batch-32", precision, of_best_peer=1.3) for precision in MANY_ROWS),
    # Held to AVX2, as on processors of laptops.
    *(Target("decode-0", precision, "avx2", of_roofline=0.85) for precision in MANY_ROWS),
    *(Target("prefill-512", precision, "avx2", of_roofline=0.85) for precision in ("float32", "bfloat16")),
    Target("prefill-512", INT8, "avx2", of_roofline=0.65),
    Target("prefill-512", NF4_INT8, "avx2", of_best_peer=1.3),
    *(
        Target(case, precision, "avx2", of_best_peer=1.0)
        for case in ("prefill-512", "decode-0", "batch-8", "batch-32")
        for precision in MANY_ROWS
    ),
)

# AVX-512 or AVX2 alone: ahead of every peer in every cell.
WIDE = (
    *(
        Target(case, precision, of_best_peer=1.0)
        for case in ("prefill-512", "decode-0", "batch-8", "batch-32")
        for precision in MAIN
    ),
    *(Target("decode-0", precision, of_roofline=0.85) for precision in MAIN),
    Target("prefill-512", "float32", of_roofline=0.85),
    Target("prefill-512", "bfloat16", of_roofline=0.85),
    Target("prefill-512", INT8, of_roofline=0.65),
    Target("prefill-512", NF4_INT8, of_best_peer=1.3),
)

TARGETS = {
    "amx": AMX + LOADING,
    "avx512bf16": AVX512BF16 + LOADING,
    "avx512": WIDE + LOADING,
    "avx2": WIDE + LOADING,
}
