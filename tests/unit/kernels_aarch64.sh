#!/bin/sh
# Compiles the pure code of core and kernels and a test program for 64-bit ARM, and runs it under
# emulation.
#   kernels_aarch64.sh <root> <folder for the program> <source of the program> [<argument>...]
# Without the tools it is skipped (77), but in CI, where scripts/deps has installed them, it fails.
set -eu
root=$1 build=$2 source=$3
shift 3
compiler=aarch64-linux-gnu-gcc emulator=qemu-aarch64

for tool in $compiler $emulator; do
    command -v $tool >/dev/null 2>&1 && continue
    echo "$tool is missing; scripts/deps installs it on Debian" >&2
    case ${CI:-} in '' | 0 | false) exit 77 ;; *) exit 1 ;; esac
done

mkdir -p "$build"
# Static: the emulator then needs no ARM libraries.
$compiler -static -std=c11 -O3 -fno-fast-math -ffp-contract=off -Wall -Wextra -Wpedantic -Werror \
    -I"$root/src" -I"$root/include" "$root"/src/core/*.c "$root"/src/kernels/*.c \
    "$root/src/os/cpu.c" "$source" -lm -o "$build/kernels_aarch64"
exec $emulator "$build/kernels_aarch64" "$@"
