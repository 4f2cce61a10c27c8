#!/usr/bin/env python3
"""Writes tests/fixtures/ggml_blocks.safetensors: blocks of each tensor type of GGUF, and the numbers that llama.cpp makes of them;
and ggml_quantized.safetensors: numbers, the blocks that ggml makes of them, and the squared errors of its searched types.

The reference is llama.cpp's dequantize_row_* in C, from the source distribution of llama-cpp-python on PyPI:

    pip download --no-deps --no-binary :all: llama-cpp-python==0.3.36     # unpack it; ggml is in vendor/llama.cpp/ggml
    cd vendor/llama.cpp/ggml/src
    sed 's/@GGML_VERSION@/0/; s/@GGML_BUILD_COMMIT@/0/' ggml-version.h.in > ggml-version.h
    for f in ggml.c ggml-alloc.c ggml-quants.c; do gcc -O2 -fPIC -c -I../include -I. -D_GNU_SOURCE $f; done
    for f in ggml.cpp ggml-threading.cpp ggml-opt.cpp ggml-backend.cpp ggml-backend-meta.cpp gguf.cpp; do
        g++ -std=c++17 -O2 -fPIC -c -I../include -I. -D_GNU_SOURCE $f; done
    g++ -shared -o libggml-base.so *.o -lpthread

    tools/make_ggml_fixtures.py --ggml libggml-base.so

gguf-py (pip install gguf==0.19.0 numpy safetensors) must give the same for every type that it knows.
"""

import argparse
import ctypes
import pathlib

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from safetensors.numpy import save_file

# Bytes of a block by type, and where its float16 numbers lie: scales, then a minimum.
TYPES = {
    "Q4_0": (18, [0]), "Q4_1": (20, [0, 2]), "Q5_0": (22, [0]), "Q5_1": (24, [0, 2]), "Q8_0": (34, [0]),
    "Q2_K": (84, [80, 82]), "Q3_K": (110, [108]), "Q4_K": (144, [0, 2]), "Q5_K": (176, [0, 2]),
    "Q6_K": (210, [208]), "IQ4_NL": (18, [0]), "IQ4_XS": (136, [0]), "TQ1_0": (54, [52]), "TQ2_0": (66, [64]),
    "MXFP4": (17, []),
}
# Ordinary, negative, the largest and the smallest normal and subnormal number, both zeros.
HALVES = [0.0123, -0.37, 65504.0, -65504.0, 2.0**-14, -(2.0**-24), 1023 * 2.0**-24, 0.0, -0.0, 1.0]
EXPONENTS = [127, 0, 1, 2, 124, 130, 200, 251, 254, 120]


class Library:
    def __init__(self, path):
        class Parameters(ctypes.Structure):
            _fields_ = [("size", ctypes.c_size_t), ("buffer", ctypes.c_void_p), ("has_no_data", ctypes.c_bool)]

        self.c = ctypes.CDLL(path)
        self.c.ggml_init.restype = ctypes.c_void_p
        self.c.ggml_init.argtypes = [Parameters]
        self.c.ggml_init(Parameters(1 << 20, None, False))  # fills the table of float16

    def quantize(self, name, numbers, importance=None):
        function = self.c.ggml_quantize_chunk
        function.restype = ctypes.c_size_t
        function.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + [ctypes.c_int64] * 3 + [ctypes.c_void_p]
        per_block, size = gguf.GGML_QUANT_SIZES[Type[name]]
        rows, columns = numbers.shape
        blocks = np.zeros((rows, columns // per_block * size), np.uint8)
        weights = None if importance is None else importance.ctypes.data
        function(int(Type[name]), numbers.ctypes.data, blocks.ctypes.data, 0, rows, columns, weights)
        return blocks

    def dequantize(self, name, blocks, elements):
        lower = name.lower()
        function = getattr(self.c, "dequantize_row_" + (lower[:-1] + "K" if lower.endswith("_k") else lower))
        function.restype = None
        function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
        values = np.empty(elements, np.float32)
        function(blocks.ctypes.data, values.ctypes.data, elements)
        return values


def blocks_of(name, random):
    size, halves = TYPES[name]
    count = len(HALVES)
    blocks = random.integers(0, 256, (count, size), np.uint8)
    blocks[1] = np.arange(size) * 37 % 256  # every code, in some place
    blocks[3], blocks[4] = 255, 0  # the highest and the lowest of everything
    for i, at in enumerate(halves):
        values = np.array([HALVES[(k + 3 * i) % count] for k in range(count)], np.float16)
        blocks[:, at : at + 2] = values.view(np.uint8).reshape(-1, 2)
    if name == "MXFP4":
        blocks[:, 0] = EXPONENTS
    return np.ascontiguousarray(blocks)


# Written byte for byte as ggml does, and searched.
EXACT = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]
SEARCHED = ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL"]


def numbers_to_quantize(random):
    """Rows of several distributions, and rows of one number, of zeros, of one large number, of tiny ones."""
    rows = [random.standard_normal((2, 512)) * 0.02, random.laplace(size=(2, 512)) * 0.1,
            random.standard_t(3, size=(2, 512)), random.uniform(0.2, 1, (1, 512)), np.zeros((1, 512)),
            np.full((1, 512), -0.7), np.eye(1, 512, 300) * 50, random.standard_normal((1, 512)) * 1e-6]  # fmt: skip
    return np.concatenate(rows).astype(np.float32)


def ggml_weights(name, numbers, importance):
    """As quantize_row_*_impl has them: of Q6_K the importance alone, else times sqrt(variance + x^2)."""
    if name == "Q6_K":
        return np.broadcast_to(importance, numbers.shape)
    if name in SEARCHED:
        block = 32 if name == "IQ4_NL" else 256
        times = 1 if name == "Q2_K" else 2
        variance = times * np.repeat((numbers.reshape(len(numbers), -1, block) ** 2).mean(axis=2), block, axis=1)
    else:
        variance = (numbers**2).mean(axis=1, keepdims=True)
    return importance * np.sqrt(variance + numbers**2)


def write_quantized(library, path):
    random = np.random.default_rng(20261127)
    numbers = numbers_to_quantize(random)
    importance = (random.standard_normal(512) ** 2 + 0.01).astype(np.float32)
    tensors = {"numbers": numbers, "importance": importance}
    for name in EXACT:
        tensors[name] = library.quantize(name, numbers)
    for name in SEARCHED + [name for name in EXACT if name != "Q8_0"]:
        # A mean for each row, of the error and of the error as ggml weighs it with an importance matrix.
        for suffix, given in (("", None), (".importance", importance)):
            if given is None and name in EXACT:
                continue
            blocks = library.quantize(name, numbers, given)
            off = numbers.astype(np.float64) - library.dequantize(name, blocks, numbers.size).reshape(numbers.shape)
            weights = 1 if given is None else ggml_weights(name, numbers.astype(np.float64), given)
            tensors[name + suffix] = (off**2 * weights).mean(axis=1).astype(np.float32)
    save_file(tensors, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ggml", required=True, help="libggml-base.so, built as described above")
    root = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--output", type=pathlib.Path, default=root / "tests/fixtures/ggml_blocks.safetensors")
    arguments = parser.parse_args()
    library = Library(arguments.ggml)
    random = np.random.default_rng(20261126)
    tensors = {}
    for name in TYPES:
        blocks = blocks_of(name, random)
        per_block = gguf.GGML_QUANT_SIZES[Type[name]][0]
        assert gguf.GGML_QUANT_SIZES[Type[name]][1] == blocks.shape[1], name
        values = library.dequantize(name, blocks, per_block * len(blocks))
        with np.errstate(over="ignore", invalid="ignore"):
            other = gguf.quants.dequantize(blocks, Type[name]).reshape(-1)
        assert np.array_equal(values, other, equal_nan=True), name
        tensors[name + ".blocks"], tensors[name + ".values"] = blocks, values.reshape(len(blocks), per_block)
    save_file(tensors, arguments.output)
    print(f"{arguments.output}: {len(TYPES)} types")
    write_quantized(library, arguments.output.with_name("ggml_quantized.safetensors"))


if __name__ == "__main__":
    main()
