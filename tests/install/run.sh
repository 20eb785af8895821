#!/usr/bin/env bash
# run.sh BUILD: installs the library built in BUILD into a scratch prefix, moves the prefix, and builds programs against
# it through find_package and through pkg-config, shared and static, in C and in C++. Every program must also run.
set -euo pipefail

build=$(cd "$1" && pwd)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
example=$here/../../examples/01_gaussian.c
cmake=${CMAKE:-cmake}
cc=${CC:-cc}
cxx=${CXX:-}
case $cxx in *NOTFOUND) cxx= ;; esac

scratch=$build/tests/install
rm -rf "$scratch"
mkdir -p "$scratch"
cd "$scratch"

step() { printf -- '-- %s\n' "$*"; }

step 'install, then move the tree: nothing in it may remember where it was'
"$cmake" --install "$build" --prefix "$scratch/first" >install.log
mv first prefix
prefix=$scratch/prefix

library=$(find "$prefix" -name libsosmc.so)
libdir=$(dirname "$library")
headers='sosmc models networks imaging analysis lattice judge solve'
for header in $headers; do
    test -f "$prefix/include/sosmc/$header.h" || { echo "not installed: $header.h"; exit 1; }
done
for file in "$libdir/libsosmc.a" "$libdir/pkgconfig/sosmc.pc" "$libdir/cmake/sosmc/sosmc-config.cmake"; do
    test -f "$file" || { echo "not installed: $file"; exit 1; }
done

test -n "$(find "$prefix" -name LICENSE)" || { echo 'not installed: LICENSE'; exit 1; }

if command -v nm >/dev/null; then
    step 'the shared library shows its public names and nothing else'
    strays=$(nm -D --defined-only "$library" | awk '{ print $NF }' | grep -vE '^sosmc_' || true)
    strays+=$(nm -D --defined-only "$library" | awk '{ print $NF }' | grep -E '^sosmc_i_' || true)
    test -z "$strays" || { echo "exported by mistake: $strays"; exit 1; }
fi

if command -v nm >/dev/null; then
    step 'a module that the static library is part of shows none of its names'
    printf '#include <sosmc/sosmc.h>\n__attribute__((visibility("default"))) const char *module(void) { return sosmc_version(); }\n' >module.c
    "$cc" -shared -fPIC -fvisibility=hidden -DSOSMC_STATIC -I"$prefix/include" module.c -o module.so \
        -Wl,--whole-archive "$libdir/libsosmc.a" -Wl,--no-whole-archive -lm -lpthread
    shown=$(nm -D --defined-only module.so | awk '{ print $NF }' | grep -v '^_' | tr '\n' ' ')
    test "$shown" = 'module ' || { echo "a module with the static library shows: $shown"; exit 1; }
fi

if test -x "$prefix/bin/sosmc"; then
    step 'the program finds the files that were installed with it, and no others'
    reproduce() { env -u SOSMC_SHARE "$prefix/bin/sosmc" reproduce deblurring --quick --seeds 1 --quiet --out "$1" >"$1.log" 2>&1; }
    reproduce found || { cat found.log; echo 'reproduce does not find the run files that were installed'; exit 1; }
    rm "$prefix"/share/sosmc/deblurring/*.yaml
    if reproduce none; then echo "reproduce finds run files outside of the installed tree"; exit 1; fi
    grep -q "no folder with" none.log || { cat none.log; exit 1; }
fi

step 'find_package'
"$cmake" -S "$here" -B consumer -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" \
    ${cxx:+-DCMAKE_CXX_COMPILER="$cxx"} -DEXAMPLE="$example" >configure.log
"$cmake" --build consumer >build.log || { cat build.log; exit 1; }
(cd consumer && "${cmake%cmake}ctest" --output-on-failure --no-tests=error)

if ! command -v pkg-config >/dev/null; then
    echo 'pkg-config is not here: that half is skipped'
    exit 0
fi

export PKG_CONFIG_PATH=$libdir/pkgconfig
export LD_LIBRARY_PATH=$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
strict='-Wall -Wextra -pedantic -Werror'
programs=("$here/consumer.c")
test -f "$example" && programs+=("$example")

header=$(sed -n 's/^#define SOSMC_VERSION "\(.*\)"/\1/p' "$prefix/include/sosmc/sosmc.h")
test "$(pkg-config --modversion sosmc)" = "$header"

step 'pkg-config, shared'
for program in "${programs[@]}"; do
    "$cc" -std=c11 "$program" -o pc-shared $(pkg-config --cflags --libs sosmc)
    ./pc-shared
done

step 'pkg-config, static'
static=$(pkg-config --static --libs sosmc | sed 's/-lsosmc/-Wl,-Bstatic -lsosmc -Wl,-Bdynamic/')
for program in "${programs[@]}"; do
    "$cc" -std=c11 "$program" -o pc-static $(pkg-config --cflags sosmc) $static
    env -u LD_LIBRARY_PATH ./pc-static
done

step 'the headers, strictly, each on its own; programs written for the former ones'
for std in c99 c11; do
    "$cc" -std=$std $strict $(pkg-config --cflags sosmc) -c "$here/consumer.c" -o strict.o
    for header in $headers; do
        printf '#include <sosmc/%s.h>\nint main(void) { return 0; }\n' "$header" >alone.c
        "$cc" -std=$std $strict $(pkg-config --cflags sosmc) -c alone.c -o alone.o
    done
    "$cc" -std=$std $strict $(pkg-config --cflags sosmc) -c "$here/former.c" -o former.o
done

if test -n "$cxx"; then
    step 'pkg-config from C++'
    "$cxx" -std=c++11 $strict "$here/consumer.cpp" -o pc-cxx $(pkg-config --cflags --libs sosmc)
    ./pc-cxx
fi
