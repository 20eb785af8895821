#!/usr/bin/env bash
# mnist-rerun.sh [-b BUILD] [-s STATE] CHECKPOINT.npz [REWARD:BETA...]: the sweeps of the digits experiment with the random
# numbers of an independent re-run of the published program, by sosmc.
#
# PyTorch (SOSMC_TORCH_PYTHON, python3) draws start and noise from the seeds that the re-run recorded, `sosmc tune` gets
# both (tools/given_noise.c), and the networks are scored by the re-run's own chains: what is left between the two are the
# programs (docs/mnist.md). Twelve cells unless told, two to three minutes each on one core; STATE (BUILD/mnist-rerun) keeps
# what is done, and 3 GB of noise.
set -euo pipefail

usage() { sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2; }

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build state= python=${SOSMC_TORCH_PYTHON:-python3} particles=1000
while getopts 'b:s:' option; do
    case $option in
    b) build=$OPTARG ;;
    s) state=$OPTARG ;;
    *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -ge 1 ] || usage
[ -f "$1" ] || { echo "mnist-rerun.sh: there is no file $1; expected the published checkpoint" >&2; exit 2; }
checkpoint=$(realpath "$1")
shift
[ $# -gt 0 ] || set -- {bright,dark,half}:{5,2,1,0.5}
state=${state:-$build/mnist-rerun}
mkdir -p "$state"
peer=("$python" "$root/bench/peers/mnist_rerun.py" "$checkpoint")
declare -A scale=([bright]=1 [dark]=0.5 [half]=2) # the published program's, against the paper's

"$python" -c 'import torch' || { echo "mnist-rerun.sh: $python has no PyTorch; name one that has by SOSMC_TORCH_PYTHON" >&2; exit 2; }
cmake --build "$build" --target sosmc_given_noise >"$state/build.log" || { tail -n 20 "$state/build.log"; exit 2; }
[ -f "$state/drawn" ] || { "${peer[@]}" --draw "$state" && touch "$state/drawn"; }
for cell in "$@"; do
    reward=${cell%%:*} beta=${cell#*:} out=$state/${cell/:/-}
    [ -n "${scale[$reward]:-}" ] || { echo "mnist-rerun.sh: '$cell'; expected bright, dark or half, a colon and beta" >&2; exit 2; }
    [ -f "$out/done" ] || SOSMC_NOISE=$state/noise.f32 SOSMC_NOISE_PARTICLES=$particles "$build/sosmc_given_noise" tune "$checkpoint" \
        --network mnist --reward "$reward" --reward-scale "${scale[$reward]}" --beta "$beta" --particles $particles \
        --start "$state/start.npz" --set evaluate.every=0 --out "$out" --overwrite --quiet >"$out.log" 2>&1 ||
        { tail -n 3 "$out.log" >&2; exit 1; }
    touch "$out/done"
    "${peer[@]}" --score "$out/model.npz" --reward "$reward" --beta "$beta"
done
