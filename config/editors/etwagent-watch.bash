# Completion of programs of "etwagent watch -e 'PROGRAM'" in bash: probes, and in a clause fields and functions.
#     source config/editors/etwagent-watch.bash
_etwagent_watch() {
    local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} text begun prefix
    COMPREPLY=()
    [ "${COMP_WORDS[1]}" = watch ] || return 0
    case $before in
    -e | --execute) ;;
    *)
        compopt -o default 2>/dev/null
        return 0
        ;;
    esac
    text=${cur#[\'\"]}
    # what is begun: a name in a clause, else a probe
    case ${text##*\}} in
    *'{'* | *' /'*) begun=${text##*[!A-Za-z0-9_]} ;;
    *) begun=${text##*[ ,]} ;;
    esac
    prefix=${text%"$begun"}
    local word
    while IFS= read -r word; do
        COMPREPLY+=("$prefix$word")
    done < <("${COMP_WORDS[0]}" watch --complete-probe "$text" 2>/dev/null)
    compopt -o nospace 2>/dev/null
    return 0
}
complete -F _etwagent_watch etwagent
