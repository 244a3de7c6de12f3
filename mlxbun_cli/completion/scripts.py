"""The scripts for bash, zsh and fish. `completions/` holds them as files: `make completions`.

Each asks `mlxbun __complete SHELL ...` once for a Tab. The first line of the answer says what to
offer where nothing else fits (`nothing`, `files` or `folders`), and to zsh how candidates fit. The
others are candidates: for bash quoted, for zsh and fish with a tab and a help text behind. Nothing
of an answer is ever evaluated.
"""

from __future__ import annotations

_BASH = r"""
# Completes mlxbun in bash 3.2 and later. Made by `make completions`.

_mlxbun() {
    local program=${1:-mlxbun} line=${COMP_LINE-${COMP_WORDS[*]}} beside=nothing reply
    type -P -- "$program" >/dev/null || program=mlxbun
    COMPREPLY=()
    {
        IFS= read -r beside
        while IFS= read -r reply; do
            [[ -n $reply ]] && COMPREPLY+=("$reply")
        done
    } <<<"$("$program" __complete bash \
        "${line:0:${COMP_POINT-${#line}}}" "${2-${COMP_WORDS[COMP_CWORD]}}" 2>/dev/null)"
    # bash 3.2, as on macOS, has no compopt: it sorts, and offers files where nothing fits.
    compopt -o nosort 2>/dev/null
    case $beside in
        nothing) compopt +o default 2>/dev/null ;;
        folders) compopt +o default -o dirnames 2>/dev/null ;;
    esac
    return 0
}

complete -o default -F _mlxbun mlxbun
"""

_ZSH = r"""
#compdef mlxbun
# Completes mlxbun in zsh. Made by `make completions`.

_mlxbun() {
    local program=${(Q)words[1]} beside=nothing line value told
    local -a before lines entries
    whence -p -- $program >/dev/null || program=mlxbun
    (( CURRENT > 2 )) && before=("${(@Q)words[2,CURRENT-1]}")
    before+=("$IPREFIX$QIPREFIX$PREFIX")
    lines=("${(@f)$($program __complete zsh "${before[@]}" 2>/dev/null)}")
    beside=${lines[1]%%$'\t'*}
    for line in "${(@)lines[2,-1]}"; do
        value=${line%%$'\t'*} told=${line#*$'\t'}
        value=${value//\\/\\\\}
        entries+=("${value//:/\\:}${told:+:$told}")
    done
    if (( $#entries )); then
        case ${lines[1]#*$'\t'} in
            start) _describe -V value entries ;;
            inside) _describe -V value entries -U ;;
            scattered)
                compstate[insert]= compstate[list]='list force'
                _describe -V value entries -U ;;
        esac
    elif [[ $beside == files ]]; then
        compset -P '--*='
        _files
    elif [[ $beside == folders ]]; then
        compset -P '--*='
        _path_files -/
    fi
}

# Read by `source`, it says what it completes; from a folder in fpath, it is the function.
if [[ ${funcstack[1]} == _mlxbun ]]; then
    _mlxbun "$@"
else
    compdef _mlxbun mlxbun
fi
"""

_FISH = r"""
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
"""

SCRIPTS = {"bash": _BASH.lstrip(), "zsh": _ZSH.lstrip(), "fish": _FISH.lstrip()}
"""The script of each shell."""

FILES = {"bash": "mlxbun.bash", "zsh": "_mlxbun", "fish": "mlxbun.fish"}
"""What its file is called."""
