#!/usr/bin/env bash
# builds.sh BUILD: flags that would change the arithmetic are refused when the build is configured, each with a sentence; and what was
# built in BUILD, where that is a release, is hardened, and runs on older systems too.
set -euo pipefail
build=$1
source=${SOSMC_TEST_SOURCE:?}/..
cmake=${CMAKE:-cmake}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wrong=0

fault()
{
    echo "$*"
    wrong=1
}

# configure WHAT ENVIRONMENT... -- FLAGS...: sosmc configured in an empty folder; the words go to $work/words
configure()
{
    rm -rf "$work/tree"
    local given=()
    while [ "$1" != -- ]; do given+=("$1") && shift; done
    shift
    env "${given[@]}" "$cmake" -S "$source" -B "$work/tree" -DSOSMC_BUILD_TESTS=OFF -DSOSMC_BUILD_PROGRAM=OFF "$@" >"$work/words" 2>&1
}

# refused SENTENCE ENVIRONMENT... -- FLAGS...
refused()
{
    local sentence=$1
    shift
    if configure "$@"; then
        fault "a build with $* was accepted"
    elif ! tr -s ' \n' ' ' <"$work/words" | grep -q -e "$sentence"; then
        fault "a build with $* was refused without the words '$sentence':"
        tail -n 8 "$work/words"
    fi
}

compiler=${CC:-cc}
refused 'sosmc: the flags contain -ffast-math' CC="$compiler" CFLAGS=-ffast-math --
refused 'sosmc: the flags contain -Ofast' CC="$compiler" -- -DCMAKE_C_FLAGS_RELEASE=-Ofast
printf '#!/bin/sh\nexec %s -ffinite-math-only "$@"\n' "$compiler" >"$work/cc"
chmod +x "$work/cc"
refused 'does not compute doubles as IEEE doubles' CC="$work/cc" --
case $(uname -m) in
    x86_64)
        refused 'sosmc: the flags contain -mfpmath=387' CC="$compiler" CFLAGS='-O2 -mfpmath=387' --
        printf '#!/bin/sh\nexec %s -mfpmath=387 "$@"\n' "$compiler" >"$work/cc"
        refused 'uses the x87' CC="$work/cc" --
        ;;
esac
# A distribution's build type is hardened as a release is, by every flag that its compiler knows.
configure CC="$compiler" -- -DCMAKE_BUILD_TYPE=RelWithDebInfo || fault "RelWithDebInfo was refused: $(tail -n 5 "$work/words")"
printf '#include <string.h>\nint main(void) { return 0; }\n' >"$work/flag.c"
for flag in -fstack-protector-strong -fstack-clash-protection -fcf-protection -ftrivial-auto-var-init=zero -D_FORTIFY_SOURCE=3; do
    "$compiler" -O2 -Werror -U_FORTIFY_SOURCE "$flag" -c "$work/flag.c" -o "$work/flag.o" 2>/dev/null || continue
    if [ "$flag" = -ftrivial-auto-var-init=zero ]; then # a compiler that damages variables with it (cmake/zeroed.c) does not get it
        "$compiler" "$flag" "$source/cmake/zeroed.c" -o "$work/zeroed" && "$work/zeroed" || continue
    fi
    missing=$(grep '"command"' "$work/tree/compile_commands.json" | grep -vc -e " $flag" || true)
    [ "$missing" = 0 ] || fault "RelWithDebInfo compiles $missing files without $flag"
done
configure CC="$compiler" CFLAGS='-O2 -march=native' -- || fault "a build with -O2 -march=native was refused: $(tail -n 5 "$work/words")"

# hardened FILE: position independent, canaries, checked calls, read-only tables
hardened()
{
    readelf -hlW "$1" >"$work/head"
    readelf -dW "$1" >"$work/dynamic"
    readelf -sW "$1" >"$work/symbols"
    grep -q 'Type: *DYN' "$work/head" || fault "$1 is not position independent"
    grep -q GNU_RELRO "$work/head" || fault "$1 has no read-only tables (RELRO)"
    grep -Eq 'BIND_NOW|FLAGS_1.*NOW' "$work/dynamic" || fault "$1 binds late, so its tables stay writable (BIND_NOW)"
    grep -q __stack_chk_fail "$work/symbols" || fault "$1 has no stack protector"
    grep -Eq '__[a-z]+_chk' "$work/symbols" || fault "$1 has no checked calls (_FORTIFY_SOURCE)"
    if grep -q 'GNU_STACK.*RWE' "$work/head"; then fault "$1 has an executable stack"; fi
}

if grep -Eq '^CMAKE_BUILD_TYPE:STRING=(Release|RelWithDebInfo|MinSizeRel)$' "$build/CMakeCache.txt"; then
    command -v readelf >/dev/null || { echo "readelf is missing (Debian: apt-get install binutils)"; exit 1; }
    for file in "$build"/libsosmc.so "$build"/sosmc "$build"/sosmc-paper; do
        [ ! -e "$file" ] || hardened "$file"
    done
fi

# Programs and modules run on systems with glibc 2.34 and later. Newer headers name newer symbols for old functions, which is no fault
# of ours: there nothing is looked at.
glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null | awk '{ print $2 }')
if [ -n "$glibc" ] && [ "$(printf '%s\n2.36\n' "$glibc" | sort -V | tail -n 1)" = 2.36 ] && command -v readelf >/dev/null; then
    for file in "$build"/libsosmc.so "$build"/sosmc "$build"/sosmc-paper; do
        [ -e "$file" ] || continue
        newest=$(readelf -VW "$file" | grep -o 'GLIBC_2\.[0-9]*' | sort -V | tail -n 1)
        [ "$(printf '%s\nGLIBC_2.34\n' "$newest" | sort -V | tail -n 1)" = GLIBC_2.34 ] || fault "$file needs $newest; expected 2.34 or older"
    done
    if nm "$build/libsosmc.a" 2>/dev/null | grep -q '__cpu_'; then fault "libsosmc.a asks the compiler's library about the processor"; fi
else
    echo "the versions of symbols are not looked at: glibc ${glibc:-unknown}"
fi
exit $wrong
