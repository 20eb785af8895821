#!/usr/bin/env bash
# 30-matrix.sh: the wider matrix of builds (tools/matrix.sh): other levels of optimisation, -march=native, link-time
# optimisation, and every other gcc and clang that is installed. One build after the other, as time allows; LONG_STATE/done
# remembers those of this run that agreed with the first, whose hashes are in LONG_STATE/hashes.
set -euo pipefail
: "${LONG_STATE:?}" "${LONG_SECONDS:?}"

end=$((SECONDS + LONG_SECONDS))
state=$LONG_STATE/builds
mkdir -p "$state"
touch "$LONG_STATE/done"

# The program behind a compiler's name: gcc may be gcc-12 itself, and need not be built with twice.
program() { readlink -f "$(command -v "$1" || echo none)"; }

variants()
{
    local compiler flags main
    main=(gcc "$(basename "$(command -v clang-14 || command -v clang || echo none)")")
    for compiler in "${main[@]}"; do
        command -v "$compiler" >/dev/null || continue
        for flags in -O2 -O0 -O1 -O3 '-O2 -march=native' '-O2 -flto'; do echo "$compiler $flags"; done
    done
    for compiler in gcc-11 gcc-12 gcc-13 gcc-14 clang-13 clang-15 clang-16 clang-17 clang-18; do
        command -v "$compiler" >/dev/null || continue
        case $(program "$compiler") in
        "$(program "${main[0]}")" | "$(program "${main[1]}")") ;;
        *) echo "$compiler -O2" ;;
        esac
    done
}

summary()
{
    local all agreed
    all=$(variants | wc -l) agreed=$(wc -l <"$LONG_STATE/done")
    echo "- matrix: $agreed of $all builds agree with each other at every vector level: $(paste -sd, "$LONG_STATE/done" | sed 's/,/, /g')" \
        >"$LONG_STATE/summary"
}

while read -r variant; do
    grep -qxF "$variant" "$LONG_STATE/done" && continue
    [ $SECONDS -lt "$end" ] || { summary; exit 75; }
    if ! tools/matrix.sh -s "$state" -p "$variant" | tee "$LONG_STATE/last"; then
        echo "- matrix: $(tail -n 1 "$LONG_STATE/last")" >"$LONG_STATE/summary"
        exit 1
    fi
    hashes=$(sed 's/.*: //' "$LONG_STATE/last" | sort -u)
    [ -s "$LONG_STATE/hashes" ] && [ -s "$LONG_STATE/done" ] || echo "$hashes" >"$LONG_STATE/hashes"
    if [ "$hashes" != "$(cat "$LONG_STATE/hashes")" ]; then
        echo "- matrix: $variant gives $hashes, others $(cat "$LONG_STATE/hashes")" >"$LONG_STATE/summary"
        exit 1
    fi
    echo "$variant" >>"$LONG_STATE/done"
    rm -rf "$state"
done < <(variants)
summary
rm -f "$LONG_STATE/done"
