#!/bin/sh
# deps.sh GROUP...: installs what the groups need and this machine lacks; a quick no-op when nothing is missing.
#
#   build     compiler, libc headers, cmake, make; for the program: libyaml, Jansson, zlib, libpng,
#             libjpeg, gnuplot; tar with gzip, which `sosmc fetch` starts
#   test      build, cmocka, Python with venv (for NumPy and safetensors), and what the install test uses: pkg-config,
#             a C++ compiler
#   python    Python with venv and headers, for the Python package
#   torch     Debian's PyTorch, for the tests of the Python package
#   lint      clang-format, clang-tidy, cppcheck
#   clang     clang with its runtimes, for the fuzzers and the matrix of compilers
#
# Installs through apt-get as root or with password-less sudo. Otherwise prints the command to run, and fails.
set -eu

missing=
need() # PACKAGE TEST...: the package is missing when the test fails
{
    package=$1
    shift
    "$@" >/dev/null 2>&1 || missing="$missing $package"
}

have_header() # HEADER: the preprocessor finds it; cmocka.h wants its friends first
{
    printf '#include <stdarg.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <setjmp.h>\n#include <%s>\n' "$1" |
        "${CC:-cc}" -E -x c - >/dev/null 2>&1
}

have_python_headers()
{
    python3 -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")))'
}

either() # COMMAND COMMAND: one of them exists
{
    command -v "$1" || command -v "$2"
}

# The runtimes of the clang that there is, or that "clang" would install: Debian numbers their package.
clang_runtimes()
{
    number=$(clang-14 -dumpversion 2>/dev/null || clang -dumpversion 2>/dev/null ||
        apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p')
    number=${number%%.*}
    echo "libclang-rt-${number:-14}-dev"
}

clang_fuzzes()
{
    compiler=$(command -v clang-14 || command -v clang) || return 1
    echo 'int LLVMFuzzerTestOneInput(const char *data, unsigned long n) { return data && n ? 0 : 0; }' |
        "$compiler" -fsanitize=fuzzer,address -x c - -o /dev/null
}

group_build()
{
    need gcc command -v "${CC:-cc}"
    need libc6-dev have_header stdio.h
    need cmake command -v cmake
    need make either make ninja
    need libyaml-dev have_header yaml.h
    need libjansson-dev have_header jansson.h
    need zlib1g-dev have_header zlib.h
    need libpng-dev have_header png.h
    need libjpeg62-turbo-dev have_header jpeglib.h
    need gnuplot-nox command -v gnuplot
    need tar command -v tar
    need gzip command -v gzip
}

for group in "$@"; do
    case $group in
    build)
        group_build
        ;;
    test)
        group_build
        need libcmocka-dev have_header cmocka.h
        need pkg-config command -v pkg-config
        need g++ command -v "${CXX:-c++}"
        need python3 command -v python3
        need python3-venv python3 -c 'import ensurepip, venv'
        need python3-dev have_python_headers
        ;;
    python)
        need python3 command -v python3
        need python3-venv python3 -c 'import ensurepip, venv'
        need python3-dev have_python_headers
        ;;
    torch)
        need python3-torch /usr/bin/python3 -c 'import torch'
        need python3-venv /usr/bin/python3 -c 'import ensurepip, venv'
        ;;
    lint)
        need clang-format either clang-format-14 clang-format
        need clang-tidy either clang-tidy-14 clang-tidy
        need cppcheck command -v cppcheck
        ;;
    clang)
        group_build
        need clang either clang-14 clang
        need "$(clang_runtimes)" clang_fuzzes
        ;;
    *)
        echo "deps.sh: unknown group '$group'; the groups are build, test, python, torch, lint, clang" >&2
        exit 2
        ;;
    esac
done

missing=$(printf '%s\n' $missing | sort -u | tr '\n' ' ')
missing=${missing% }
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "Please install these (Debian's names) with your system's package manager, then try again: $missing" >&2
    exit 1
fi

if [ "$(id -u)" -eq 0 ]; then
    as_root=
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    as_root='sudo -n'
else
    echo "Some packages are missing. Please run:" >&2
    echo "    sudo apt-get update && sudo apt-get install -y --no-install-recommends $missing" >&2
    exit 1
fi

echo "Installing: $missing"
{
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 update -qq &&
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends $missing
} </dev/null || {
    echo "That failed. By hand:" >&2
    echo "    sudo apt-get update && sudo apt-get install -y --no-install-recommends $missing" >&2
    exit 1
}
