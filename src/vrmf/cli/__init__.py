"""The command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from vrmf._version import __version__
from vrmf.cli.benching import bench
from vrmf.cli.common import stopped
from vrmf.cli.completing import completion
from vrmf.cli.describing import info
from vrmf.cli.exporting import export
from vrmf.cli.fitting import fit
from vrmf.cli.reporting import report
from vrmf.cli.suggesting import suggest
from vrmf.cli.transforming import transform
from vrmf.cli.warming import warmup

if TYPE_CHECKING:
    from vrmf.demo import VideoFit


class Commands(click.Group):
    """Commands, each of which ends quietly if Ctrl-C is pressed."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise stopped("nothing is kept of what was under way.") from None


@click.group(cls=Commands, context_settings={"show_default": True, "help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="vrmf")
def main() -> None:
    """Stochastic matrix factorization by variance reduction.

    From a table to an answer: vrmf suggest DATA, vrmf fit DATA, vrmf report MODEL DATA, vrmf info MODEL,
    vrmf export MODEL --top 10, vrmf transform MODEL DATA.
    """


for command in (fit, transform, info, report, export, suggest, bench, warmup, completion):
    main.add_command(command)


@main.command(
    epilog="""
    \b
    Examples:
      vrmf demo
      vrmf demo --frames 40 -o pictures
    """
)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo-output"),
    help="Folder for the pictures.",
)
@click.option("--frames", type=click.IntRange(min=20), default=100, help="Frames of the video.")
@click.option("--passes", type=click.IntRange(min=2), default=24, help="Passes of each fit of digits.")
@click.option("-k", "--components", type=click.IntRange(min=1), default=16, help="Atoms for digits.")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Random seed.")
def demo(output: Path, frames: int, passes: int, components: int, seed: int) -> None:
    """Split a video into background and moving objects; compare three solvers on digits.

    The video is generated: a photograph in changing light, noise, and objects that move. Tables are printed
    and pictures drawn.
    """
    from vrmf import demo as demonstration

    click.echo("Compiling what is not compiled yet, off the clock.")
    demonstration.compile_kernels(components)
    video = demonstration.video_fit(frames, seed)
    _tell_video(video)
    X = demonstration.digits()
    click.echo(f"\nThree solvers on {len(X)} digits of 8 × 8 pixels, {components} atoms")
    click.echo(f"{'model':<21}{'solver':<8}{'objective':>10}{'‖Γ‖²':>11}{'passes':>9}{'seconds':>9}")
    done = []
    for fitted in demonstration.fits(X, passes, components, seed):
        model, seconds = fitted.model, fitted.model.history_["seconds"][-1]
        click.echo(
            f"{fitted.problem:<21}{fitted.solver:<8}{model.objective_:>10.5f}{model.stationarity_:>11.2e}"
            f"{model.n_passes_:>9.1f}{seconds:>9.2f}"
        )
        done.append(fitted)
    paths = demonstration.write_pictures(video, done, output)
    click.echo(f"\nPictures in {output.resolve()}: {', '.join(path.name for path in paths)}")


def _tell_video(video: VideoFit) -> None:
    """Print what robust PCA found in a video."""
    model, scene = video.model, video.scene
    height, width = scene.image_shape
    seconds = model.history_["seconds"][-1]
    click.echo(
        f"\nRobust PCA of a video, {len(scene.frames)} frames of {height} × {width} pixels: {seconds:.1f} s"
    )
    click.echo(f"{'':<28}{'found':>8}{'true':>8}")
    click.echo(
        f"{'rank of the background':<28}{model.rank_:>8}{np.linalg.matrix_rank(scene.background):>8}"
    )
    click.echo(f"{'noise':<28}{model.noise_:>8.4f}{scene.noise:>8.4f}")
    click.echo(f"{'pixels of moving objects':<28}{video.mask.mean():>8.2%}{scene.mask.mean():>8.2%}")
    click.echo(f"F-measure of the mask {video.f_measure:.3f}")
    click.echo(
        f"false alarms {video.false_alarms:.2%} of the background, missed {video.missed:.2%} of the objects"
    )
    errors = [video.error(background) for background in (video.background, video.plain)]
    click.echo(
        f"error of the background {errors[0]:.1%} by robust PCA, {errors[1]:.1%} by PCA of the same rank"
    )
