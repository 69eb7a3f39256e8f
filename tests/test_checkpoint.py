"""Checkpoints: an interrupted fit ends with the bits of an uninterrupted one, and bad files are refused."""

from __future__ import annotations

import dataclasses
import io
import json
import math
import os
import shutil
import tracemalloc
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import vrmf
from estimator_cases import NAMES, codes_may_stop_short, corrupted, make, stream_of
from interruptions import Interruption, interrupted_before
from killed_fits import SOLVERS, data, is_killed, model, start_fork_server
from tables import AsymmetricL1, generator
from vrmf.estimators import AbstractFactorizer
from vrmf.measurement import Measurement
from vrmf.persistence import checkpoint
from vrmf.persistence.archive import Reader
from vrmf.persistence.atomic import remove_leftovers, replacing
from vrmf.persistence.checkpoint import verify
from vrmf.persistence.declared import declared_types, types_in
from vrmf.running import rules
from vrmf.running.history import History, Iterate
from vrmf.running.stage import Stage
from vrmf.solvers import SMM, VR, AbstractSolver
from vrmf.solvers.vr import VRState
from vrmf.terms import L1, Box, Free, NonNegative, UnitBall
from zip_files import containers, members_of, write_members

X = data()
LATER = 1e9  #: seconds after which only the start, the end and interruptions are saved


def assert_same(ours: AbstractFactorizer, theirs: AbstractFactorizer) -> None:
    """Assert that two fits have the same bits in all that they keep, except for the seconds."""
    np.testing.assert_array_equal(ours.components_, theirs.components_)
    assert ours.components_.dtype == theirs.components_.dtype
    assert ours.history_.keys() == theirs.history_.keys()
    for name in ours.history_.keys() - {"seconds"}:
        np.testing.assert_array_equal(ours.history_[name], theirs.history_[name], name)
    assert np.all(np.diff(ours.history_["seconds"]) >= 0)
    for name in (
        "objective_",
        "stationarity_",
        "reconstruction_error_",
        "n_iter_",
        "n_steps_",
        "n_passes_",
        "stop_reason_",
    ):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.formulation_ == theirs.formulation_ and ours.solver_ == theirs.solver_
    assert stream_of(ours).weights.keys() == stream_of(theirs).weights.keys()
    for field in dataclasses.fields(stream_of(theirs).state):
        np.testing.assert_array_equal(
            getattr(stream_of(ours).state, field.name), getattr(stream_of(theirs).state, field.name)
        )
    for each in (ours, theirs) if not ours.center else ():
        each.partial_fit(3 * X[:50])  # rows of another scale, which weights follow
    np.testing.assert_array_equal(ours.components_, theirs.components_)
    assert ours.formulation_ == theirs.formulation_


@pytest.fixture
def interrupted() -> Any:
    """Return a function that fits until a step raises, before the step of a given number.

    A fit that was interrupted before goes on from its checkpoint. Steps are counted over all these fits.
    """
    done: dict[Path | None, int] = {}

    def fit(
        model: AbstractFactorizer, X: Any, step: int, error: type[BaseException] = Interruption
    ) -> None:
        left = step - done.get(model.checkpoint, 0)
        done[model.checkpoint] = step
        with interrupted_before(left, type(model._solver()), error), pytest.raises(error):
            model.fit(X)

    return fit


# A resumed fit is the fit -----------------------------------------------------------------------


def assert_goes_on(interrupted: Any, path: Path, X: Any, **options: Any) -> None:
    reference = model(**options).fit(X)
    n = reference.n_steps_
    kept: Any = {"checkpoint": path, "checkpoint_every": LATER}
    for step in sorted({0, 1, n // 2, n - 1}):
        interrupted(model(**options, **kept), X, step)
        verify(path)
    assert_same(model(**options, **kept).fit(X), reference)
    assert_same(model(**options, **kept).fit(X), model(**options).fit(X))  # finished: the same again
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("name", ["nmf", "robust-pca"])
@pytest.mark.parametrize("solver", SOLVERS)
@codes_may_stop_short
def test_any_solver_continues_with_the_same_bits(
    interrupted: Any, solver: str, name: str, tmp_path: Path
) -> None:
    assert_goes_on(interrupted, tmp_path / "c", corrupted(X), solver=solver, name=name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@codes_may_stop_short
def test_any_estimator_continues_with_the_same_bits(
    interrupted: Any, name: str, dtype: Any, tmp_path: Path
) -> None:
    rows = corrupted(X[:100]).astype(dtype)
    options: dict[str, Any] = {"record_every": 2, "center": name == "robust-pca", "max_iter": 3}
    assert_goes_on(interrupted, tmp_path / "c", rows, solver="vr", name=name, **options)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_solvers_of_these_tests_reach_every_kind_of_anchor(solver: str) -> None:
    """Anchors on samples and on all rows, with and without stored codes."""
    solver_value, seen = model(solver)._solver(), set()
    for current in model(solver).iterate(X):
        state = current.state
        if isinstance(state, VRState) and state.anchor is not None:
            seen.add("sample" if state.anchor.sample is not None else "all")
            seen |= {"codes"} if state.anchor.codes is not None else set()
    if isinstance(solver_value, VR):
        assert ("sample" in seen) == (solver == "vr-on-samples") and "all" in seen
        assert ("codes" in seen) == (solver != "vr-without-cache")


@pytest.mark.parametrize("solver", SOLVERS)
def test_saving_changes_nothing_and_more_epochs_go_on(solver: str, tmp_path: Path) -> None:
    reference, path = model(solver).fit(X), tmp_path / "c"
    for epochs in (1, 2, reference.max_iter):
        resumed = model(solver, max_iter=epochs, checkpoint=path, checkpoint_every=0).fit(X)
    assert_same(resumed, reference)


def test_parameters_that_do_not_change_the_path_may_differ(interrupted: Any, tmp_path: Path) -> None:
    kept: Any = {"checkpoint": tmp_path / "c", "checkpoint_every": LATER}
    interrupted(model("vr", **kept, n_jobs=2, max_iter=2, tol=1e-9), X, 20)
    resumed = model("vr", **kept, max_time=100.0).fit(X)
    assert_same(resumed, model("vr").fit(X))


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, SystemExit])
def test_a_fit_that_any_error_ends_is_saved(
    interrupted: Any, error: type[BaseException], tmp_path: Path
) -> None:
    path = tmp_path / "c"
    interrupted(model("vr", checkpoint=path), X, 23, error)
    assert saved_step(path) == 23


def test_an_interrupt_while_history_is_written_leaves_a_consistent_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step after an anchor measures the row before; then the interrupt comes.

    The file must not hold that measurement yet. Otherwise the resumed fit would end a step too early.
    """
    monkeypatch.setattr(rules, "STILL_GAINING", math.inf)  # it ends as soon as it is within the tolerance
    measured = model("vr").fit(X).history_["relative_stationarity"]
    known = [(row, value) for row, value in enumerate(measured) if value == value]
    falls = ((row, v) for (_, before), (row, v) in pairwise(known) if row > 25 and v < 0.5 * before)
    row, value = next(falls)
    options: Any = {"tol": 1.5 * value}
    kept: Any = {"checkpoint": tmp_path / "c", "checkpoint_every": LATER}
    honest = History.note

    def torn(self: History, measured: Measurement, row_of: int = -1) -> None:
        honest(self, measured, row_of)
        if len(self.step) > row:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(History, "note", torn)
        with pytest.raises(KeyboardInterrupt):
            model("vr", **options, **kept).fit(X)
    reference = model("vr", **options).fit(X)
    assert reference.stop_reason_.startswith("stationary") and reference.n_steps_ == row + 1
    assert_same(model("vr", **options, **kept).fit(X), reference)


def test_a_resumed_fit_that_diverges_ends_as_an_uninterrupted_one(tmp_path: Path) -> None:
    """Its file keeps the last finite iterate, from which it diverges again."""
    terms: Any = {"name": "matrix-factorization", "code": Box(0.5, 1.0), "dictionary": Free()}

    def fit(**more: Any) -> AbstractFactorizer:
        estimator = model("algorithm1", **terms, max_iter=50, **more)
        with pytest.warns(ConvergenceWarning, match="diverged"):
            return estimator.set_params(solver__step_size=1e4).fit(X)

    reference = fit()
    assert_same(fit(checkpoint=tmp_path / "c", checkpoint_every=0), reference)
    assert_same(fit(checkpoint=tmp_path / "c"), fit())


def test_seconds_and_lines_of_progress_continue_in_a_resumed_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept: Any = {"checkpoint": tmp_path / "c", "verbose": 1}
    first = model("batch", max_iter=3, **kept).fit(X)
    second = model("batch", max_iter=5, **kept).fit(X)
    assert second.history_["seconds"][:4] == first.history_["seconds"]
    epochs = [line.split()[2] for line in capsys.readouterr().out.splitlines()]
    assert epochs == ["1", "2", "3", "4", "5"]
    spent = second.history_["seconds"][-1]
    third = model("batch", max_iter=500, max_time=spent, **kept).fit(X)
    assert third.n_steps_ == 5 and "max_time" in third.stop_reason_


def test_a_resumed_fit_has_the_same_codes(tmp_path: Path) -> None:
    first = model("vr", checkpoint=tmp_path / "c").fit_transform(X)
    np.testing.assert_array_equal(model("vr", checkpoint=tmp_path / "c").fit_transform(X), first)


def test_a_resumed_fit_leaves_a_shared_random_state_as_an_uninterrupted_one(
    interrupted: Any, tmp_path: Path
) -> None:
    kept: Any = {"checkpoint": tmp_path / "c"}
    reference = model("smm", random_state=np.random.RandomState(5)).fit(X)
    interrupted(model("smm", random_state=np.random.RandomState(5), **kept), X, 7)
    shared, untouched = np.random.RandomState(6), np.random.RandomState(6)
    assert_same(model("smm", random_state=shared, **kept).fit(X), reference)
    untouched.randint(2**31 - 1)
    assert shared.randint(1000) == untouched.randint(1000)
    with pytest.raises(ValueError, match="`random_state` was a RandomState and is None"):
        model("smm", random_state=None, **kept).fit(X)


def test_iterate_and_streams_ignore_checkpoints(tmp_path: Path) -> None:
    stream = model("smm", checkpoint=tmp_path / "c")
    next(stream.iterate(X))
    stream.partial_fit(X)
    assert not list(tmp_path.iterdir())


def test_a_warm_start_is_identified_by_its_dictionary(interrupted: Any, tmp_path: Path) -> None:
    path = tmp_path / "c"

    def warm(epochs: int, **options: Any) -> AbstractFactorizer:
        begun = model("vr", warm_start=True, max_iter=epochs).fit(X)
        return begun.set_params(max_iter=4, **options)

    interrupted(warm(1, checkpoint=path), X, 30)
    assert_same(warm(1, checkpoint=path).fit(X), warm(1).fit(X))
    with pytest.raises(
        ValueError, match=r"the starting dictionary was an array of shape .* and is another"
    ):
        warm(2, checkpoint=path).fit(X)
    with pytest.raises(ValueError, match=r"the starting dictionary was an array .* and is not given"):
        model("vr", warm_start=True, checkpoint=path).fit(X)


# Classes of the user's own ----------------------------------------------------------------------


def test_own_terms_are_known_from_the_parameters(interrupted: Any, tmp_path: Path) -> None:
    own: Any = {"name": "matrix-factorization", "code": AsymmetricL1(0.1, 0.2), "dictionary": UnitBall()}
    kept: Any = {"checkpoint": tmp_path / "c"}
    interrupted(model("vr", **own, **kept), X, 20)
    assert_same(model("vr", **own, **kept).fit(X), model("vr", **own).fit(X))
    with pytest.raises(ValueError, match=r"`code__down` was 0.2 and is 0.3"):
        model("vr", **(own | {"code": AsymmetricL1(0.1, 0.3)}), **kept).fit(X)


@dataclass(frozen=True, eq=False)
class Travel:
    """The length of the path of the dictionary."""

    way: Any


@dataclass(frozen=True, eq=False)
class TravellerState(VRState):
    """A state with a value of a class of its own."""

    travel: Travel | None = None


@dataclass(frozen=True)
class Traveller(VR):
    """A user's own solver."""

    def init(self, problem: Any, D: Any, seed: int) -> TravellerState:
        return TravellerState(D=D, seed=seed)

    def step(self, problem: Any, state: Any) -> Any:
        new = super().step(problem, state)
        before = np.float32(0) if state.travel is None else state.travel.way
        assert isinstance(new, TravellerState)
        return dataclasses.replace(new, travel=Travel(before + np.float32(np.abs(new.D - state.D).max())))


@pytest.mark.slow
def test_own_solvers_are_known_by_their_states(interrupted: Any, tmp_path: Path) -> None:
    options: Any = {"checkpoint": tmp_path / "c", "checkpoint_every": 0}
    own = model("vr", **options).set_params(solver=Traveller())
    interrupted(own, X, 20)
    assert_same(own.fit(X), model("vr").set_params(solver=Traveller()).fit(X))
    travelled = saved_state(tmp_path / "c", Traveller()).travel.way
    assert isinstance(travelled, np.float32)  # in double precision it would add up otherwise


def test_what_cannot_be_stored_is_found_at_once(interrupted: Any, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="init is <function"):
        model("vr", init=np.sum, checkpoint=tmp_path / "c").fit(X)

    @dataclass(frozen=True)
    class UnitBall(vrmf.terms.UnitBall):
        """A class with the name of another."""

    terms: Any = {"name": "matrix-factorization", "code": L1(0.1) + NonNegative(), "dictionary": UnitBall()}
    kept: Any = {"checkpoint": tmp_path / "c"}
    interrupted(model("vr", **terms, **kept), X, 20)  # one class of that name alone is known
    model("vr", **terms, **kept).fit(X)
    two = terms | {"outliers": vrmf.terms.UnitBall()}
    with pytest.raises(TypeError, match="is a UnitBall, which could not be read back"):
        model("vr", **two, checkpoint=tmp_path / "d").fit(X)


# What is refused ---------------------------------------------------------------------------------


def saved_state(path: Path, solver: AbstractSolver | None = None) -> Any:
    """Return the state in a checkpoint of NMF, read past the estimator."""
    verify(path)
    with zipfile.ZipFile(path) as archive:
        kind = VRState if solver is None else type(solver.init(Any, np.zeros((3, 6)), 0))  # type: ignore[arg-type]
        reader = Reader(archive, (*vrmf.persistence.archive.VALUES, *declared_types(kind)))
        return reader.decode(reader.manifest()["state"])


def saved_step(path: Path) -> int:
    """Return how many steps a checkpoint has done, after all of it was verified."""
    verify(path)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        node = Reader(archive, ()).manifest()["state"]
        return int(node["fields"]["step"])


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a checkpoint that no test may change."""
    path = tmp_path_factory.mktemp("kept") / "c"
    model("vr", max_iter=2, checkpoint=path).fit(X)
    before = path.read_bytes()
    yield path
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def changed(rows: Any, row: int) -> Any:
    other = rows.copy()
    other[row, 3] = np.nextafter(other[row, 3], np.inf)
    return other


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (X[:-1], "the data had 400 rows and 6 columns and have 399 rows and 6 columns"),
        (X[:, :-1], "the data had 400 rows and 6 columns and have 400 rows and 5 columns"),
        (X.astype(np.float32), "the data were float64 and are float32"),
        (changed(X, 0), "the rows differ"),
        (changed(X, 399), "the rows differ"),
        (changed(X, int(np.linspace(0, 399, 64)[17])), "the rows differ"),
        (X[::-1], "the rows differ"),
    ],
)
def test_other_data_are_refused(rows: Any, message: str, kept: Path) -> None:
    with pytest.raises(ValueError, match=rf"another fit: {message}\. Use another path, or remove the file"):
        model("vr", checkpoint=kept).fit(rows)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 4}, "`n_components` was 3 and is 4"),
        ({"random_state": 1}, "`random_state` was 0 and is 1"),
        ({"random_state": None}, "`random_state` was 0 and is None"),
        ({"alpha": 0.5}, "`alpha` was 'auto' and is 0.5"),
        ({"init": "svd"}, "`init` was 'data' and is 'svd'"),
        ({"init": np.full((3, 6), 1 / 6)}, r"`init` was 'data' and is an array of shape \(3, 6\)"),
        ({"record_every": 3}, "`record_every` was None and is 3"),
        ({"warm_start": True}, "`warm_start` was False and is True"),
        ({"solver": "smm"}, "`solver` was VR and is SMM"),
        ({"name": "robust-pca"}, "`estimator` was NMF and is RobustPCA"),
        ({"name": "robust-pca", "center": True}, "`center` was False and is True"),
    ],
)
def test_other_parameters_are_refused(options: dict[str, Any], message: str, kept: Path) -> None:
    with pytest.raises(ValueError, match=f"another fit: .*{message}.*Use another path, or remove"):
        model(**({"solver": "vr"} | options), checkpoint=kept).fit(X)


def test_every_difference_is_listed(kept: Path) -> None:
    other = model("vr", checkpoint=kept, alpha=0.5).set_params(
        solver=VR(batch_size=7, coder=vrmf.solvers.Coder(tol=1e-3))
    )
    with pytest.raises(ValueError) as told:
        other.fit(X[:50])
    for message in (
        "`alpha`",
        "`solver__batch_size` was 'auto' and is 7",
        "`solver__coder`",
        "the data had",
    ):
        assert message in str(told.value)


def test_equal_parameters_in_another_form_are_the_same_fit(interrupted: Any, tmp_path: Path) -> None:
    """By name or by value, as a list or as a tuple, 1 or 1.0."""
    kept: Any = {"name": "group-dictionary-learning", "checkpoint": tmp_path / "c", "n_components": 4}
    written: Any = {"alpha": 1, "groups": [[0, 1], [2, 3]], "group_weights": (1, 2.0)}
    again: Any = {"alpha": np.float64(1), "groups": ((0, 1), range(2, 4)), "group_weights": [1.0, 2]}
    interrupted(model("smm", **kept, **written), X, 5)
    resumed = model("smm", **kept, **again).set_params(solver=SMM()).fit(X)
    assert_same(resumed, model("smm", **(kept | {"checkpoint": None}), **written).fit(X))
    array: Any = {"init": np.eye(4, 6), "name": "dictionary-learning", "n_components": 4}
    model("smm", **array, checkpoint=tmp_path / "d").fit(X)
    model("smm", **(array | {"init": np.eye(4, 6)}), checkpoint=tmp_path / "d").fit(X)
    with pytest.raises(ValueError, match=r"`init` was an array of shape .* and is another"):
        model("smm", **(array | {"init": np.eye(4, 6)[::-1]}), checkpoint=tmp_path / "d").fit(X)


# Files that are not what they should be ----------------------------------------------------------


def test_every_flipped_byte_is_noticed(kept: Path, tmp_path: Path) -> None:
    path, whole = tmp_path / "c", kept.read_bytes()
    verify(kept)
    rng = generator("flips")
    places = {*range(120), *range(len(whole) - 60, len(whole)), *rng.choice(len(whole), 250).tolist()}
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"is damaged|Upgrade vrmf|version of vrmf that wrote it"):
            verify(path)
    with pytest.raises(ValueError, match=r"is damaged: its checksum .* remove the file to start anew"):
        model("vr", checkpoint=path).fit(X)
    assert path.read_bytes() == damaged


@pytest.mark.parametrize("length", [0, 1, 50, 83, 84, 1000, -1])
def test_a_file_that_was_cut_off_is_noticed(length: int, kept: Path, tmp_path: Path) -> None:
    (tmp_path / "c").write_bytes(kept.read_bytes()[:length])
    with pytest.raises(ValueError, match="is damaged"):
        model("vr", checkpoint=tmp_path / "c").fit(X)


def test_a_newer_format_says_so(kept: Path, tmp_path: Path) -> None:
    newer = kept.read_bytes().replace(b"vrmf-checkpoint 6 ", b"vrmf-checkpoint 7 ", 1)
    (tmp_path / "c").write_bytes(newer)
    with pytest.raises(ValueError, match=r"has version 7 of the format. Upgrade vrmf"):
        model("vr", checkpoint=tmp_path / "c").fit(X)
    assert (tmp_path / "c").read_bytes() == newer


def test_other_files_are_refused_and_left_alone(kept: Path, tmp_path: Path) -> None:
    path = tmp_path / "m"
    vrmf.save(make("nmf").fit(X), path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"is not a checkpoint of vrmf.*such as vrmf.save writes"):
        model("vr", checkpoint=path).fit(X)
    assert path.read_bytes() == before
    path.write_bytes(generator("bytes").bytes(5000))
    with pytest.raises(ValueError, match=r"is not a checkpoint of vrmf.*something else"):
        model("vr", checkpoint=path).fit(X)
    with pytest.raises(ValueError, match="is not a model file of vrmf"):
        vrmf.load(kept)


def test_a_state_of_another_version_is_refused(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(kept, tmp_path / "c")

    @dataclass(frozen=True, eq=False)
    class VRState:
        """A state with other fields than the file."""

    monkeypatch.setattr(VR, "init", lambda self, problem, D, seed: VRState())
    with pytest.raises(ValueError, match=r"does not fit vrmf .* Go on with the version that wrote it"):
        model("vr", checkpoint=tmp_path / "c").fit(X)


def resealed(path: Path, manifest: Any, members: dict[str, bytes]) -> None:
    """Write a checkpoint whose checksum is right, whatever it holds."""
    archive = io.BytesIO()
    write_members(archive, members | {"manifest.json": json.dumps(manifest).encode()})
    content = archive.getvalue()
    digest = checkpoint._digest()
    digest.update(content)
    path.write_bytes(checkpoint._header(digest.hexdigest()) + content)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_whatever_is_changed_in_a_sealed_file_it_goes_on_or_is_refused(kept: Path, tmp_path: Path) -> None:
    path, rng = tmp_path / "c", generator("resealed")
    members = members_of(kept)
    others: list[Any] = [None, True, -1, 10**30, "word", [], {}, {"$": "float", "value": "nan"}]
    for _ in range(150):
        manifest = json.loads(members["manifest.json"])
        every = containers({name: manifest[name] for name in manifest if name != "fingerprint"})
        node = every[rng.integers(1, len(every))]
        key = rng.choice(list(node)) if isinstance(node, dict) else int(rng.integers(len(node)))
        node[key] = others[rng.integers(len(others))]
        resealed(path, manifest, members)
        try:
            model("vr", max_iter=2, checkpoint=path).fit(X)
        except ValueError as error:
            assert str(error).startswith(str(path)), repr(error)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_arrays_of_other_shapes_in_a_sealed_file_are_refused_by_its_name(
    kept: Path, tmp_path: Path
) -> None:
    path = tmp_path / "c"
    members = members_of(kept)
    manifest, refused = json.loads(members["manifest.json"]), 0
    for name in [name for name in members if name.endswith(".npy")]:
        file = io.BytesIO()
        np.save(file, np.ones((2, 9)))
        resealed(path, manifest, members | {name: file.getvalue()})
        try:
            model("vr", max_iter=4, checkpoint=path).fit(X)
        except ValueError as error:
            assert str(error).startswith(str(path)), f"{name}: {error!r}"
            refused += 1
    assert refused > 3


def test_bad_places_are_found_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vrmf.NMF, "_start", lambda *arguments: pytest.fail("the work began"))
    for place, message in [
        (tmp_path / "missing" / "c", "there is no folder .* Create it"),
        (tmp_path, "which is a folder or a device. Use the path of a file"),
        (Path(os.devnull), "which is a folder or a device"),
        (tmp_path / ("long" * 100), "no file can be written there .* Use another path"),
        (3, "`checkpoint` is 3. Use the path of a file, or None"),
    ]:
        with pytest.raises(ValueError, match=message):
            model("vr", checkpoint=place).fit(X)
    with pytest.raises(ValueError, match=r"`checkpoint_every` is -1. Use a finite number of at least 0"):
        model("vr", checkpoint_every=-1).fit(X)


def test_a_save_that_fails_leaves_the_old_file(
    interrupted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c"
    interrupted(model("vr", checkpoint=path), X, 10)

    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space") as told:
            model("vr", checkpoint=path, checkpoint_every=0).fit(X)
    assert "could not be brought up to date" in told.value.__notes__[0]
    assert saved_step(path) == 10 and list(tmp_path.iterdir()) == [path]
    assert_same(model("vr", checkpoint=path).fit(X), model("vr").fit(X))


def test_partial_files_are_removed_unless_their_process_runs(tmp_path: Path) -> None:
    path = tmp_path / "c"
    dead, living, other = (tmp_path / name for name in (f".c.{2**22 + 1}-a.partial", "", ".d.1-a.partial"))
    living = tmp_path / f".c.{os.getpid()}-b.partial"
    for file in (dead, living, other):
        file.write_bytes(b"half")
    remove_leftovers(path)
    assert not dead.exists() and living.exists() and other.exists()
    os.utime(living, (0, 0))
    remove_leftovers(path)
    assert not living.exists()


def test_a_checkpoint_through_a_link_keeps_the_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "c").symlink_to(tmp_path / "elsewhere" / "c")
    model("batch", max_iter=2, checkpoint=tmp_path / "c").fit(X)
    assert (tmp_path / "c").is_symlink() and saved_step(tmp_path / "elsewhere" / "c") == 2


def test_models_without_these_parameters_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "m"
    vrmf.save(make("nmf", checkpoint=tmp_path / "c").fit(X), path)
    assert vrmf.load(path).checkpoint == os.fspath(tmp_path / "c")
    members = members_of(path)
    manifest = json.loads(members["manifest.json"])
    for name in ("checkpoint", "checkpoint_every"):
        del manifest["params"]["items"][name]
    write_members(path, members | {"manifest.json": json.dumps(manifest).encode()})
    assert vrmf.load(path).checkpoint is None


# Arrays ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_large_arrays_are_not_copied(tmp_path: Path) -> None:
    """Arrays are written and read in pieces, also memory-mapped ones, and keep the order of entries."""
    size = 2**26
    mapped = np.memmap(tmp_path / "codes", dtype=np.float64, mode="w+", shape=(size // 80, 10), order="F")
    mapped[:] = np.arange(10)
    state = VRState(D=np.eye(2), seed=0, point=mapped)
    checkpoint = vrmf.persistence.checkpoint.Checkpoint(tmp_path / "c", 0, {"parameters": {}, "data": {}})
    history = History()
    current = Iterate(state.D, 0, 0, 0.0, 0.0, state, Stage(model("vr").fit(X).formulation_, state.D, 0))
    history.add(current)
    tracemalloc.start()
    try:
        checkpoint.write(current, history)
        assert tracemalloc.get_traced_memory()[1] < size // 2
        tracemalloc.reset_peak()
        came = saved_state(tmp_path / "c").point
        assert tracemalloc.get_traced_memory()[1] < 1.25 * size
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(came, mapped)
    assert came.flags.f_contiguous and came.flags.writeable


def test_all_types_inside_a_value_are_found() -> None:
    assert types_in({"a": [L1(1.0) + NonNegative()], "b": 3}) == {L1, NonNegative, vrmf.terms.Sum}
    names = {kind.__name__ for kind in declared_types(VRState)}
    assert names >= {"VRState", "SMMState", "Anchor", "Stats", "WorstRows", "Usage", "Measurement"}


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(Interruption), replacing(tmp_path / "c") as file:
        file.write(b"half")
        raise Interruption
    assert not list(tmp_path.iterdir())


# Kills -------------------------------------------------------------------------------------------

KILLS = 7  #: for each solver


@pytest.fixture(scope="module")
def fork_server() -> None:
    """Have processes forked with all kernels loaded."""
    start_fork_server()


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
def test_killed_fits_end_with_the_bits_of_an_uninterrupted_fit(
    solver: str, fork_server: None, tmp_path: Path
) -> None:
    rng, reference, path = generator(f"kills {solver}"), model(solver).fit(X), tmp_path / "c"
    pause = 1 / reference.n_steps_
    kills, finished, steps = 0, 0, [0]
    while kills < KILLS:
        # A third of the processes are killed while they start, the others in steps and while they save.
        moment = ("begins", rng.uniform(0, 0.1)) if kills % 3 == 2 else ("steps", rng.uniform(0.02, 0.25))
        if is_killed(solver, path, pause, *moment):
            kills += 1
            steps.append(saved_step(path) if path.exists() else 0)
            assert steps[-1] >= steps[-2]
        else:
            finished += 1
            resumed = model(solver, checkpoint=path).fit(X)
            np.testing.assert_array_equal(resumed.components_, reference.components_)
            path.unlink()
            steps.append(0)
    assert finished <= KILLS // 2 and len(set(steps)) >= KILLS // 2
    assert_same(model(solver, checkpoint=path).fit(X), reference)
    assert list(tmp_path.iterdir()) == [path]
