"""`fullgraph completion`: prints a script that makes a shell complete commands and flags."""

from __future__ import annotations

import argparse
from functools import partial

from fullgraph.commands.arguments import Commands, add_command


def add(commands: Commands) -> None:
    """Declare the command `fullgraph completion`."""
    command = add_command(
        commands,
        "completion",
        "a script with which your shell completes commands and flags",
        "bash > ~/.local/share/bash-completion/completions/fullgraph",
        'zsh > "${fpath[1]}/_fullgraph"',
        "fish > ~/.config/fish/completions/fullgraph.fish",
    )
    command.set_defaults(command=partial(_completion, commands))
    command.add_argument("shell", choices=("bash", "zsh", "fish"), help="your shell, such as bash")


def _completion(commands: Commands, args: argparse.Namespace) -> int:
    """Print the completion script of a shell."""
    write = {"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell]
    helps = {choice.dest: choice.help or "" for choice in commands._choices_actions}
    print(write(dict(commands.choices), helps))
    return 0


def _flags(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the optional arguments of a command, such as `--json`."""
    return [action for action in parser._actions if action.option_strings]


def _words(parser: argparse.ArgumentParser) -> list[str]:
    """Return the choices of a command's positional arguments; [] if they have none."""
    return [str(c) for a in parser._actions if not a.option_strings for c in a.choices or ()]


def _bash(parsers: dict[str, argparse.ArgumentParser], helps: dict[str, str]) -> str:
    """Return the completion script for bash, from the parser and the help of each command."""
    cases = []
    for name, parser in parsers.items():
        flags = [flag for action in _flags(parser) for flag in action.option_strings]
        cases.append(f'    {name}) words="{" ".join([*flags, *_words(parser)])}" ;;')
    values = {
        flag: " ".join(map(str, action.choices))
        for parser in parsers.values()
        for action in _flags(parser)
        if action.choices is not None
        for flag in action.option_strings
    }
    chosen = [
        f'    {flag}) COMPREPLY=($(compgen -W "{words}" -- "$cur")); return ;;'
        for flag, words in values.items()
    ]
    return "\n".join(
        [
            "# bash completion of fullgraph",
            "_fullgraph() {",
            '  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" words=""',
            '  if [ "$COMP_CWORD" -eq 1 ]; then',
            f'    COMPREPLY=($(compgen -W "{" ".join(parsers)} --help --version" -- "$cur"))',
            "    return",
            "  fi",
            '  case "$prev" in',
            *chosen,
            "  esac",
            '  case "${COMP_WORDS[1]}" in',
            *cases,
            "  esac",
            '  COMPREPLY=($(compgen -W "$words" -- "$cur"))',
            "}",
            "complete -o default -F _fullgraph fullgraph",
        ]
    )


def _zsh(parsers: dict[str, argparse.ArgumentParser], helps: dict[str, str]) -> str:
    """Return the completion script for zsh, from the parser and the help of each command."""
    lines = [
        "#compdef fullgraph",
        "_fullgraph() {",
        "  local -a commands",
        "  commands=(",
        *(f"    {_quoted(f'{name}:{helps[name]}')}" for name in parsers),
        "  )",
        "  if (( CURRENT == 2 )); then",
        "    _describe command commands",
        "    return",
        "  fi",
        "  local command=$words[2]",
        "  shift words; (( CURRENT-- ))",
        "  case $command in",
    ]
    for name, parser in parsers.items():
        lines.append(f"    {name}) _arguments \\")
        for action in _flags(parser):
            text = (action.help or "").replace("[", r"\[").replace("]", r"\]").replace(":", r"\:")
            value = ""
            if action.nargs != 0:
                choices = " ".join(map(str, action.choices or ()))
                value = f":value:({choices})" if choices else ":value:_files"
            for flag in action.option_strings:
                lines.append(f"      {_quoted(f'{flag}[{text}]{value}')} \\")
        words = _words(parser)
        rest = f"*:argument:({' '.join(words)})" if words else "*:file:_files"
        lines.append(f"      {_quoted(rest)} ;;")
    return "\n".join([*lines, "  esac", "}", '_fullgraph "$@"'])


def _fish(parsers: dict[str, argparse.ArgumentParser], helps: dict[str, str]) -> str:
    """Return the completion script for fish, from the parser and the help of each command."""
    lines = ["# fish completion of fullgraph"]
    for name, parser in parsers.items():
        lines.append(
            f"complete -c fullgraph -n __fish_use_subcommand -f -a {name} -d {_quoted(helps[name])}"
        )
        here = f"complete -c fullgraph -n '__fish_seen_subcommand_from {name}'"
        lines += [f"{here} -f -a {word}" for word in _words(parser)]
        for action in _flags(parser):
            names = " ".join(
                f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
                for flag in action.option_strings
            )
            value = "" if action.nargs == 0 else " -r"
            if action.choices is not None:
                value = f" -x -a {_quoted(' '.join(map(str, action.choices)))}"
            lines.append(f"{here} {names}{value} -d {_quoted(action.help or '')}")
    return "\n".join(lines)


def _quoted(text: str) -> str:
    """Return `text` in single quotes, as bash, zsh and fish all accept it."""
    return "'" + text.replace("'", "’") + "'"
