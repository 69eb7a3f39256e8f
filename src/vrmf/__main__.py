"""The command ``vrmf``, also as ``python -m vrmf``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command, or say what it needs."""
    try:
        from vrmf.cli import main as command
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.exit(f'The command vrmf needs the package {error.name}. Install it with pip: "vrmf[cli]".')
    command()


if __name__ == "__main__":
    main()
