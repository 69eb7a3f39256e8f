"""``vrmf completion``: what a shell needs to complete commands, options and names of models."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

#: The variable by which a shell asks for completions.
VARIABLE = "_VRMF_COMPLETE"


@click.command(
    epilog="""
    \b
    Examples:
      vrmf completion bash >> ~/.bashrc
      vrmf completion fish > ~/.config/fish/completions/vrmf.fish
    """
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script by which SHELL (bash, zsh or fish) completes commands, options and model names."""
    kind = get_completion_class(shell)
    assert kind is not None
    command = click.get_current_context().find_root().command
    click.echo(kind(command, {}, "vrmf", VARIABLE).source())
