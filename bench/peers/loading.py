"""The time in which Assay loads a file, beside that of plain reading."""

import os
import statistics
import time

import models
from precisions import PRECISIONS
from turns import SETTLE_S


def read_whole(path):
    """Seconds to read the file by pread into one buffer."""
    buffer = bytearray(8 << 20)
    file = os.open(path, os.O_RDONLY)
    try:
        begin, at = time.perf_counter(), 0
        while got := os.preadv(file, [buffer], at):
            at += got
        return time.perf_counter() - begin
    finally:
        os.close(file)


def run_load(participants, options):
    """Loading by Assay in turns with plain reading of the same file, all of it in the page cache."""
    assay = next((p for p in participants if p.name == "assay"), None)
    if assay is None:
        return []
    folder = models.hugging_face(options.dir, options.model)
    request = {"model": str(folder), "threads": assay.setting.threads}
    request |= PRECISIONS[assay.setting.precision].request()
    if assay.setting.isa != "native":
        request["isa"] = assay.setting.isa
    file = folder / "model.safetensors"
    read_whole(file)
    load_s, pread_s = [], []
    for _ in range(options.rounds):
        time.sleep(SETTLE_S)
        pread_s.append(read_whole(file))
        time.sleep(SETTLE_S)
        answer = assay.guarded(lambda: assay.worker.ask("load", **request), "load")
        if answer:
            load_s.append(answer["load_s"])
    row = {"case": "load", "peer": "assay", "label": assay.label, "precision": assay.setting.precision}
    row |= {"threads": assay.setting.threads, "isa": assay.setting.isa, "model": options.model, "marks": []}
    row |= {
        "status": "ok" if load_s else "failed",
        "failure": assay.failure,
        "load_s": load_s,
        "pread_s": pread_s,
    }
    if load_s:
        row["ratio_to_pread"] = statistics.median(load_s) / statistics.median(pread_s)
    return [row]
