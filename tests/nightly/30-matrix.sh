#!/usr/bin/env bash
# 30-matrix.sh: the wider matrix of builds (tools/matrix.sh): other levels of optimisation, -march=native, link-time
# optimisation, and every other gcc and clang that is installed. One build after the other, as time allows; NIGHTLY_STATE/done
# remembers those of this run that agreed with the first, whose hashes are in NIGHTLY_STATE/hashes.
set -euo pipefail
: "${NIGHTLY_STATE:?}" "${NIGHTLY_SECONDS:?}"

end=$((SECONDS + NIGHTLY_SECONDS))
state=$NIGHTLY_STATE/builds
mkdir -p "$state"
touch "$NIGHTLY_STATE/done"

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
    all=$(variants | wc -l) agreed=$(wc -l <"$NIGHTLY_STATE/done")
    echo "- matrix: $agreed of $all builds agree with each other at every vector level: $(paste -sd, "$NIGHTLY_STATE/done" | sed 's/,/, /g')" \
        >"$NIGHTLY_STATE/summary"
}

while read -r variant; do
    grep -qxF "$variant" "$NIGHTLY_STATE/done" && continue
    [ $SECONDS -lt "$end" ] || { summary; exit 75; }
    if ! tools/matrix.sh -s "$state" -p "$variant" | tee "$NIGHTLY_STATE/last"; then
        echo "- matrix: $(tail -n 1 "$NIGHTLY_STATE/last")" >"$NIGHTLY_STATE/summary"
        exit 1
    fi
    hashes=$(sed 's/.*: //' "$NIGHTLY_STATE/last" | sort -u)
    [ -s "$NIGHTLY_STATE/hashes" ] && [ -s "$NIGHTLY_STATE/done" ] || echo "$hashes" >"$NIGHTLY_STATE/hashes"
    if [ "$hashes" != "$(cat "$NIGHTLY_STATE/hashes")" ]; then
        echo "- matrix: $variant gives $hashes, others $(cat "$NIGHTLY_STATE/hashes")" >"$NIGHTLY_STATE/summary"
        exit 1
    fi
    echo "$variant" >>"$NIGHTLY_STATE/done"
    rm -rf "$state"
done < <(variants)
summary
rm -f "$NIGHTLY_STATE/done"
