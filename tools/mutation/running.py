"""Runs the tests: once without any mutant, then those that reach a mutant with it."""
import collections
import concurrent.futures
import os
import re
import resource
import signal
import subprocess
import sys
import time

from .places import COPY, PROGRAM, ROOT

TOO_LONG = (-signal.SIGKILL, -signal.SIGXCPU)  # the signals of the limits of run_tests; any other signal is a crash


def suites_in(folders):
    """Names of the tests in these folders of tests/, as --gtest_list_tests gives them."""
    words = set()
    for folder in folders:
        for path in sorted((ROOT / "tests" / folder).glob("*_test.cpp")):
            words |= set(re.findall(r"^(?:TYPED_)?TEST(?:_F|_P)?\((\w+),", path.read_text(), re.M))
    text = subprocess.run([PROGRAM, "--gtest_list_tests"], capture_output=True, text=True, check=True).stdout
    names, suite = [], ""
    for line in text.splitlines():
        line = line.split("#")[0].rstrip()
        if line and not line.startswith(" "):
            suite = line
        elif line and any(part in words for part in re.split(r"[/.]", suite)):
            names.append(suite + line.strip())
    return names


def run_tests(names, limit, extra=None):
    """(exit status, seconds); a negative status is a signal, or a limit of `limit` seconds of the processor."""
    def limits():
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit) + 2, int(limit) + 4))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    environment = {**os.environ, "ASSAY_MODELS": str(ROOT / "models"), **(extra or {})}
    command = [str(PROGRAM), "--gtest_fail_fast", "--gtest_brief=1", "--gtest_filter=" + ":".join(names)]
    begin = time.monotonic()
    process = subprocess.Popen(command, cwd=COPY, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=limits)  # fmt: skip
    try:
        status = process.wait(4 * limit)
    except subprocess.TimeoutExpired:
        status = -signal.SIGKILL
    finally:
        try:
            os.killpg(process.pid, 9)  # the session of this process alone: workers that a crash has left
        except ProcessLookupError:
            pass
        process.wait()
    return status, time.monotonic() - begin


def reached_by(name, size, slowest):
    file = COPY / f"reached.{os.getpid()}.{abs(hash(name))}"
    file.write_bytes(bytes(1 << 16))
    status, seconds = run_tests([name], slowest, {"ASSAY_MUTANTS_REACHED": str(file)})
    data = file.read_bytes()
    file.unlink()
    return name, status, seconds, [i for i in range(size + 1) if data[i]]


def coverage(names, size, jobs, slowest, keeps_going):
    """For each mutant the tests that reach it, fastest first; and the time of each test. Slow ones are left out."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        all_of = list(pool.map(lambda n: reached_by(n, size, slowest), names))
    slow = [name for name, status, _, _ in all_of if status in TOO_LONG]
    if slow:
        print(f"left out, since they take more than {slowest} s: {' '.join(slow)}", flush=True)
    all_of = [one for one in all_of if one[0] not in slow]
    red = [name for name, status, _, _ in all_of if status != 0]
    if red:
        print("These tests fail without any mutant: " + " ".join(red), flush=True)
        if not keeps_going:
            sys.exit(1)
        all_of = [one for one in all_of if one[0] not in red]
    seconds = {name: s for name, _, s, _ in all_of}
    tests = collections.defaultdict(list)
    for name, _, s, reached in sorted(all_of, key=lambda one: one[2]):
        for number in reached:
            tests[number].append(name)
    return tests, seconds


def try_mutant(number, tests, seconds):
    """'not reached', 'survived' or 'found'."""
    if not tests:
        return "not reached"
    # In two steps: most are found by tests that take no time.
    fast = [t for t in tests if seconds[t] < 0.3]
    for names in (fast, [t for t in tests if seconds[t] >= 0.3]):
        if names and run_tests(names, 5 + 5 * sum(seconds[t] for t in names), {"ASSAY_MUTANT": str(number)})[0] != 0:
            return "found"
    return "survived"
