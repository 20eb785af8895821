"""Run files and run folders: what `sosmc run` does, inside this process."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Mapping

import numpy as np

from ._c import ffi, lib
from ._calls import Array
from ._errors import FileError, embed_exception, text
from ._keys import RunFile, plain
from ._progress import Progress, wanted
from ._signals import Interrupt
from .result import Judgement, Result


class _Stored:
    """Stands for the model of a folder: theta is a flat vector, or the arrays of a network."""

    def __init__(self, names: list[str], name: str, network: dict[str, Array] | None) -> None:
        self.names, self.name, self.network, self.unpack_x = names, name, network, None

    def unpack(self, flat: Array) -> Any:
        return self.network if self.network is not None else np.array(flat)


class Run(Result):
    """The result that a run folder holds: a `Result` with `folder`, `summary_json` and, after `run_file`, `closing`.

    closing
        The lines with which `sosmc run` closes.
    against
        Sentences that speak against the result, as they go to standard error there.
    """

    folder: Path
    summary_json: dict[str, Any]
    closing: str = ""
    against: str = ""

    @property
    def report(self) -> Path:
        """The page of the run."""
        return self.folder / "report.html"

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False, report: bool = True) -> None:
        """A run of a folder is saved already."""
        raise FileError(f"this run is in {self.folder} already; copy that folder")


def _read_trace(path: Path) -> dict[str, Array]:
    with open(path, encoding="utf-8") as f:
        names = f.readline().strip().split(",")
        table = np.genfromtxt(f, delimiter=",", ndmin=2)
    table = table.reshape(-1, len(names))
    whole = ("iteration", "step", "updates", "gradient_updates", "resampled", "nonfinite", "retries", "phase", "stage", "round",
             "moves", "evaluations", "contractions")
    return {name: table[:, k].astype(np.int64) if name in whole else table[:, k] for k, name in enumerate(names)}


def load_run(folder: str | os.PathLike[str]) -> Run:
    """Reads a run folder: that of `sosmc run`, of `run_file`, or of `Result.save`."""
    place = Path(folder)
    if not place.is_dir():
        raise FileError(f"{place} is not a run folder: there is no such folder")
    try:
        settings = (place / "run.yaml").read_text(encoding="utf-8")
        summary = json.loads((place / "summary.json").read_text(encoding="utf-8"))
        trace = _read_trace(place / "trace.csv")
        cloud = None
        if (place / "particles.npz").exists():
            with np.load(place / "particles.npz") as stored:
                cloud = (stored["x"], stored["logw"] if "logw" in stored else np.full(len(stored["x"]), -np.log(len(stored["x"]))))
        network, theta = _theta(place, summary)
    except FileNotFoundError as e:
        raise FileError(f"{place} is not the folder of a finished run: {Path(e.filename).name} is missing") from None
    except (ValueError, KeyError, OSError) as e:
        raise FileError(f"{place} cannot be read as a run folder: {e}") from None
    names = summary.get("theta_names") or [f"theta_{k + 1}" for k in range(len(theta))]
    automatic = summary.get("settings") == "automatic"
    values = RunFile(path=str(place / "run.yaml")).values()
    out = Run(model=_Stored(names, summary.get("model", ""), network), settings=settings, values=values,
              judgement=Judgement.from_summary(summary), theta_flat=theta, trace=trace, cloud=cloud,
              iterations=int(summary.get("iterations", 0)), automatic=automatic, hash=summary.get("state_hash", ""),
              stopped="" if summary.get("finished", True) else "its user or a limit")
    out.folder, out.summary_json = place, summary
    return out


def _theta(place: Path, summary: Mapping[str, Any]) -> tuple[dict[str, Array] | None, Array]:
    if (place / "model.npz").exists():
        with np.load(place / "model.npz") as stored:
            network = {name: stored[name] for name in stored.files}
        return network, np.concatenate([v.reshape(-1).astype(np.float64) for v in network.values() if v.dtype.kind == "f"])
    if (place / "theta.npy").exists():
        return None, np.load(place / "theta.npy")
    return None, np.array(summary["theta"], dtype=np.float64)


class _Hooks:
    """What a run calls: progress, sentences, and whether to stop."""

    def __init__(self, interrupt: Interrupt, progress: Progress | None) -> None:
        self.interrupt, self.progress = interrupt, progress
        self.sentences: list[str] = []
        self.error: BaseException | None = None

    def stop(self) -> int:
        return int(self.interrupt.asked or self.error is not None)

    def show(self, p: Any) -> None:
        try:
            if self.progress is None:
                return
            if p.info != ffi.NULL:
                self.progress.show(p.done, p.total, p.info)
            else:
                self.progress.show_solver(p.solve, text(lib.sosmc_phase_name(p.solve.phase)))
        except BaseException as e:
            self._failed(e)

    def log(self, sentence: str) -> None:
        self.sentences.append(sentence)

    def _failed(self, e: BaseException) -> None:
        self.error = self.error or e


def _assignment(key: str, value: Any) -> str:
    return f"{key}={value}" if isinstance(value, str) else f"{key}={json.dumps(plain(value))}"


def run_file(file: str | os.PathLike[str] | Mapping[str, Any], out: str | os.PathLike[str] | None = None, *, resume: bool = False,
             overwrite: bool = False, accept_changed: bool = False, budget_seconds: float = 0.0, progress: bool | None = None,
             **keys: Any) -> Run:
    """Runs a run file into a folder, as `sosmc run FILE --out FOLDER` does, with the same bytes, in this process.

    file is the path of a run file, or a dict of its keys. Further keywords change keys, as --set does:
    run_file("x.yaml", out="folder", **{"kernel.type": "mala"}). Ctrl-C stops with everything saved, and `resume` goes on.
    """
    changes = [_assignment(k, v) for k, v in keys.items()]
    if isinstance(file, Mapping):
        source = RunFile(file, name="run file", assignments=changes)
    else:
        source = RunFile(path=os.fspath(file), assignments=changes)
    where = ffi.new("char[]", os.fsencode(out)) if out is not None else ffi.NULL
    options = ffi.new("embed_options *", {"out": where, "resume": resume, "overwrite": overwrite, "accept_changed": accept_changed,
                                          "budget_seconds": budget_seconds})
    shown = Progress() if wanted(progress) else None
    result = ffi.gc(ffi.new("embed_result *"), lib.embed_result_free)
    with Interrupt() as interrupt:
        hooks = _Hooks(interrupt, shown)
        handle = ffi.new_handle(hooks)
        calls = ffi.new("embed_hooks *", {"stop": lib.sosmc_py_stop, "progress": lib.sosmc_py_progress, "log": lib.sosmc_py_log,
                                          "ctx": handle})
        try:
            status = lib.embed_run(source.pointer, options, calls, result)
        finally:
            if shown:
                shown.end()
    if hooks.error is not None:
        raise hooks.error
    if status == lib.EMBED_STOPPED:
        raise KeyboardInterrupt(text(result.message))
    if status != lib.EMBED_OK:
        raise embed_exception(status, text(result.message))
    run = load_run(text(result.directory))
    run.closing, run.against = text(result.closing), "\n".join([*hooks.sentences, text(result.against)]).strip()
    return run
