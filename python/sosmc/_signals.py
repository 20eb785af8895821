"""Ctrl-C during a run: the first one ends it after the iteration, with everything kept; the second one raises at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class Interrupt:
    """While it is entered, in the main thread, SIGINT sets `asked` instead of raising. Elsewhere nothing is installed, nor where SIGINT
    is ignored, as in a background job."""

    def __init__(self) -> None:
        self.asked = False
        self._before: Any = None
        self._installed = False

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) not in (None, signal.SIG_IGN):
            self._before = signal.signal(signal.SIGINT, self._handle)
            self._installed = True
        return self

    def __exit__(self, *_: object) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, self._before)
            self._installed = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
