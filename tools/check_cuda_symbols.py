#!/usr/bin/env python3
"""Checks that kernels compiled by nvcc and those of the emulation share no function: a linker would keep one of two.

usage: tools/check_cuda_symbols.py build/cuda/src/libassay_cuda.a build/cuda/tests/libassay_cuda_emulation.a [nm]
"""
import re
import subprocess
import sys


def functions(archive, nm):
    """Mangled names of the functions of assay::cuda that an archive defines."""
    lines = subprocess.run([nm, archive], capture_output=True, text=True, check=True).stdout.splitlines()
    found = (re.match(r"[0-9a-f]+ [TtWwi] (_ZN[A-Z]*5assay4cuda\S+)$", line) for line in lines)
    return {match[1] for match in found if match}


def main():
    nm = sys.argv[3] if len(sys.argv) > 3 else "nm"
    gpu, emulation = functions(sys.argv[1], nm), functions(sys.argv[2], nm)
    shared = sorted(gpu & emulation)
    for name in shared[:20]:
        print(f"defined by both archives: {name}")
    print(f"symbols: {len(gpu)} functions by nvcc, {len(emulation)} of the emulation, {len(shared)} of both")
    return 1 if shared or not gpu or not emulation else 0


if __name__ == "__main__":
    sys.exit(main())
