"""Keywords are run-file keys: they become a run file, which the one table of keys checks, and come back as the library's values."""

from __future__ import annotations

import difflib
import json
import re
from functools import lru_cache
from typing import Any, Mapping

import numpy as np

from ._c import ffi, lib
from ._errors import embed_exception, text

SENTENCE = 2048


class RunFile:
    """A checked run file with every default filled in."""

    def __init__(self, source: Mapping[str, Any] | None = None, *, path: str | None = None, name: str = "keywords",
                 assignments: list[str] | None = None, own: Any = ffi.NULL) -> None:
        out, error = ffi.new("embed_file **"), ffi.new("char[]", SENTENCE)
        keep = [ffi.new("char[]", s.encode()) for s in assignments or []]
        array = ffi.new("char *[]", keep or [ffi.NULL])
        body = ffi.new("char[]", (json.dumps(plain(source)) if source is not None else "").encode())
        file = ffi.new("char[]", (path or "").encode())
        label = ffi.new("char[]", name.encode())
        where = ffi.new("embed_source *", {"path": file if path else ffi.NULL, "text": ffi.NULL if path else body, "name": label,
                                           "set": array if keep else ffi.NULL, "sets": len(keep), "own": own})
        status = lib.embed_open(out, where, error, SENTENCE)
        if status != lib.EMBED_OK:
            raise embed_exception(status, _spoken(text(error), name))
        self.pointer = ffi.gc(out[0], lib.embed_close)

    def yaml(self) -> str:
        """The resolved run file."""
        return _taken(lib.embed_yaml(self.pointer))

    def values(self) -> dict[str, Any]:
        """The same as nested dictionaries."""
        out: dict[str, Any] = json.loads(_taken(lib.embed_json(self.pointer)))
        return out


class Job:
    """What a run file describes, as values of the library."""

    def __init__(self, file: RunFile, name: str = "keywords") -> None:
        out, error = ffi.new("embed_job **"), ffi.new("char[]", SENTENCE)
        status = lib.embed_job_make(out, file.pointer, error, SENTENCE)
        if status != lib.EMBED_OK:
            raise embed_exception(status, _spoken(text(error), name))
        self.pointer = ffi.gc(out[0], lib.embed_job_free)
        self.problem = lib.embed_job_problem(self.pointer)
        self.settings = lib.embed_job_settings(self.pointer)
        self.automatic = bool(lib.embed_job_automatic(self.pointer))
        self.solve = lib.embed_job_solve(self.pointer)
        self.iterations = int(lib.embed_job_iterations(self.pointer))

    def must_fit(self) -> None:
        """Refuses a run whose memory is not free."""
        error = ffi.new("char[]", SENTENCE)
        if lib.embed_job_fits(self.pointer, error, SENTENCE) != lib.EMBED_OK:
            raise MemoryError(text(error))

    def theta_names(self) -> list[str]:
        name, names = ffi.new("char[]", lib.EMBED_NAME), []
        for k in range(self.problem.model.dim_theta):
            lib.embed_job_theta_name(self.pointer, k, name, lib.EMBED_NAME)
            names.append(text(name))
        return names


def _taken(c: Any) -> str:
    if c == ffi.NULL:
        raise MemoryError("out of memory")
    try:
        return text(c)
    finally:
        lib.embed_text_free(c)


def _spoken(sentence: str, name: str) -> str:
    """A sentence without the line of a run file that nobody has seen."""
    return re.sub(rf"^{re.escape(name)}(:\d+)?: ", "", sentence)


def plain(value: Any) -> Any:
    """Numbers, lists and mappings as JSON can hold them."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and np.isinf(value):
        return "inf" if value > 0 else "-inf"  # what a bound may be; other keys refuse the word
    if isinstance(value, float) and np.isnan(value):
        raise ValueError("a setting is nan; expected a number")
    if value is not None and not isinstance(value, (str, bool, int, float)):
        raise TypeError(f"a setting is of type {type(value).__name__}; expected a number, a text, a list or a mapping")
    return value


@lru_cache(maxsize=1)
def table() -> dict[str, Any]:
    """The table of keys of run files: keys, choices and methods."""
    out: dict[str, Any] = json.loads(_taken(lib.embed_keys()))
    return out


@lru_cache(maxsize=1)
def top_keys() -> tuple[str, ...]:
    seen = dict.fromkeys(row["key"].split(".")[0] for row in table()["keys"])
    return tuple(k for k in seen if k not in ("model", "objective", "evaluate", "output"))


def refuse_unknown(function: str, keywords: Mapping[str, Any], others: tuple[str, ...]) -> None:
    """Refuses keywords that are no keys of a run file, with a suggestion."""
    for name in keywords:
        if name in top_keys():
            continue
        if name in ("evaluate", "output"):
            raise TypeError(f"{function}() has no keyword {name!r}: it belongs to runs that leave a folder; see sosmc.run_file")
        near = difflib.get_close_matches(name, [*top_keys(), *others], n=1, cutoff=0.5)
        nested = [row["key"] for row in table()["keys"] if row["key"].endswith(f".{name}") and row["key"].split(".")[0] in top_keys()]
        hint = f"; did you mean {near[0]!r}?" if near else ""
        if nested and (not near or difflib.SequenceMatcher(None, name, near[0]).ratio() < 0.8):
            parent, leaf = nested[0].rsplit(".", 1)
            hint = f"; did you mean {parent.replace('.', '=')}={{{leaf!r}: ...}}?"
        raise TypeError(f"{function}() got an unexpected keyword {name!r}{hint}")
