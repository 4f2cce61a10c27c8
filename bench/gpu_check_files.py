"""Files of logits, read without NumPy."""
import ast
import array
import json
import math


def read_npy(path):
    """The float32 numbers of a .npy file, and its shape."""
    data = path.read_bytes()
    size = int.from_bytes(data[8:10], "little")
    header = ast.literal_eval(data[10 : 10 + size].decode())
    if header["descr"] != "<f4" or header["fortran_order"]:
        raise ValueError(f"{path}: expected float32 in row order, found {header}")
    return array.array("f", data[10 + size :]), header["shape"]


def read_safetensors(path, name):
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    entry = json.loads(data[8 : 8 + size])[name]
    kind = {"F32": "f", "I64": "q", "I32": "i"}[entry["dtype"]]
    begin, end = entry["data_offsets"]
    return array.array(kind, data[8 + size + begin : 8 + size + end])


def relative_error(got, want):
    """The largest difference, of the standard deviation of `want`; infinite where a number is not finite."""
    if len(got) != len(want) or not all(map(math.isfinite, got)):
        return math.inf
    mean = sum(want) / len(want)
    deviation = math.sqrt(sum((x - mean) ** 2 for x in want) / len(want))
    return max(abs(a - b) for a, b in zip(got, want)) / deviation
