# Completes the commands and options of pccl, which it reads from `--help`.
function __pccl_options
    set -l words (commandline --tokenize --cut-at-cursor --current-process)
    set -l command
    test (basename $words[1]) != pccl; or set command $words[2]
    $words[1] $command --help 2>/dev/null | string match --all --regex -- '--[a-z][a-z_-]*' | sort --unique
end
complete --command pccl --condition __fish_is_first_token --no-files \
    --arguments '(pccl --help 2>/dev/null | string replace --filter --regex "^  ([a-z]+)  +(.*)" "\$1\t\$2")'
complete --command pccl --condition 'test (count (commandline --tokenize --cut-at-cursor --current-process)) = 2' \
    --condition '__fish_seen_subcommand_from token' --no-files --arguments 'create list revoke rotate'
for name in pccl pccl-master pccl-perf
    complete --command $name --condition 'string match --quiet -- "-*" (commandline --current-token)' \
        --arguments '(__pccl_options)'
end
