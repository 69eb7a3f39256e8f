"""Draws docs/images/terminal.svg: what commands show on a terminal, for a generated table.

    pip install pyte rich
    python docs/images/terminal.py                  # writes terminal.svg beside itself
    python docs/images/terminal.py --bar bar.svg    # a screen while a fit runs

Commands run on a pseudo terminal, so that they draw what a user sees.
"""

from __future__ import annotations

import argparse
import itertools
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyte
from rich.console import Console
from rich.style import Style
from rich.text import Text

WIDTH, LINES = 112, 200

#: Colours that the emulator and rich call otherwise.
NAMES = {"default": None, "brown": "yellow"}

GENES = "CD3D CD3E CD8A GZMB NKG7 MS4A1 CD79A CD79B CD74 LYZ S100A8 S100A9 FCN1 PPBP PF4".split()

COMMANDS = ("vrmf fit cells.csv --drop tissue -o cells.vrmf", "vrmf export cells.vrmf --top 3")

#: What the picture calls the folder of the table.
FOLDER = "/home/ada/tables"


def write_table(path: Path, rows: int) -> None:
    """Write a table of cells and genes, made of a few parts and noise."""
    rng = np.random.default_rng(0)
    names = GENES + [f"gene{i}" for i in range(45)]
    parts = rng.gamma(0.3, size=(4, len(names)))
    parts[:, :15] += 6 * np.kron(np.eye(4), np.ones(4))[:, :15]
    X = rng.gamma(0.6, size=(rows, 4)) @ parts + 0.2 * rng.random((rows, len(names)))
    with path.open("w") as file:
        file.write("cell,tissue," + ",".join(names) + "\n")
        for i, row in enumerate(X):
            file.write(
                f"cell{i},{'blood' if i % 3 else 'skin'}," + ",".join(f"{x:.3f}" for x in row) + "\n"
            )


def run(command: str, folder: Path, screen: pyte.Screen, seconds: float | None = None) -> None:
    """Run a command on a pseudo terminal and show its output on a screen; stop after some seconds."""
    stream, (ours, theirs) = pyte.ByteStream(screen), pty.openpty()
    words = [os.path.join(os.path.dirname(sys.executable), "vrmf"), *command.split()[1:]]
    size = {"COLUMNS": str(WIDTH), "LINES": str(LINES), "TERM": "xterm-256color"}
    process = subprocess.Popen(
        words, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, env=os.environ | size
    )
    os.close(theirs)
    began = time.monotonic()
    while seconds is None or time.monotonic() - began < seconds:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                stream.feed(os.read(ours, 65536))
            except OSError:  # the command has ended
                break
    if seconds is not None:
        process.terminate()
    process.wait()
    os.close(ours)


def shown(screen: pyte.Screen) -> Text:
    """Return what a screen shows, with its colours."""
    text, last = Text(), max((i for i, line in enumerate(screen.display) if line.strip()), default=-1)
    for row in range(last + 1):
        cells = [screen.buffer[row][column] for column in range(len(screen.display[row].rstrip()))]
        for (name, bold), run in itertools.groupby(cells, key=lambda cell: (cell.fg, cell.bold)):
            colour = NAMES.get(name, name)
            if colour is not None and re.fullmatch("[0-9a-f]{6}", colour):
                colour = f"#{colour}"
            text.append("".join(cell.data for cell in run), Style(color=colour, bold=bold))
        text.append("\n")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bar", type=Path, help="draw a screen while a fit of a larger table runs")
    chosen = parser.parse_args()
    console = Console(width=WIDTH, record=True, file=open(os.devnull, "w"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_table(folder / "cells.csv", 20_000 if chosen.bar else 600)
        commands = ("vrmf fit cells.csv --drop tissue --model nmf -k 20",) if chosen.bar else COMMANDS
        for command in commands:
            screen = pyte.Screen(WIDTH, LINES)
            screen.set_mode(pyte.modes.LNM)
            run(command, folder, screen, 9.0 if chosen.bar else None)
            console.print(Text(f"$ {command}", Style(bold=True)))
            console.print(shown(screen))
    path = chosen.bar or Path(__file__).with_suffix(".svg")
    drawn = console.export_svg(title="vrmf").replace(str(folder), FOLDER)
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)  # fonts from elsewhere
    path.write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
