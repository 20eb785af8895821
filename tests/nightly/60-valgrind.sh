#!/usr/bin/env bash
# valgrind on the examples, each at a small size: C programs as they are, run files with few particles and iterations.
# Files that are done are remembered, so that a round can take several calls.
set -uo pipefail
command -v valgrind >/dev/null || { mkdir -p "$NIGHTLY_STATE"; echo "valgrind is not installed: skipped" >"$NIGHTLY_STATE/summary"; exit 0; }
mkdir -p "$NIGHTLY_STATE/out"
touch "$NIGHTLY_STATE/done"
end=$((SECONDS + NIGHTLY_SECONDS))
# Vector levels that valgrind does not know are left out; leaks of what libraries keep until the end are no errors.
watch=(valgrind --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite)
export SOSMC_SIMD=avx2

# $1: name; the rest: command. 0: passed or done before.
examine()
{
    local name=$1 code
    shift
    grep -qx "$name" "$NIGHTLY_STATE/done" && return 0
    [ $((end - SECONDS)) -gt 20 ] || exit 75
    timeout $((end - SECONDS)) "${watch[@]}" "$@" >"$NIGHTLY_STATE/out/log" 2>&1
    code=$?
    [ $code -eq 124 ] && exit 75
    if [ $code -ne 0 ]; then
        echo "$name: exit code $code"
        tail -30 "$NIGHTLY_STATE/out/log"
        echo "$name failed under valgrind (exit code $code)" >"$NIGHTLY_STATE/summary"
        exit 1
    fi
    echo "$name" >>"$NIGHTLY_STATE/done"
}

for file in examples/*.yaml; do
    name=$(basename "$file" .yaml)
    small=(--set settings=explicit --set particles=20 --set iterations=3 --set output.report=false)
    grep -qE '^(kernel|scheme|optimiser|iterations|settings: paper)' "$file" ||
        small=(--set particles=128 --set limits.evaluations=20000 --set output.report=false)
    grep -q '^evaluate' "$file" && small+=(--set evaluate.every=0)
    [ -x "$NIGHTLY_BUILD/sosmc" ] || break
    command=("$NIGHTLY_BUILD/sosmc" run "$file" --out "$NIGHTLY_STATE/out/$name" --overwrite --quiet "${small[@]}")
    # Some begin with the particles of another example's run, which is not there.
    "${command[@]}" >"$NIGHTLY_STATE/out/log" 2>&1
    [ $? -eq 4 ] && grep -q 'No such file' "$NIGHTLY_STATE/out/log" && continue
    examine "$name" "${command[@]}"
done
for program in "$NIGHTLY_BUILD"/examples/[0-9]*; do
    [ -f "$program" ] && [ -x "$program" ] && examine "$(basename "$program")" "$program"
done
count=$(sort -u "$NIGHTLY_STATE/done" | wc -l)
echo "$count examples without an error or a lost block under valgrind" >"$NIGHTLY_STATE/summary"
rm -rf "$NIGHTLY_STATE/done" "$NIGHTLY_STATE/out"
