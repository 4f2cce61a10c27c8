"""The driver's side of the protocol, with a worker of a few lines."""

import os
import sys
import tempfile
import unittest
from pathlib import Path

import support  # noqa: F401  (puts the modules on the path)
from workers import Worker, WorkerError

# Its second thread computes until it has used 50 ms of a processor; "fail" is refused, "die" ends it.
SCRIPT = """
import json, os, sys, threading, time

go, done = threading.Semaphore(0), threading.Semaphore(0)

def compute():
    while True:
        go.acquire()
        end = time.thread_time() + 0.05
        while time.thread_time() < end:
            pass
        done.release()

thread = threading.Thread(target=compute, daemon=True)
thread.start()
for line in sys.stdin:
    op = json.loads(line)["op"]
    if op == "die":
        os._exit(7)
    go.release()
    done.acquire()
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    answer = {"ok": op != "fail", "error": "refused", "thread": thread.native_id, "tunables": tunables}
    print(json.dumps(answer), flush=True)
    if op == "quit":
        break
"""


class Workers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.log = Path(folder.name) / "log"

    def start(self, **more):
        worker = Worker([sys.executable, "-c", SCRIPT], os.sched_getaffinity(0), self.log, **more)
        self.addCleanup(worker.close)
        return worker

    def test_the_thread_that_computes_is_found_and_pinned(self):
        worker = self.start()
        thread = worker.ask("compute")["thread"]
        before = worker.thread_times()
        worker.ask("compute")
        self.assertEqual(worker.busiest(before, 1), [thread])
        worker.pin([thread])
        self.assertEqual(len(os.sched_getaffinity(thread)), 1)
        self.assertTrue(worker.are_pinned([thread]))
        worker.allow_all()
        self.assertEqual(os.sched_getaffinity(thread), os.sched_getaffinity(0))

    def test_two_threads_on_one_processor_are_not_pinned(self):
        worker = self.start()
        tasks = [worker.ask("compute")["thread"], worker.process.pid]
        for task in tasks:
            os.sched_setaffinity(task, {min(worker.cpus)})
        self.assertFalse(worker.are_pinned(tasks))

    def test_malloc_asks_for_huge_pages_unless_they_are_forbidden(self):
        self.assertEqual(self.start().ask("compute")["tunables"], "glibc.malloc.hugetlb=1")
        worker = self.start(has_huge_pages=False)
        worker.ask("compute")
        self.assertNotIn("hugetlb", worker.ask("compute")["tunables"])
        status = Path(f"/proc/{worker.process.pid}/status").read_text()
        self.assertIn("THP_enabled:\t0", status)

    def test_refusals_and_deaths_are_errors(self):
        worker = self.start()
        with self.assertRaisesRegex(WorkerError, "refused"):
            worker.ask("fail")
        with self.assertRaisesRegex(WorkerError, "exit code 7"):
            worker.ask("die")


if __name__ == "__main__":
    unittest.main()
