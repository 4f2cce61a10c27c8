"""The nodes of a decode step, by differences of its graph, beside what `assay inspect --gpu` predicts of them."""
import json

from gpu_check_base import run

# A part of a device's name -> its name in `inspect --gpu`; the first that fits.
GPUS = {"H200": "h200", "H100 PCIe": "h100-pcie", "H100": "h100", "A100": "a100"}


def gpu_of(device_name):
    return next((name for part, name in GPUS.items() if part in device_name), None)


def predict(options, model, precision, head, gpu, past, seconds):
    """The kernels of a step, or None where nothing is predicted; `head`: the format of its LM head, or None."""
    code, said = run([options.program, "inspect", model, "--precision", precision, *(["--quantize-head", head] if head else []),
                      "--gpu", gpu, "--past", past, "--json", "--quiet"], seconds)  # fmt: skip
    return json.loads(said)["gpu_step"]["kernels"] if code == 0 else None


def compared(operations, kernels):
    """Rows of the operations that have nodes, as a worker's `profile` has them: each beside its prediction, where there is one."""
    predicted = {(k["name"], k["kind"]): k["seconds"] for k in kernels or []}
    rows = []
    for one in operations:
        if not one["nodes"]:  # another computes it
            continue
        row = {"name": one["name"], "count": one["count"], "nodes": one["nodes"], "us": one["seconds"] * 1e6}
        least = predicted.get((one["name"], one["kind"]))
        if least:
            row |= {"predicted us": least * 1e6, "measured / predicted": one["seconds"] / least}
        rows.append(row)
    return rows


def add_nodes(report, title, profile, kernels, gpu):
    """A line for each operation of a step, with all its nodes in all layers, and one for the step."""
    rows = compared(profile["operations"], kernels)
    costs = {one["name"]: one for one in profile["operations"]}
    for row in rows:
        cost = costs[row["name"]]
        if row["us"] > 0:
            row["GB/s"] = cost["bytes"] / row["us"] / 1e3
            if gpu:
                row["% of read rate"] = 100 * row["GB/s"] / gpu["memory_read_gb_per_s"]
        report.add(f"{title} {row.pop('name')}", None, **row)
    step = {"nodes": sum(row["nodes"] for row in rows), "us": profile["step_s"] * 1e6, "us of nodes": sum(row["us"] for row in rows)}
    if kernels:
        least = sum(k["seconds"] for k in kernels)
        step |= {"predicted us": least * 1e6, "measured / predicted": profile["step_s"] / least}
    report.add(f"{title}, a step", None, **step)
