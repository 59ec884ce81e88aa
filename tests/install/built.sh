#!/bin/sh
# A compiler launcher: built.sh <compiler> <argument>... Copies the object from the build folder $PCCL_BUILT if the same
# command compiled it there, and compiles it otherwise. Both builds use the same sources, and `make test` has brought
# $PCCL_BUILT up to date, so the object is the same.
set -eu
command="" option="" object="" depfile=""
for word in "$@"; do
    case $option in
    -o)
        object=$word
        word=${word#third_party/pccl/}
        built=$word
        ;;
    -MF) depfile=$word ;;
    esac
    previous=$option option=$word
    case $word in -MD | -MT | -MF) continue ;; esac
    case $previous in -MT | -MF) continue ;; esac
    command="$command $word"
done
case $command in
*' -DPCCL_COMMIT='*) # the source that names the commit, which may be later than $PCCL_BUILT
    echo >>"$PCCL_COPIED"
    exec "$@"
    ;;
esac
if [ -n "$depfile" ] && grep -qF "\"command\": \"${command# }\"" "$PCCL_BUILT/compile_commands.json"; then
    cp "$PCCL_BUILT/$built" "$object"
    echo "$object:" >"$depfile"
    echo >>"$PCCL_COPIED"
else
    exec "$@"
fi
