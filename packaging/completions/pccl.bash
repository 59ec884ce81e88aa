# Completes the commands and options of pccl, which it reads from `--help`.
_pccl() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} program=$1 help words
    local command=("${COMP_WORDS[1]}")
    if [ "${program##*/}" != pccl ]; then
        command=()
    elif [ "$COMP_CWORD" = 1 ]; then
        words=$("$program" --help 2>/dev/null | sed -n 's/^  \([a-z]*\)  .*/\1/p')
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
        return
    fi
    help=$("$program" "${command[@]}" --help 2>/dev/null)
    case $previous:$current in
    --set:* | --option:*) words=$(sed -n 's/^  \([a-z_]*\)  *PCCL_.*/\1=/p' <<<"$help") ;;
    *:-*) words=$(grep -o -e '--[a-z][a-z_-]*' <<<"$help") ;;
    token:*) words="create list revoke rotate" ;;
    *) return ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -o default -F _pccl pccl pccl-master pccl-perf
