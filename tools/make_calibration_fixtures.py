#!/usr/bin/env python3
"""Writes tests/fixtures/calibration.safetensors: ranges and codes of ONNX Runtime's calibrators, and what a model with
them computes.

usage: tools/make_calibration_fixtures.py        (needs onnxruntime, onnx, torch, transformers)

NAME.batches [batches, values] are shown to a calibrator one after another, as Optimum's partial_fit does.
NAME.METHOD[.symmetric] is [low, high, scale, zero point], of unsigned codes or, symmetric, of signed ones. model.METHOD.*
are the same of the inputs of the matrices of tests/fixtures/models/base, and its logits with weights in int8 per output
and inputs in those codes.
"""

import tempfile
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization.calibrate import CalibrationDataReader, CalibrationMethod, create_calibrator
from onnxruntime.quantization.quant_utils import compute_scale_zp
from safetensors.torch import load_file, save_file
from transformers import GPT2LMHeadModel

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "tests" / "fixtures"
METHODS = {"minmax": CalibrationMethod.MinMax, "percentile": CalibrationMethod.Percentile,
           "entropy": CalibrationMethod.Entropy}  # fmt: skip
PERCENTILES = {"percentile": 99.999, "percentile99": 99.0}  # the second cuts small fixtures too


class OneBatch(CalibrationDataReader):
    def __init__(self, batch):
        self.batches = iter([{"x": batch}])

    def get_next(self):
        return next(self.batches, None)


def product_of_one(folder):
    """x [n, 1] times 1: what a calibrator sees of x is x."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 1])
    one = numpy_helper.from_array(np.ones((1, 1), np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [one])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), folder / "m.onnx")
    return folder / "m.onnx"


def range_of(batches, method, symmetric):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        calibrator = create_calibrator(
            product_of_one(folder), ["MatMul"], str(folder / "augmented.onnx"), METHODS[method.rstrip("9")],
            extra_options={"symmetric": symmetric, "percentile": PERCENTILES.get(method, 0)},
        )  # fmt: skip
        for batch in batches:
            calibrator.collect_data(OneBatch(batch.reshape(-1, 1).astype(np.float32)))
        found = calibrator.compute_data()["x"].range_value
    return tuple(np.float32(np.asarray(v).reshape(-1)[0]) for v in found)


def described(batches, method, symmetric=False):
    low, high = range_of(batches, method, symmetric)
    limits = (np.int8(-127), np.int8(127)) if symmetric else (np.uint8(0), np.uint8(255))
    zero_point, scale = compute_scale_zp(low, high, *(np.array(v) for v in limits), symmetric)
    return torch.tensor([low, high, float(scale), float(zero_point)], dtype=torch.float32)


def distributions(out):
    generator = np.random.default_rng(11)
    normal = generator.normal(0, 1, (4, 1500))
    cases = {
        "normal": normal * np.array([[1], [1.3], [0.5], [2.4]]),
        "one_sided": np.where(normal > 0, normal * 3, normal * 0.05 - 0.01),
        "outliers": np.where(generator.random(normal.shape) < 0.002, normal * 12, normal),
        "growing": normal * np.array([[0.1], [0.25], [0.4], [0.7]]),
        "zeros_first": normal * np.array([[0], [0], [1], [0.5]]),
        "positive": np.abs(normal) + 0.5,
        "constant": np.full((2, 20), 0.25),
        "zeros": np.zeros((2, 20)),
    }
    for name, batches in cases.items():
        batches = batches.astype(np.float32)
        out[f"{name}.batches"] = torch.from_numpy(batches)
        for method in (*METHODS, "percentile99"):
            for symmetric in (False, True):
                if symmetric and method == "entropy":  # it looks at both sides either way
                    continue
                key = f"{name}.{method}" + (".symmetric" if symmetric else "")
                out[key] = described(batches, method, symmetric)


class StaticLinear(torch.nn.Module):
    """A Conv1D with weights in int8 per output and inputs in fixed unsigned codes."""

    def __init__(self, conv, scale, zero_point):
        super().__init__()
        w = conv.weight.data.T.contiguous()
        self.absmax = w.abs().max(dim=1).values
        self.codes = torch.round(w * (127 / self.absmax[:, None])).double()
        self.bias, self.scale, self.zero_point = conv.bias, scale, zero_point

    def forward(self, x):
        codes = torch.clamp(torch.round(x / self.scale) + self.zero_point, 0, 255).double() - self.zero_point
        return (codes @ self.codes.T).float() * (self.scale * self.absmax / 127) + self.bias


def inputs_of_products(model, ids):
    seen, handles = {}, []
    for name, module in model.named_modules():
        if type(module).__name__ == "Conv1D":
            handles.append(module.register_forward_hook(lambda m, args, y, name=name: seen.update({name: args[0]})))
    with torch.no_grad():
        model(ids[None])
    for handle in handles:
        handle.remove()
    return {name: x.numpy().reshape(1, -1) for name, x in seen.items()}


def model_logits(out):
    folder = FIXTURES / "models" / "base"
    ids = load_file(folder / "expected.safetensors")["input_ids"]
    for method in METHODS:
        model = GPT2LMHeadModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
        inputs = inputs_of_products(model, ids)
        for name, batches in inputs.items():
            found = described(batches, method)
            out[f"model.{method}.{name}.weight"] = found
            parent, child = name.rsplit(".", 1)
            linear = StaticLinear(model.get_submodule(name), found[2], found[3])
            setattr(model.get_submodule(parent), child, linear)
        with torch.no_grad():
            out[f"model.{method}.logits"] = model(ids[None]).logits[0].contiguous()


def main():
    torch.set_num_threads(1)
    out = {}
    distributions(out)
    model_logits(out)
    save_file({k: v.contiguous() for k, v in out.items()}, FIXTURES / "calibration.safetensors")
    for name, tensor in out.items():
        print(f"{name:48} {tuple(tensor.shape)} {tensor.tolist() if tensor.numel() == 4 else ''}")


if __name__ == "__main__":
    main()
