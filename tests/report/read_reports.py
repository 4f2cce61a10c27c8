#!/usr/bin/env python3
"""Reads the files of a run as others would, and says what is wrong: read_reports.py FOLDER SCHEMA RECOMPUTE.

Prints "skipped: WHY" for what needs a package that is not installed (python3-jsonschema, python3-pandas, duckdb).
"""

import csv
import importlib.util
import json
import math
import sys
from pathlib import Path

folder, schema, recompute = (Path(argument) for argument in sys.argv[1:])
results = json.loads((folder / "results.json").read_text())


def with_jsonschema():
    import jsonschema

    checker = jsonschema.Draft7Validator(json.loads(schema.read_text()))
    checker.check_schema(checker.schema)
    wrong = sorted(checker.iter_errors(results), key=lambda error: list(map(str, error.path)))
    assert not wrong, [f"{list(error.path)}: {error.message}" for error in wrong[:3]]
    results["rows"][0]["values"]["total_latency_s"]["value"] = "fast"
    assert list(checker.iter_errors(results)), "the schema lets everything pass"
    results.update(json.loads((folder / "results.json").read_text()))


def with_csv():
    with open(folder / "results.csv", newline="") as lines:
        tidy = list(csv.DictReader(lines))
    expected = sum(len(row["values"]) + len(row.get("absent", {})) + (row["status"] != "ok") for row in results["rows"])
    assert len(tidy) == expected, (len(tidy), expected)
    with open(folder / "samples.csv", newline="") as lines:
        samples = list(csv.DictReader(lines))
    steps = sum(len(run) for row in results["rows"] for run in row.get("step_s", []))
    assert steps > 0 and steps == sum(sample["phase"] == "decode step" for sample in samples)
    assert {sample["run"] for sample in samples} == {results["run_id"]}


def with_recomputation():
    spec = importlib.util.spec_from_file_location("recompute", recompute)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    compared = [c for c in results["comparisons"] if c["metric"] == "total_latency_s" and c["processes"] >= 3]
    assert compared, "nothing was compared"
    for c in compared:
        ratio, low, high, p_value, processes = module.verdict(
            folder / "samples.csv", c["subject"], c["baseline"], c["scenario"], c["interval"]["level"])
        assert processes == c["processes"]
        assert math.isclose(ratio, c["ratio"], rel_tol=1e-6), (c["subject"], ratio, c["ratio"])
        assert c["effect"]["degrees"] == processes - 1, "so few cases borrow no variance"
        for own, other in ((low, c["interval"]["low"]), (high, c["interval"]["high"]),
                           (p_value, c["p_value"])):
            assert math.isclose(own, other, rel_tol=1e-6, abs_tol=1e-12), (c["subject"], own, other)


def with_pandas():
    import pandas

    tidy, samples = pandas.read_csv(folder / "results.csv"), pandas.read_csv(folder / "samples.csv")
    assert tidy["value"].dtype == float and samples["value"].dtype == float
    totals = samples[samples["phase"] == "total"].groupby(["scenario", "label", "configuration"])["value"]
    for row in results["rows"]:
        key = (row["scenario"], row["label"], row["parameters"]["configuration"])
        if "samples_from" in row:
            assert list(totals.get_group(key)) == row["values"]["total_latency_s"]["samples"], key


def with_duckdb():
    import duckdb

    count = duckdb.sql(f"select count(distinct (process, round)) from '{folder}/samples.csv' where phase = 'total'")
    assert count.fetchone()[0] > 1
    assert duckdb.sql(f"select value from '{folder}/results.csv' where metric = 'total_latency_s'").fetchone()[0] > 0


for check in (with_csv, with_recomputation, with_jsonschema, with_pandas, with_duckdb):
    try:
        check()
        print(f"ok: {check.__name__}")
    except ImportError as error:
        print(f"skipped: {check.__name__}: {error}")
