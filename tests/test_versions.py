"""Files of earlier versions: models are read, checkpoints are refused with an error.

If the test of fields fails, a state or a fitted attribute has changed: raise the version of the file
(``VERSION`` in ``vrmf.persistence.storage`` and ``.checkpoint``), keep a small file of the old version in
``tests/files``, and put the new digest here.
"""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vrmf
from estimator_cases import NAMES, fitted, rows
from vrmf.persistence import checkpoint, storage
from vrmf.persistence.archive import VALUES, Reader, by_name
from vrmf.persistence.declared import declared_types
from vrmf.running.history import COLUMNS
from vrmf.running.stage import Stage
from vrmf.solvers import VR, Algorithm1
from vrmf.solvers.algorithm1 import Algorithm1State
from vrmf.solvers.batch import BatchState
from vrmf.solvers.sgd import SGDState
from vrmf.solvers.smm import SMMState
from vrmf.solvers.vr import VRState

FILES = Path(__file__).parent / "files"

#: What the present versions hold.
MODEL = (5, "87cecda4be4194e5")
CHECKPOINT = (6, "529373cc2360567f")


def digest(kinds: set[Any], names: list[str]) -> str:
    known: list[Any] = [kind for kind in kinds if dataclasses.is_dataclass(kind)]  # no abstract ones
    fields = {kind.__name__: [field.name for field in dataclasses.fields(kind)] for kind in known}
    told = [f"{name}({', '.join(fields[name])})" for name in sorted(fields)]
    return hashlib.blake2b("\n".join([*told, *names]).encode(), digest_size=8).hexdigest()


def test_a_change_of_what_models_hold_raises_the_version() -> None:
    attributes = sorted({name for each in NAMES for name in vars(fitted(each))})
    assert (storage.VERSION, digest(set(VALUES), attributes)) == MODEL


def test_a_change_of_what_checkpoints_hold_raises_the_version() -> None:
    states = set().union(
        *map(declared_types, (Algorithm1State, BatchState, SGDState, SMMState, VRState, Stage))
    )
    columns = list(COLUMNS)
    assert (checkpoint.VERSION, digest(states, columns)) == CHECKPOINT


@pytest.mark.parametrize("path", sorted(FILES.glob("*.vrmf")), ids=lambda path: path.stem)
def test_models_of_all_versions_are_read(path: Path) -> None:
    model = vrmf.load(path)
    X = rows()
    codes = np.loadtxt(path.with_suffix(".csv"), delimiter=",", ndmin=2)
    np.testing.assert_allclose(model.transform(X), codes, rtol=1e-5, atol=1e-7)
    assert np.isfinite(model.objective_) and isinstance(model.relative_stationarity_, float)
    model.partial_fit(X[:7])
    model.fit(X)


def test_there_is_a_file_of_each_version() -> None:
    versions = {int(path.stem.rpartition("-v")[2]) for path in FILES.glob("*.vrmf")}
    assert versions == set(range(1, storage.VERSION + 1))


def test_an_old_checkpoint_is_refused_with_its_version(tmp_path: Path) -> None:
    place = tmp_path / "fit.checkpoint"
    vrmf.NMF(2, max_iter=1, tol=0, random_state=0, checkpoint=place).fit(rows())
    place.write_bytes(place.read_bytes().replace(b"vrmf-checkpoint 6", b"vrmf-checkpoint 1", 1))
    with pytest.raises(ValueError, match=r"has version 1 of the format.*remove the file to start anew\."):
        vrmf.NMF(2, max_iter=1, tol=0, random_state=0, checkpoint=place).fit(rows())


def test_the_papers_algorithm_of_earlier_versions_is_a_solver_of_its_own() -> None:
    reader = Reader.__new__(Reader)  # of no archive: there are no arrays
    reader.kinds = by_name(VALUES)
    old = {"batch_size": 7, "step_size": 0.5, "opening": True, "literal": True, "tau": 0.1, "reseed": True}
    node = {"$": "value", "type": "VR", "fields": old | {"cache_folder": None}}
    assert reader.decode(node) == Algorithm1(batch_size=7, step_size=0.5, tau=0.1)
    node["fields"] |= {"literal": False, "tau": None}  # type: ignore[operator]
    assert reader.decode(node) == VR(batch_size=7, step_size=0.5)


def test_options_of_a_solver_that_no_longer_exist_warn() -> None:
    reader = Reader.__new__(Reader)
    reader.kinds = by_name(VALUES)
    node = {"$": "value", "type": "VR", "fields": {"literal": False, "option": "random", "tau": None}}
    with pytest.warns(UserWarning, match=r"has VR with option='random', which this version does not know"):
        assert reader.decode(node) == VR()
