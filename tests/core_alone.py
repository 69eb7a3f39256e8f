"""With the core dependencies alone fits work, and extras name themselves: ``make core`` runs this."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import vrmf
import vrmf.plots

OPTIONAL = (
    "click",
    "rich",
    "matplotlib",
    "pyarrow",
    "h5py",
    "zarr",
    "dask",
    "pooch",
    "tqdm",
    "PIL",
    "jinja2",
)


def refusal(action: object) -> str:
    """Return the message about a package that is missing."""
    try:
        action()  # type: ignore[operator]
    except ImportError as error:
        return str(error)
    raise AssertionError("nothing was missing")


def main() -> None:
    there = [name for name in OPTIONAL if importlib.util.find_spec(name) is not None]
    assert not there, f"this environment has {there}: it is no test"
    rng = np.random.default_rng(0)
    X = rng.random((60, 3)) @ rng.random((3, 12))
    model = vrmf.NMF(3, random_state=0).fit(X)
    assert model.reconstruction_error_ < 0.02 and vrmf.suggest(X).model == "nmf"
    assert "<" in model._repr_html_()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        vrmf.save(model, path / "model.vrmf")
        assert vrmf.load(path / "model.vrmf").transform(X).shape == (60, 3)
        np.save(path / "rows.npy", X)
        np.savez(path / "rows.npz", X)
        for name in ("rows.npy", "rows.npz"):
            assert vrmf.RobustPCA(random_state=0).fit(path / name).rank_ == 3
        (path / "rows.csv").write_text("1,2\n")
        assert '"vrmf[files]"' in refusal(lambda: model.fit(path / "rows.csv"))
    assert '"vrmf[plots]"' in refusal(lambda: vrmf.plots.convergence(model))
    assert '"vrmf[report]"' in refusal(lambda: model.report(X))
    done = subprocess.run([sys.executable, "-m", "vrmf", "info"], capture_output=True, text=True)
    assert done.returncode == 1 and '"vrmf[cli]"' in done.stderr and "Traceback" not in done.stderr
    print("The library works with its core dependencies alone.")


if __name__ == "__main__":
    main()
