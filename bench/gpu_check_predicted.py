"""The nodes of a decode step beside what `assay inspect --gpu` predicts of them."""
import json

from gpu_check_base import run

# A part of a device's name -> its name in `inspect --gpu`; the first that fits.
GPUS = {"H200": "h200", "H100 PCIe": "h100-pcie", "H100": "h100", "A100": "a100"}
# Kernels that belong to the operation in front of them, and to the choice of the token at the end.
BEHIND, CHOICE = ("merge_", "add_ranges", "add_int8_ranges", "finish"), ("best_key", "next_token")
# Kernels that compute an operation of the plan; all others prepare the one behind them.
OPERATIONS = {"attend_step": "attention", "attend_": "attention", "ordered_": "matmul", "coded_": "matmul", "linear_": "matmul",
              "four_bit_": "matmul", "gemm_": "matmul"}  # fmt: skip


def gpu_of(device_name):
    return next((name for part, name in GPUS.items() if part in device_name), None)


def predict(options, model, precision, gpu, past, seconds):
    """The kernels of a step, or None where nothing is predicted."""
    code, said = run([options.program, "inspect", model, "--precision", precision, "--gpu", gpu, "--past", past, "--json",
                      "--quiet"], seconds)  # fmt: skip
    return json.loads(said)["gpu_step"]["kernels"] if code == 0 else None


def operations_of(kernels):
    """The predicted operations that launch something, as a step runs them: (name, kind, microseconds of one)."""
    launched = [k for k in kernels if k["launches_each"] > 0]
    layers = max((k["count"] for k in launched), default=0)
    of_layer = [k for k in launched if k["count"] == layers and layers > 1]
    first = launched.index(of_layer[0]) if of_layer else len(launched)
    outside = [k for k in launched if k not in of_layer]
    order = [k for k in outside if launched.index(k) < first] + of_layer * layers
    order += [k for k in outside if launched.index(k) >= first]
    return [(k["name"], k["kind"], k["seconds"] / k["count"] * 1e6) for k in order]


def measured_operations(step):
    """(kind, microseconds) of each operation in order; kernels that only prepare or complete one count to it."""
    found, waiting = [], 0.0
    for kernel, _, _, us in step:
        kind = next((kind for part, kind in OPERATIONS.items() if kernel.startswith(part)), None)
        kind = "choice" if kernel.startswith(CHOICE) else kind
        if kernel.startswith(BEHIND) and found or kind == "choice" and found and found[-1][0] == kind:
            found[-1][1] += us
        elif kind is None:
            waiting += us
        else:
            found.append([kind, waiting + us])
            waiting = 0.0
    return [tuple(one) for one in found]


def compared(steps, kernels):
    """name -> (how many, mean measured us, predicted us of one); None where the steps have other operations."""
    wanted = operations_of(kernels)
    places = {}
    for step in steps:
        measured = measured_operations(step)
        if [kind for kind, _ in measured] != [kind for _, kind, _ in wanted]:
            return None
        for (name, _, predicted), (_, us) in zip(wanted, measured):
            places.setdefault((name, predicted), []).append(us)
    return {name: (len(times) // len(steps), sum(times) / len(times), predicted) for (name, predicted), times in places.items()}


def add_comparison(report, title, steps, kernels):
    rows = compared(steps, kernels)
    if rows is None:
        return report.skip(f"{title}, predicted", "the step has other operations than `inspect --gpu` names")
    totals = [sum(count * row[i] for count, *row in rows.values()) for i in (0, 1)]
    for name, (count, measured, predicted) in {**rows, "a step": (1, *totals)}.items():
        report.add(f"{title} {name}, predicted", None, count=count, **{"predicted us": predicted, "measured us": measured,
                   "measured / predicted": measured / predicted})  # fmt: skip
