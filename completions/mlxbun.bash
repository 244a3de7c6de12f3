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
