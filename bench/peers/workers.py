"""The driver's side of the protocol: processes that hold a configuration and sleep between their turns."""

import ctypes
import json
import os
import subprocess
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parent


PR_SET_THP_DISABLE = 41
# malloc asks for huge pages with madvise, as Assay does for its large buffers; so does torch's own allocator.
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "THP_MEM_ALLOC_ENABLE": "1"}


class WorkerError(Exception):
    """A sentence on what a worker answered or failed to answer."""


class Worker:
    def __init__(self, command, cpus, log, variables=None, has_huge_pages=True):
        self.log, self.cpus = log, cpus
        without = ctypes.CDLL(None).prctl if not has_huge_pages else None

        def prepare():
            os.sched_setaffinity(0, cpus)
            if without:
                without(PR_SET_THP_DISABLE, 1, 0, 0, 0)  # stays in force when the program is started

        with open(log, "a", encoding="utf-8") as errors:
            self.process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=os.environ | (HUGE_PAGES if has_huge_pages else {}) | (variables or {}),
                preexec_fn=prepare,
            )

    def ask(self, op, timeout_s=1800, **request):
        """The answer to one request. Throws WorkerError; a worker that does not answer is ended."""
        timer = threading.Timer(timeout_s, self.process.kill)
        timer.start()
        try:
            self.process.stdin.write(json.dumps({"op": op} | request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except OSError as error:
            raise WorkerError(f"{op}: the worker is gone ({error}): see {self.log}") from error
        finally:
            timer.cancel()
        if not line:
            raise WorkerError(f"{op}: no answer, exit code {self.process.wait()}: see {self.log}")
        answer = json.loads(line)
        if not answer.get("ok"):
            raise WorkerError(f"{op}: {answer.get('error', 'refused')}")
        return answer

    def thread_times(self):
        """Nanoseconds on a processor of each thread, by its id."""
        times = {}
        for task in Path(f"/proc/{self.process.pid}/task").glob("*"):
            try:
                times[int(task.name)] = int((task / "schedstat").read_text().split()[0])
            except (OSError, ValueError, IndexError):
                pass  # it has ended meanwhile
        return times

    def busiest(self, before, count):
        """Ids of the threads that computed most since thread_times() gave `before`."""
        spent = {task: time - before.get(task, 0) for task, time in self.thread_times().items()}
        return [task for task in sorted(spent, key=spent.get, reverse=True)[:count] if spent[task] > 0]

    def allow_all(self):
        """Undoes pin(): a thread that is started inherits the processors of its parent."""
        for task in self.thread_times():
            set_affinity(task, self.cpus)

    def pin(self, tasks):
        """A processor for each of the threads, as Assay's have it."""
        for task, cpu in zip(tasks, sorted(self.cpus)):
            set_affinity(task, {cpu})

    def are_pinned(self, tasks):
        """Whether each of the threads has a processor of its own."""
        try:
            held = [os.sched_getaffinity(task) for task in tasks]
        except OSError:
            return False
        return all(len(cpus) == 1 for cpus in held) and len(set().union(*held)) == len(held)

    def memory(self):
        """Bytes of its anonymous memory, and how many of them lie in huge pages; empty where unknown."""
        found = {}
        try:
            for line in Path(f"/proc/{self.process.pid}/smaps_rollup").read_text().splitlines():
                name, _, value = line.partition(":")
                if name in ("Anonymous", "AnonHugePages"):
                    found[name] = 1024 * int(value.split()[0])
        except (OSError, ValueError, IndexError):
            return {}
        return {"anonymous_bytes": found.get("Anonymous"), "huge_page_bytes": found.get("AnonHugePages")}

    def close(self):
        try:
            self.process.stdin.write('{"op":"quit"}\n')
            self.process.stdin.close()
            self.process.wait(30)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def set_affinity(task, cpus):
    try:
        os.sched_setaffinity(task, cpus)
    except OSError:
        pass  # it has ended meanwhile
