"""``weir completion`` and ``weir man``: the command line about itself."""

from __future__ import annotations

import click

from weir.dpcore.errors import ConfigError
from weir.pipelines.cli.base import version

SHELLS = ("bash", "zsh", "fish")


@click.command(short_help="Print what makes a shell complete commands and options.")
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a script that makes SHELL complete commands, options and files.

    \b
      weir completion bash > ~/.local/share/bash-completion/completions/weir
      weir completion zsh > ~/.zfunc/_weir          # a folder of $fpath
      weir completion fish > ~/.config/fish/completions/weir.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    root = click.get_current_context().find_root().command
    made = kind(root, {}, "weir", "_WEIR_COMPLETE")
    try:
        # The script alone: what click asks of the shell itself may run on another machine.
        click.echo(made.source_template % made.source_vars())
    except KeyError as error:  # a version of click whose scripts need more
        raise ConfigError("shell", shell, f"cannot be served: {error}.") from None


@click.command(short_help="Print the manual page.")
def man() -> None:
    """Print a page for man(1) with every command and option.

    It is made from the commands themselves, so that it always says what this build can do, and how.

    \b
      weir man | man -l -
      weir man > /usr/local/share/man/man1/weir.1
    """
    from weir.pipelines.show.commands import man as page

    root = click.get_current_context().find_root().command
    click.echo(page(root, "weir", version()), nl=False)
