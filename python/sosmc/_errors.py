"""Exceptions, and how a status of the library becomes one."""

from __future__ import annotations

from ._c import ffi, lib


class SosmcError(Exception):
    """What all exceptions of this package have in common."""


class ModelError(SosmcError, RuntimeError):
    """A function of a model failed without an exception of its own."""


class NumericError(SosmcError, ArithmeticError):
    """Values that are not finite, particles without weight, or weights that have collapsed."""


class SettingError(SosmcError, ValueError):
    """A setting that is not allowed; the sentence names it, its value and what was expected."""


class FileError(SosmcError, OSError):
    """A file that could not be read or written, or a folder that somebody else writes to."""


_CLASSES: dict[int, type[Exception]] = {
    lib.SOSMC_EINVAL: SettingError,
    lib.SOSMC_ENOMEM: MemoryError,
    lib.SOSMC_EMODEL: ModelError,
    lib.SOSMC_ENUMERIC: NumericError,
    lib.SOSMC_EIO: FileError,
    lib.SOSMC_ECOMM: FileError,
}


def text(c: object) -> str:
    """A C string as a str; "" for NULL."""
    return ffi.string(c).decode("utf-8", "replace") if c != ffi.NULL else ""


def exception(status: int, sentence: str) -> Exception:
    """The exception that stands for a status which is neither SOSMC_OK nor SOSMC_STOPPED."""
    return _CLASSES.get(status, SosmcError)(sentence or text(lib.sosmc_status_name(status)))


_EMBED: dict[int, type[Exception]] = {
    lib.EMBED_EUSAGE: SettingError,
    lib.EMBED_ENUMERIC: NumericError,
    lib.EMBED_EIO: FileError,
    lib.EMBED_EBUSY: FileError,
}


def embed_exception(status: int, sentence: str) -> Exception:
    """The same for a status of the run files."""
    return _EMBED.get(status, SosmcError)(sentence)
