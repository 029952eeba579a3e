"""`vmscaler completion SHELL`: the script that lets a shell complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

SHELLS = ("bash", "zsh", "fish")

VARIABLE = "_VMSCALER_COMPLETE"
"""What the script asks by; click takes it from the program's name."""


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def completion_command(shell: str) -> None:
    """Print what SHELL needs to complete `vmscaler`'s commands and options.

    \b
    bash  vmscaler completion bash > ~/.local/share/bash-completion/completions/vmscaler
    zsh   vmscaler completion zsh > "${fpath[1]}/_vmscaler"
    fish  vmscaler completion fish > ~/.config/fish/completions/vmscaler.fish

    In a running bash or zsh: eval "$(vmscaler completion bash)". Bash must be 4.4 or newer.
    """
    # Imported here: the root imports this module by its name.
    from app.cli.root import root

    kind = get_completion_class(shell)
    if kind is None:
        raise click.ClickException(f"click knows no completion for {shell}")
    # Not the class' own `source`, which for bash runs bash to look at its version.
    click.echo(ShellComplete.source(kind(root, {}, "vmscaler", VARIABLE)))
