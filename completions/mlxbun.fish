# Completes mlxbun in fish 3 and later. Made by `make completions`.

function __mlxbun_complete
    set -l words (commandline -opc)
    set -l text (commandline -ct)
    set -l program $words[1]
    set -e words[1]
    command -sq -- "$program"; or set program mlxbun
    command -sq -- $program; or return
    set -l lines (command $program __complete fish $words "$text" 2>/dev/null)
    if set -q lines[2]
        printf '%s\n' $lines[2..-1]
        return
    end
    # Of `--name=path` the path alone is completed, and offered behind the name again.
    set -l before (string match -r -- '^--[^=]*=' "$text")
    set -l path (string replace -r -- '^--[^=]*=' '' "$text")
    set -l paths
    switch "$lines[1]"
        case files
            set paths (__fish_complete_path "$path")
        case folders
            set paths (__fish_complete_directories "$path" '')
    end
    for one in $paths
        printf '%s\n' "$before$one"
    end
end

complete --command mlxbun --no-files --keep-order --arguments '(__mlxbun_complete)'
