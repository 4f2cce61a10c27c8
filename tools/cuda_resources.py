#!/usr/bin/env python3
"""Prints what each kernel takes of a GPU, as ptxas says: registers, static shared bytes, spilled bytes.

usage: tools/cuda_resources.py [--nvcc PATH] [--arch 80 --arch 89 ...]
Ends with status 1 where a kernel stores and loads more than 24 bytes (three registers, which wait while rows are normed:
fetching fewer weights ahead would cost more), on sm_75 more than 64: its products take two instructions, and their registers
are scheduled for the GPUs behind it."""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parent.parent
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--nvcc", default="/usr/local/cuda/bin/nvcc", help="compiler [%(default)s]")
parser.add_argument("--arch", action="append", help="compute capability without its dot [75, 80, 89, 90a]")
options = parser.parse_args()
architectures = options.arch or ["75", "80", "89", "90a"]
command = [options.nvcc, "-std=c++20", "-O3", "-fmad=false", "-DASSAY_CUDA_WARPGROUPS", f"-I{root}/src", "-Xptxas", "-v", "-c"]
for arch in architectures:
    command += ["-gencode", f"arch=compute_{arch},code=sm_{arch}"]
with tempfile.TemporaryDirectory() as folder:
    done = subprocess.run(
        command + ["-o", f"{folder}/kernels.o", f"{root}/src/assay/backend/cuda/kernels/kernels.cu"],
        capture_output=True, text=True)
if done.returncode != 0:
    sys.exit(f"{options.nvcc} does not compile the kernels:\n{done.stderr}")

found = {}
names = []
kernel = None
for line in (done.stdout + done.stderr).splitlines():
    if m := re.search(r"Compiling entry function '(\w+)' for 'sm_(\w+)'", line):
        kernel = (m[1], m[2])
        found[kernel] = {"registers": 0, "shared": 0, "spills": 0}
        if m[1] not in names:
            names.append(m[1])
    elif kernel and (m := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line)):
        found[kernel]["spills"] = int(m[1]) + int(m[2])
    elif kernel and (m := re.search(r"Used (\d+) registers", line)):
        found[kernel]["registers"] = int(m[1])
        shared = re.search(r"(\d+) bytes smem", line)
        found[kernel]["shared"] = int(shared[1]) if shared else 0
if not found:
    sys.exit(f"{options.nvcc} told of no kernel")

readable = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True).stdout.splitlines()
titles = [re.sub(r"\(assay::cuda::\w+\)$", "", name.removeprefix("void ")).replace("assay::cuda::device::gpu::", "")
          for name in readable]
titles = [re.sub(r"\(int\)", "", title) for title in titles]
width = max(map(len, titles))
print(f"{'kernel':{width}}" + "".join(f"  {'sm_' + arch + ' regs/shared/spills':>24}" for arch in architectures))
spills = 0
for title, name in sorted(zip(titles, names)):
    row = f"{title:{width}}"
    for arch in architectures:
        one = found[name, arch]
        spills += one["spills"] > (64 if arch == "75" else 24)
        row += f"  {one['registers']:>12} / {one['shared']:>3} / {one['spills']:>3}"
    print(row)
print(f"{len(names)} kernels, {len(architectures)} architectures, {spills} spill")
sys.exit(1 if spills else 0)
