"""`completion`: scripts for shells, made from the same table that parsing uses."""

from __future__ import annotations

from crucible.cli.grammar import Arguments, Command, Operand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_SHELLS = ("bash", "zsh", "fish")


def completion(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.cli.grammar import BadUsage

    shell = arguments.word("SHELL")
    if shell not in _SHELLS:
        raise BadUsage(
            f"There is no completion for {shell!r}", hint=f"One of: {', '.join(_SHELLS)}"
        )
    scripts = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    render.say(scripts[shell]().rstrip("\n"))
    return 0


def commands() -> Iterator[tuple[Command, tuple[str, ...]]]:
    """Every command and subcommand, with the words that lead to it; aliases too."""
    from crucible.cli import table
    from crucible.cli.main import find_command

    for name in (*table.MODULES, *table.ALIASES):
        command = find_command(name)
        yield command, (name,)
        for subcommand in command.subcommands:
            yield subcommand, (name, subcommand.name)


def _bash() -> str:
    from crucible.cli import table

    cases = []
    for command, path in commands():
        options = " ".join(f"--{option.long}" for option in command.options)
        valued = "|".join(
            name
            for option in command.options
            if option.metavar
            for name in (f"--{option.long}", f"-{option.short}" if option.short else "")
            if name
        )
        words = " ".join(subcommand.name for subcommand in command.subcommands)
        kinds = " ".join(
            dict.fromkeys(operand.complete for operand in command.operands if operand.complete)
        )
        cases.append(
            f"    '{' '.join(path)}') options='{options} --help' valued='{valued}'"
            f" words='{words}' kinds='{kinds}' ;;\n"
        )
    names = " ".join((*table.MODULES, *table.ALIASES))
    groups = "|".join(path[0] for command, path in commands() if command.subcommands)
    return _BASH.format(cases="".join(cases), names=names, groups=groups)


def _zsh() -> str:
    """zsh runs bash's completions; its own would say the same a second time."""
    return "#compdef crucible\nautoload -U +X bashcompinit && bashcompinit\n" + _bash()


def _fish() -> str:
    from crucible.cli import table

    lines = ["complete -c crucible -f"]
    for name in (*table.MODULES, *table.ALIASES):
        summary = table.SUMMARIES[table.ALIASES.get(name, name)]
        lines.append(
            f"complete -c crucible -n __fish_use_subcommand -a {name} -d {_quote(summary)}"
        )
    for command, path in commands():
        condition = _quote(f"__fish_seen_subcommand_from {path[-1]}")
        for option in command.options:
            short = f" -s {option.short}" if option.short else ""
            value = " -r" if option.metavar else ""
            lines.append(
                f"complete -c crucible -n {condition}{short} -l {option.long}{value}"
                f" -d {_quote(option.help)}"
            )
        lines.extend(
            f"complete -c crucible -n {condition} -a {subcommand.name} -d {_quote(subcommand.summary)}"
            for subcommand in command.subcommands
        )
        lines.extend(_fish_operands(command, condition))
    return "\n".join(lines) + "\n"


def _fish_operands(command: Command, condition: str) -> Iterator[str]:
    sources = {
        "sandbox": "crucible list -q",
        "snapshot": "crucible snapshot list -q",
        "image": "crucible image list -q",
    }
    for kind in dict.fromkeys(operand.complete for operand in command.operands):
        if kind in sources:
            yield f"complete -c crucible -n {condition} -a '({sources[kind]} 2>/dev/null)'"
        elif kind == "path":
            yield f"complete -c crucible -n {condition} -F"


def _quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_BASH = """\
# Completion of crucible for bash: source this, or put it into a directory of completions.
_crucible() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
    local path="${{COMP_WORDS[1]}}" options='--help' valued='' words='' kinds='' found=''
    if (( COMP_CWORD == 1 )); then
        COMPREPLY=($(compgen -W '{names} --help --version' -- "$current"))
        return
    fi
    case "$path" in
    {groups}) (( COMP_CWORD > 2 )) && path="$path ${{COMP_WORDS[2]}}" ;;
    esac
    case "$path" in
{cases}    *) path="${{COMP_WORDS[1]}}"
        case "$path" in snapshot) kinds='sandbox' ;; esac ;;
    esac
    if [[ -n "$valued" && "$previous" == @($valued) ]]; then
        COMPREPLY=($(compgen -f -- "$current"))
        return
    fi
    if [[ "$current" == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$current"))
        return
    fi
    [[ " $kinds " == *' sandbox '* ]] && found="$found $(crucible list -q 2>/dev/null)"
    [[ " $kinds " == *' snapshot '* ]] && found="$found $(crucible snapshot list -q 2>/dev/null)"
    [[ " $kinds " == *' image '* ]] && found="$found $(crucible image list -q 2>/dev/null)"
    COMPREPLY=($(compgen -W "$words $found" -- "$current"))
    if [[ " $kinds " == *' path '* ]]; then
        COMPREPLY+=($(compgen -f -- "$current"))
        COMPREPLY+=($(compgen -S : -W "$(crucible list -q 2>/dev/null)" -- "$current"))
    fi
}}
shopt -s extglob 2>/dev/null
complete -o bashdefault -o default -F _crucible crucible
"""

COMMANDS = (
    Command(
        "completion",
        completion,
        operands=(Operand("SHELL", "bash, zsh or fish"),),
        notes="Names of sandboxes, snapshots and images are completed too.",
        examples=(
            ('eval "$(crucible completion bash)"', "in ~/.bashrc; likewise in ~/.zshrc with zsh"),
            ("crucible completion fish | source", "in fish's config.fish"),
        ),
    ),
)
