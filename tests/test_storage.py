"""Models survive a file bit for bit, and a file cannot do harm."""

from __future__ import annotations

import json
import pickle
import zipfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import vrmf
from tables import AsymmetricL1, generator
from vrmf.estimators import ESTIMATORS, AbstractFactorizer
from vrmf.solvers import SGD, VR
from vrmf.terms import L1, NonNegative, UnitBall, grid_laplacian
from zip_files import containers, members_of, write_members

X = np.abs(generator("storage").normal(size=(30, 6)))
OPTIONS: dict[str, dict[str, Any]] = {
    "group-dictionary-learning": {"groups": [[0, 1], [1, 2]], "group_weights": (1.0, 2.0)},
    "smooth-dictionary-learning": {"laplacian": grid_laplacian(2, 3)},
    "low-rank-representation": {"basis": X[:4]},
    "matrix-factorization": {"code": L1(0.1) + NonNegative(), "dictionary": UnitBall()},
}


def fitted(name: str, **options: Any) -> AbstractFactorizer:
    model = ESTIMATORS[name](3, random_state=0, max_iter=2, tol=0, **(OPTIONS.get(name, {}) | options))
    return model.fit(X)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_model_comes_back_bit_for_bit(name: str, tmp_path: Path) -> None:
    model = fitted(name)
    vrmf.save(model, tmp_path / "model.vrmf")
    same = vrmf.load(tmp_path / "model.vrmf")
    assert type(same) is type(model)
    np.testing.assert_equal(same.history_, model.history_)
    assert same.formulation_ == model.formulation_ and same.solver_ == model.solver_
    assert same.stop_reason_ == model.stop_reason_ and same.n_iter_ == model.n_iter_
    for ours, theirs in zip(same.decompose(X), model.decompose(X), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for each in (same, model):
        each.partial_fit(X[:7])
    np.testing.assert_array_equal(same.components_, model.components_)
    assert same.fit(X).objective_ == model.fit(X).objective_


def test_streams_go_on_where_they_were(tmp_path: Path) -> None:
    model = vrmf.NMF(2, solver=SGD(scale=0.1), random_state=0)
    for start in (0, 9, 18):
        model.partial_fit(X[start : start + 9])
    vrmf.save(model, tmp_path / "stream")
    same = vrmf.load(tmp_path / "stream").partial_fit(X[27:])
    np.testing.assert_array_equal(same.components_, model.partial_fit(X[27:]).components_)


def test_names_of_features_single_precision_and_output_settings_are_kept(tmp_path: Path) -> None:
    frame = pd.DataFrame(X.astype(np.float32), columns=list("abcdef"))
    model = vrmf.RobustPCA(2, solver=VR(batch_size=10), max_iter=1, tol=0, random_state=0).fit(frame)
    vrmf.save(model.set_output(transform="pandas"), tmp_path / "m")
    same = vrmf.load(tmp_path / "m")
    assert list(same.feature_names_in_) == list("abcdef")
    assert same.components_.dtype == np.float32
    codes: Any = same.transform(frame)
    assert list(codes.columns) == ["robustpca0", "robustpca1"]


def test_an_unfitted_model_is_saved_without_its_random_state(tmp_path: Path) -> None:
    model = vrmf.NMF(4, alpha=0.5, random_state=np.random.RandomState(0))
    vrmf.save(model, tmp_path / "m")
    same = vrmf.load(tmp_path / "m")
    assert same.get_params() == model.get_params() | {"random_state": None}


def test_own_terms_need_their_classes(tmp_path: Path) -> None:
    model = vrmf.MatrixFactorization(2, code=AsymmetricL1(0.1, 0.2), max_iter=1, tol=0, random_state=0)
    vrmf.save(model.fit(X), tmp_path / "m")
    with pytest.raises(ValueError, match=r"uses AsymmetricL1.*load\(path, terms=\[AsymmetricL1\]\)"):
        vrmf.load(tmp_path / "m")
    same = vrmf.load(tmp_path / "m", terms=[AsymmetricL1])
    np.testing.assert_array_equal(same.transform(X), model.transform(X))


def test_what_cannot_be_stored_is_refused_and_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "m"
    vrmf.save(vrmf.NMF(2), path)
    before = path.read_bytes()
    with pytest.raises(TypeError, match="init is <function"):
        vrmf.save(vrmf.NMF(2, init=np.sum), path)
    with pytest.raises(TypeError, match="Use one of vrmf's estimators"):
        vrmf.save("no model", path)  # type: ignore[arg-type]
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def rewritten(path: Path, compression: int = zipfile.ZIP_STORED, **changes: Any) -> None:
    members = members_of(path)
    manifest = json.loads(members["manifest.json"]) | changes
    members["manifest.json"] = json.dumps(manifest).encode()
    write_members(path, members, compression)


@pytest.mark.parametrize(
    "changes",
    [
        {"format": "other"},
        {"estimator": "os.system"},
        {"params": {"$": "dict", "items": {"no_parameter": 1}}},
        {"params": {"$": "call", "items": []}},
        {"attributes": {"$": "array", "member": "../../etc/passwd"}},
        {"compression": zipfile.ZIP_DEFLATED},
    ],
    ids=["format", "estimator", "parameter", "kind", "member", "compressed"],
)
def test_damaged_and_hostile_files_are_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "m"
    vrmf.save(fitted("nmf"), path)
    rewritten(path, **changes)
    with pytest.raises(ValueError, match="is not a model file of vrmf, or is damaged"):
        vrmf.load(path)


def test_files_that_are_no_archives_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(ValueError, match="is not a model file of vrmf"):
        vrmf.load(path)
    with pytest.raises(FileNotFoundError):
        vrmf.load(tmp_path / "missing")


def test_a_newer_format_says_so(tmp_path: Path) -> None:
    vrmf.save(fitted("nmf"), tmp_path / "m")
    rewritten(tmp_path / "m", version=99)
    with pytest.raises(ValueError, match=r"has version 99 of the format.*Upgrade vrmf"):
        vrmf.load(tmp_path / "m")


def test_a_header_that_promises_more_than_there_is_allocates_nothing(tmp_path: Path) -> None:
    path = tmp_path / "m"
    vrmf.save(fitted("nmf"), path)
    members = members_of(path)
    name = next(name for name in members if name.endswith("components_.npy"))
    assert b"(3, 6)" in members[name]
    members[name] = members[name].replace(b"(3, 6), }" + b" " * 13, b"(3000000000000, 6), }", 1)
    assert b"(3000000000000, 6)" in members[name]
    write_members(path, members)
    with pytest.raises(ValueError, match="is not a model file of vrmf, or is damaged"):
        vrmf.load(path)


def test_indices_outside_of_a_sparse_matrix_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m"
    vrmf.save(fitted("smooth-dictionary-learning"), path)
    members = members_of(path)
    for name in members:
        if name.endswith("indices.npy"):
            header, entries = members[name][:128], np.frombuffer(members[name][128:], dtype=np.int32)
            members[name] = header + np.full_like(entries, 2**28).tobytes()
    write_members(path, members)
    with pytest.raises(ValueError, match="ind"):
        vrmf.load(path)


def test_deep_nesting_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", b"[" * 100_000)
    with pytest.raises(ValueError, match="is not a model file of vrmf"):
        vrmf.load(path)


def test_groups_of_unequal_length_in_an_array_come_back(tmp_path: Path) -> None:
    groups = np.empty(2, dtype=object)
    groups[:] = [[0, 1], [2]]
    vrmf.save(vrmf.GroupDictionaryLearning(3, groups=groups), tmp_path / "m")
    same: Any = vrmf.load(tmp_path / "m")
    assert same.groups == [[0, 1], [2]]


# Files that somebody has changed --------------------------------------------------------------------


@pytest.mark.slow
def test_whatever_is_changed_in_a_file_it_is_read_or_refused_in_one_way(tmp_path: Path) -> None:
    path, place = tmp_path / "whole", tmp_path / "changed"
    vrmf.save(fitted("smooth-dictionary-learning"), path)
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(rng.integers(1, 4)):
            data[rng.integers(len(data))] = rng.integers(256)
        place.write_bytes(data[: rng.integers(len(data))] if rng.random() < 0.1 else data)
        try:
            vrmf.load(place)
        except ValueError as error:
            assert str(error).startswith(str(place))


@pytest.mark.slow
def test_whatever_is_changed_in_a_manifest_it_is_read_or_refused_in_one_way(tmp_path: Path) -> None:
    path, rng = tmp_path / "m", np.random.default_rng(0)
    vrmf.save(fitted("group-dictionary-learning"), path)
    with zipfile.ZipFile(path) as archive:
        text = archive.read("manifest.json")
    array = {"$": "array", "member": "manifest.json"}
    others: list[Any] = [None, True, -1, 10**30, 1e300, "word", [], {}, array]
    for _ in range(300):
        manifest = json.loads(text)
        every = containers(manifest)
        node = every[rng.integers(len(every))]
        key = rng.choice(list(node)) if isinstance(node, dict) else int(rng.integers(len(node)))
        node[key] = others[rng.integers(len(others))]
        rewritten(path, **manifest)
        try:
            vrmf.load(path)
        except ValueError as error:
            assert str(error).startswith(str(path))


def test_a_member_that_is_named_often_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "m"
    vrmf.save(vrmf.NMF(2, init=np.ones((2, 50_000))), path)
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    array = manifest["params"]["items"]["init"]
    manifest["params"]["items"]["init"] = {"$": "list", "items": [array] * 1000}
    rewritten(path, **manifest)
    with pytest.raises(ValueError, match="Its arrays are larger than the file"):
        vrmf.load(path)


def _chain(length: int) -> Any:
    whole = {"$": "tuple", "items": list(range(length))}
    return {"$": "tuple", "items": [whole, {"$": "tuple", "items": [length + 1]}]}


def _many(count: int) -> Any:
    return {"$": "tuple", "items": [{"$": "value", "type": "Simplex", "fields": {}}] * count}


def test_numbers_in_a_manifest_allocate_nothing(tmp_path: Path) -> None:
    path = tmp_path / "m"
    term = {"$": "value", "type": "GroupL2"}
    groups = {"$": "tuple", "items": [{"$": "tuple", "items": [0]}, {"$": "tuple", "items": [10**12]}]}
    for node, words in (
        (term | {"fields": {"groups": groups, "weights": None}}, "leaves out the column 1"),
        ({"$": "scalar", "dtype": "V1000000000", "value": 0}, "a value is of type"),
        (term | {"fields": {"groups": _chain(50_000), "weights": None}}, "leaves out the column 50000"),
        ({"$": "value", "type": "Sum", "fields": {"terms": _many(12), "iterative": True}}, "at most 6"),
        ({"$": "scalar", "dtype": "O", "value": 0}, "a value is of type"),
    ):
        vrmf.save(vrmf.NMF(2), path)
        params = {"$": "dict", "items": {"init": node}}
        rewritten(path, params=params)
        with pytest.raises(ValueError, match=words):
            vrmf.load(path)


@pytest.mark.parametrize("name", ["fit", "__class__", "_nonnegative", "transform", "n_components"])
def test_a_file_sets_fitted_attributes_only(name: str, tmp_path: Path) -> None:
    path = tmp_path / "m"
    vrmf.save(vrmf.NMF(2), path)
    rewritten(path, attributes={"$": "dict", "items": {name: 1}})
    with pytest.raises(ValueError, match=f"has no attribute '{name}'"):
        vrmf.load(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_features_in_", 7),
        ("n_features_in_", None),
        ("components_", 1.0),
        ("mean_", {"$": "list", "items": []}),
    ],
)
def test_shapes_in_a_file_agree(name: str, value: Any, tmp_path: Path) -> None:
    path = tmp_path / "m"
    vrmf.save(fitted("nmf"), path)
    with zipfile.ZipFile(path) as archive:
        attributes = json.loads(archive.read("manifest.json"))["attributes"]
    attributes["items"][name] = value
    rewritten(path, attributes=attributes)
    with pytest.raises(ValueError, match="does not fit its features"):
        vrmf.load(path)


@pytest.mark.parametrize("alpha", [np.longdouble(0.5), Fraction(1, 2), np.float32(0.5)])
def test_numbers_of_any_type_come_back(alpha: Any, tmp_path: Path) -> None:
    vrmf.save(vrmf.NMF(2, alpha=alpha), tmp_path / "m")
    assert vrmf.load(tmp_path / "m").get_params()["alpha"] == 0.5
    vrmf.NMF(2, alpha=alpha, max_iter=1, tol=0, checkpoint=tmp_path / "c").fit(X)
