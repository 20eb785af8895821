"""Run folders that `sosmc report` understands, written from a result and read again."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ._c import ffi, lib
from ._errors import FileError, embed_exception, text

if TYPE_CHECKING:
    from .result import Number, Result

_OURS = ("run.yaml", "trace.csv", "timing.csv", "theta.npy", "particles.npz", "summary.json", "report.html", "figures", "checkpoint",
         "checkpoint.previous", "inputs.json", "evaluation.csv")


def _value(x: float | None) -> float | None:
    return None if x is None or not np.isfinite(x) else float(x)


def _put(out: dict[str, Any], name: str, n: Number) -> None:
    if not np.isfinite(n.value) and not n.why:
        return
    out[name], out[name + "_error"] = _value(n.value), _value(n.error)
    if np.isfinite(n.value):
        out[name + "_from"] = "judged"
    if n.why:
        out[name + "_why"] = n.why


def summary(result: Result) -> dict[str, Any]:
    """The contents of summary.json."""
    j, values = result.judgement, result.values
    status = "not_converged" if j is None else j.verdict.replace(" ", "_")
    out: dict[str, Any] = {
        "version": text(lib.sosmc_version()), "settings": values["settings"], "finished": not result.stopped, "iterations": result.nit,
        "verdict": {"status": status, "judged": j is not None, "reasons": result.reasons}, "warnings": [],
        "model": result.model.name, "objective": values["objective"]["type"], "method": _method(result),
        "theta": result.theta_flat.tolist(), "theta_names": result.model.names,
    }
    for name, array, why in [("theta_mc_error", j.mc_error if j else None, result.why_no_mc_error),
                             ("theta_standard_error", j.standard_error if j else None, result.why_no_stderr)]:
        out[name] = None if array is None else array.tolist()
        if array is None:
            out[name + "_why"] = why
    out["theta_low"] = None if j is None or j.low is None else j.low.tolist()
    out["theta_high"] = None if j is None or j.high is None else j.high.tolist()
    for name, number in [("loss", result.fun), ("reward", result.reward), ("kl", result.kl), ("log_z", result.logz)]:
        _put(out, name, number)
    if j is not None and np.isfinite(j.aic):
        out["aic"] = j.aic
    if j is not None and np.isfinite(j.bic):
        out["bic"] = j.bic
    out["particles"] = 0 if result.particles is None else len(result.particles)
    out.update({k: _value(v) if isinstance(v, float) else v for k, v in result.last.items()})
    out["seed"], out["state_hash"] = values["seed"], result.hash
    return out


def _method(result: Result) -> str:
    if result.automatic:
        return "the solver"
    v = result.values
    return ", ".join(v[key]["type"] for key in ("scheme", "kernel", "optimiser") if key in v)


def _csv(path: Path, columns: dict[str, Any]) -> None:
    arrays = list(columns.values())
    with open(path, "w", encoding="ascii") as f:
        f.write(",".join(columns) + "\n")
        for row in zip(*(a.tolist() for a in arrays)):
            f.write(",".join(str(v) if isinstance(v, int) else "" if v != v else f"{v:.17g}" for v in row) + "\n")


def _fill(result: Result, folder: Path, report: bool) -> None:
    (folder / "run.yaml").write_text(result.settings, encoding="utf-8")
    first = next(iter(result.trace))
    _csv(folder / "trace.csv", {k: v for k, v in result.trace.items() if k != "seconds"})
    seconds = result.trace.get("seconds", np.zeros(len(result.trace[first])))
    _csv(folder / "timing.csv", {first: result.trace[first], "seconds": np.cumsum(seconds)})
    np.save(folder / "theta.npy", result.theta_flat)
    if result.particles is not None and result.log_weights is not None:
        np.savez(folder / "particles.npz", x=result.particles, logw=result.log_weights)
    (folder / "summary.json").write_text(json.dumps(summary(result), indent=2) + "\n", encoding="utf-8")
    if report:
        error = ffi.new("char[]", 2048)
        status = lib.embed_report(os.fsencode(folder), error, 2048)
        if status != lib.EMBED_OK:
            raise embed_exception(status, text(error))


def save(result: Result, folder: str | os.PathLike[str], overwrite: bool, report: bool) -> None:
    """Everything is written beside the folder first, and takes its place only when it is whole. A folder that is there is locked."""
    target = Path(folder)
    there = target.exists() and (not target.is_dir() or any(target.iterdir()))
    if there and not (overwrite and target.is_dir()):
        raise FileExistsError(f"{target} is already there; overwrite=True replaces the run in it")
    with _claim(target) if there else nullcontext():
        _write(result, target, there, report)


def _claim(target: Path) -> Any:
    """The lock of a folder whose run is replaced; a sentence where somebody else writes there, or a file is there that no run made."""
    out, ours, error = ffi.new("embed_claim **"), ffi.new("int *"), ffi.new("char[]", 2048)
    status = lib.embed_claim_take(out, os.fsencode(target), ours, error, 2048)
    claim = ffi.gc(out[0], lib.embed_claim_free)
    if status != lib.EMBED_OK:
        raise embed_exception(status, text(error))
    foreign = [] if ours[0] else [name for name in _OURS if os.path.lexists(target / name)]
    if foreign:
        ffi.release(claim)
        raise FileExistsError(f"{target / foreign[0]} is there, and no run made it; choose another folder")
    return claim


def _write(result: Result, target: Path, there: bool, report: bool) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".sosmc-", dir=target.parent))
    try:
        scratch.chmod(0o777 & ~_umask())
        _fill(result, scratch, report)
        if there:
            for name in _OURS:
                _remove(target / name)
            for item in scratch.iterdir():
                os.replace(item, target / item.name)
        else:
            os.replace(scratch, target)
    except OSError as e:
        raise FileError(f"cannot write {target}: {e}") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
