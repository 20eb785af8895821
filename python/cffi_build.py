"""Writes the C source of the extension module sosmc._c from the library's own headers.

    cffi_build.py CC OUT.c HEADER_FOLDER...

The headers are run through the C preprocessor, with everything that cffi cannot read left out, and given to cffi: every struct,
enum and function of the library is then known to Python, and the C compiler checks each of them. There is no list of
declarations to keep up to date. CMake calls this; nobody else needs to.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
import tempfile

import cffi

HEADERS = ["sosmc/sosmc.h", "sosmc/analysis.h", "sosmc/judge.h", "sosmc/solve.h", "sosmc/models.h", "sosmc/expression.h",
           "binding.h", "embed/embed.h"]

# The functions whose bodies are Python.
CALLBACKS = pathlib.Path(__file__).with_name("callbacks.h")


def declarations(compiler: list[str], folders: list[str]) -> str:
    """The headers as cffi can read them: no directives, no attributes, no system headers."""
    with tempfile.TemporaryDirectory() as scratch:
        for name in ["stddef.h", "stdint.h", "stdio.h"]:
            (pathlib.Path(scratch) / name).write_text("")
        source = pathlib.Path(scratch) / "all.c"
        source.write_text("".join(f"#include <{name}>\n" for name in HEADERS))
        command = [*compiler, "-E", "-P", "-nostdinc", "-U__GNUC__", f"-I{scratch}", *[f"-I{f}" for f in folders], str(source)]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    compiler, out, *folders = sys.argv[1:]
    ffi = cffi.FFI()
    ffi.cdef(declarations(compiler.split(), folders))
    callbacks = "".join(line for line in CALLBACKS.read_text().splitlines(keepends=True) if not line.startswith("#"))
    ffi.cdef(f'extern "Python+C" {{ {callbacks} }}')
    ffi.set_source("sosmc._c", "".join(f"#include <{name}>\n" for name in HEADERS), py_limited_api=True)
    ffi.emit_c_code(out)
    pathlib.Path(out).touch()  # cffi leaves a file that is right already as it is, and it would seem older than the headers


if __name__ == "__main__":
    main()
