"""The driver's side of the protocol: processes that hold a configuration and sleep between their turns."""

import json
import os
import subprocess
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parent


class WorkerError(Exception):
    """A sentence on what a worker answered or failed to answer."""


class Worker:
    def __init__(self, command, cpus, log, variables=None):
        self.log = log
        with open(log, "a", encoding="utf-8") as errors:
            self.process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=os.environ | (variables or {}),
                preexec_fn=lambda: os.sched_setaffinity(0, cpus),
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

    def close(self):
        try:
            self.process.stdin.write('{"op":"quit"}\n')
            self.process.stdin.close()
            self.process.wait(30)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
