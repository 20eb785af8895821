"""Progress: a line that is written over, on terminals and in notebooks; nothing anywhere else."""

from __future__ import annotations

import sys
import time
from typing import Any


def wanted(progress: bool | None) -> bool:
    """None: where standard error is a terminal, or the program is a notebook."""
    if progress is not None:
        return progress
    return bool(getattr(sys.stderr, "isatty", lambda: False)()) or in_notebook()


def in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


class Progress:
    """The line. `show` may be called as often as one likes."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.width = 0
        self.next = 0.0

    def _write(self, line: str) -> None:
        now = time.monotonic()
        if now < self.next:
            return
        self.next = now + 0.1
        sys.stderr.write("\r" + line.ljust(self.width))
        sys.stderr.flush()
        self.width = len(line)

    def show(self, done: int, total: int, info: Any) -> None:
        spent = time.monotonic() - self.begun
        left = spent / done * (total - done) if done else float("nan")
        line = f"iteration {done} of {total}, {left:.0f} s left, ESS {info.ess:.0f}"
        if info.loss == info.loss:
            line += f", loss {info.loss:.5g}"
        self._write(line)

    def show_solver(self, info: Any, phase: str) -> None:
        line = f"{phase}, step {info.step}, {info.updates} updates"
        if info.loss == info.loss:
            line += f", loss {info.loss:.5g}"
        self._write(line)

    def end(self) -> None:
        if self.width:
            sys.stderr.write("\r" + " " * self.width + "\r")
            sys.stderr.flush()
