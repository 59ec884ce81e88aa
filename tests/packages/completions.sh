#!/bin/bash
# Checks the completions of bash and fish with these shells, and the syntax of the one of zsh.
#
#   completions.sh PROGRAM
set -euo pipefail
program=$(realpath "$1")
cd "$(dirname "$0")/../.."
names=$(mktemp -d)
trap 'rm -r "$names"' EXIT
for name in pccl pccl-perf; do ln -s "$program" "$names/$name"; done
PATH=$names:$PATH
export PATH

fail() {
    echo "completions.sh: $*" >&2
    exit 1
}

# <shell> <line> <expected words>: the line ends where the user wants a completion.
check() {
    local found word
    found=$("complete_with_$1" "$2")
    for word in $3; do
        grep -qx -e "$word" <<<"$found" || fail "$1: '$2': no '$word' in: $found"
    done
    ! grep -qx -e "$4" <<<"$found" || fail "$1: '$2': '$4' does not belong to: $found"
}

complete_with_bash() {
    bash -c '. packaging/completions/pccl.bash
        read -ra COMP_WORDS <<<"$1"
        [ "${1% }" = "$1" ] || COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _pccl "${COMP_WORDS[0]}"
        printf "%s\n" "${COMPREPLY[@]}"' bash "$1"
}

complete_with_fish() {
    fish --no-config -c 'source packaging/completions/pccl.fish; complete --do-complete $argv[1]' "$1" | cut -f 1
}

for shell in bash fish; do
    check $shell "pccl " "master status token perf top doctor recorder version" "--listen"
    check $shell "pccl ma" master status
    check $shell "pccl master --li" "--listen --listen-address" "--peers"
    check $shell "pccl-perf --pe" --peers "--listen"
    check $shell "pccl token " "create list revoke rotate" master
done
check bash "pccl master --set silence" "silence_ms=" "--listen"
zsh -n packaging/completions/_pccl
echo "completions.sh: good"
