"""The processor at hand: its name for people and files, and the kind of kernels that it has."""

import re
from pathlib import Path

# What a processor must offer for a kind, best first. Targets are kept by kind.
KINDS = {
    "amx": {"amx_tile", "amx_bf16", "amx_int8", "avx512_bf16"},
    "avx512bf16": {"avx512_bf16", "avx512_vnni"},
    "avx512": {"avx512f", "avx512bw", "avx512_vnni"},
    "avx2": {"avx2", "fma"},
}
# (vendor, family, first model, last model) of what virtual machines do not name.
CORES = {
    "zen2": [("AuthenticAMD", 23, 0x30, 0xFF)],
    "zen3": [("AuthenticAMD", 25, 0x00, 0x0F), ("AuthenticAMD", 25, 0x20, 0x5F)],
    "zen4": [("AuthenticAMD", 25, 0x10, 0x1F), ("AuthenticAMD", 25, 0x60, 0xAF)],
    "zen5": [("AuthenticAMD", 26, 0x00, 0xFF)],
    "cascade-lake": [("GenuineIntel", 6, 0x55, 0x55)],
    "ice-lake": [("GenuineIntel", 6, 0x6A, 0x6C)],
    "sapphire-rapids": [("GenuineIntel", 6, 0x8F, 0x8F)],
    "emerald-rapids": [("GenuineIntel", 6, 0xCF, 0xCF)],
    "granite-rapids": [("GenuineIntel", 6, 0xAD, 0xAE)],
}


def core_of(vendor, family, model):
    """Its microarchitecture, or family and model where the table lacks it."""
    for name, ranges in CORES.items():
        if any((vendor, family) == (v, f) and low <= model <= high for v, f, low, high in ranges):
            return name
    return f"family{family}-model{model}"


def kind_of(flags):
    return next((kind for kind, needed in KINDS.items() if needed <= flags), "scalar")


def slug(text):
    """For the name of a file: without trademarks, frequency and the words that every name has."""
    text = re.sub(r"\((R|TM)\)|@.*|\b(CPU|Processor|\d+-Core)\b", " ", text)
    return "-".join(re.findall(r"[a-z0-9.]+", text.lower()))


def facts_of(cpuinfo):
    """Of the first processor in the text of /proc/cpuinfo."""
    fields = {}
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if not key.strip():
            break
        fields[key.strip()] = value.strip()
    flags = set(fields.get("flags", "").split())
    vendor, model = fields.get("vendor_id", ""), fields.get("model name", "unknown")
    core = core_of(vendor, int(fields.get("cpu family", 0)), int(fields.get("model", 0)))
    kind = kind_of(flags)
    return {"cpu": model, "core": core, "kind": kind, "name": "-".join([slug(model), core, kind])}


def facts():
    return facts_of(Path("/proc/cpuinfo").read_text(encoding="utf-8"))
