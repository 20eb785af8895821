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

# What the C functions of binding.c call. The bodies are Python functions (sosmc/_calls.py).
CALLBACKS = """
extern "Python" {
int sosmc_py_energy(void *self, intptr_t theta, intptr_t x, int n, int ld, intptr_t U, intptr_t gx, int64_t pass);
int sosmc_py_grad_theta(void *self, intptr_t theta, intptr_t x, int n, int ld, intptr_t c, intptr_t g, int64_t pass);
int sosmc_py_scores(void *self, intptr_t theta, intptr_t x, int n, int ld, intptr_t D, int64_t pass);
int sosmc_py_prox(void *self, intptr_t theta, double lambda, intptr_t x, int n, int ld, intptr_t p);
int sosmc_py_reward(void *self, intptr_t x, int n, int ld, intptr_t s);
int sosmc_py_draw(void *self, intptr_t rng, intptr_t batch, intptr_t x, int n, int ld, int64_t first);
int sosmc_py_logpdf(void *self, intptr_t x, int n, int ld, intptr_t lq);
int sosmc_py_see(void *self);
int sosmc_py_see_solver(void *self, intptr_t info);
int sosmc_py_stop(void *self);
void sosmc_py_progress(void *self, const embed_progress *p);
void sosmc_py_log(void *self, const char *sentence);
}
"""


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
    ffi.cdef(CALLBACKS.replace('extern "Python" {', 'extern "Python+C" {'))
    ffi.set_source("sosmc._c", "".join(f"#include <{name}>\n" for name in HEADERS), py_limited_api=True)
    ffi.emit_c_code(out)


if __name__ == "__main__":
    main()
