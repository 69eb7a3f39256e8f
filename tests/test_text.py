"""Text files: separators, headers and indices are detected and reported; errors name the remedy."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from vrmf.sources import spool, text
from vrmf.sources.files import open_table
from vrmf.sources.options import FileOptions
from vrmf.sources.spool import Spool
from vrmf.sources.tables import AbstractTable

#: Numbers below places on an axis.
AXIS = "400,401.5,403,404.5\n" + "1.1,2.2,3.1,2\n1.3,2.5,3.4,2.2\n" * 3

#: Texts, what is said of how to read them, names of features and rows, and rows.
READ = {
    "plain": ("a,b\n1,2\n3,4\n", {}, ("a", "b"), None, [[1, 2], [3, 4]]),
    "no names": ("1,2\n3,4\n", {}, None, None, [[1, 2], [3, 4]]),
    "names that are numbers": ("1,2\n3,4\n", {"header": True}, ("1", "2"), None, [[3, 4]]),
    "an index without a name": (",a,b\nx,1,2\ny,3,4\n", {}, ("a", "b"), ["x", "y"], [[1, 2], [3, 4]]),
    "an index of words": ("gene\ta\tb\nx\t1\t2\ny\t3\t4\n", {}, ("a", "b"), ["x", "y"], [[1, 2], [3, 4]]),
    "an index that counts": ("id,a\n7,1\n8,2\n", {}, ("a",), ["7", "8"], [[1], [2]]),
    "an identifier that does not count": ("id,a\n7,1\n3,2\n", {}, ("a",), ["7", "3"], [[1], [2]]),
    "an identifier that is a feature": (
        "id,a\n7,1\n3,2\n",
        {"index": False},
        ("id", "a"),
        None,
        [[7, 1], [3, 2]],
    ),
    "an identifier of a model": ("id,a\n7,1\n3,2\n", {"only": ("id", "a")}, ("id", "a"), None, None),
    "an identifier that occurs twice": ("id,a\n7,1\n7,2\n", {}, ("id", "a"), None, None),
    "an identifier of fractions": ("id,a\n7.5,1\n3,2\n", {}, ("id", "a"), None, None),
    "whole numbers": ("area,a\n7,1\n3,2\n", {}, ("area", "a"), None, None),
    "names by R": ("a,b\nx,1,2\ny,3,4\n", {}, ("a", "b"), ["x", "y"], [[1, 2], [3, 4]]),
    "quotes": ('"a, 1";"b\n2"\n"1";2\n', {}, ("a, 1", "b\n2"), None, [[1, 2]]),
    "decimal comma": ("a;b\n1,5;2\n", {"decimal": ","}, ("a", "b"), None, [[1.5, 2]]),
    "spaces": ("a b\n1 2\n", {}, ("a", "b"), None, [[1, 2]]),
    "a bar": ("a|b\n1|2\n", {}, ("a", "b"), None, [[1, 2]]),
    "one column": ("a\n1\n2\n", {}, ("a",), None, [[1], [2]]),
    "comments": ("# by hand\n# twice\na,b\n1,2\n", {}, ("a", "b"), None, [[1, 2]]),
    "empty lines": ("a,b\n1,2\n\n3,4\n\n", {}, ("a", "b"), None, [[1, 2], [3, 4]]),
    "a mark of the order of bytes": ("\ufeffa,b\n1,2\n", {}, ("a", "b"), None, [[1, 2]]),
    "other marks of missing entries": (
        "a,b\n - ,4\n1,--\n.,3\n2,n.a.\n",
        {},
        ("a", "b"),
        None,
        [[np.nan, 4], [1, np.nan], [np.nan, 3], [2, np.nan]],
    ),
    "a separator at the end": ("a,b,\n1,2,\n3,4,\n", {}, ("a", "b"), None, [[1, 2], [3, 4]]),
    "separators at the end": ("a,b,,\n1,2,,\n3,4,,\n", {}, ("a", "b"), None, [[1, 2], [3, 4]]),
    "a separator at the end of rows": ("a,b\n1,2,\n3,4,\n", {}, ("a", "b"), None, [[1, 2], [3, 4]]),
    "a separator at the end and no names": ("1,2,\n3,4,\n", {}, None, None, [[1, 2], [3, 4]]),
    "an empty column with a name": ("a,b\n1,\n3,\n", {}, ("a", "b"), None, [[1, np.nan], [3, np.nan]]),
    "missing": ("a,b\n1,NA\n,4\nnan,?\n", {}, ("a", "b"), None, [[1, np.nan], [np.nan, 4], [np.nan] * 2]),
    "left out": ("a,t,b\n1,x,2\n3,y,4\n", {"drop": ("t",)}, ("a", "b"), None, [[1, 2], [3, 4]]),
    "an index by name": ("a,t\n1,x\n3,x\n", {"index": "t"}, ("a",), ["x", "x"], [[1], [3]]),
    "an index that was filtered": (",a,b\n0,1,2\n5,3,4\n15,5,6\n", {}, ("a", "b"), ["0", "5", "15"], None),
    "an index that was shuffled": (",a\n2,1\n0,3\n1,5\n", {}, ("a",), ["2", "0", "1"], None),
    "an unnamed feature": (",a\n2,1\n2,3\n", {}, ("", "a"), None, None),
    "an unnamed feature of fractions": (",a\n.5,1\n2,3\n", {}, ("", "a"), None, None),
    "wavelengths beside names of rows": (
        "sample,400.0,401.5\ns0,1.1,2.2\ns1,1.2,2\n",
        {},
        ("400.0", "401.5"),
        ["s0", "s1"],
        None,
    ),
    "wavelengths beside other names": (
        "pixel,400,401\np0,1,2\np1,1,2\n",
        {},
        ("400", "401"),
        ["p0", "p1"],
        None,
    ),
    "wavelengths": (AXIS, {}, ("400", "401.5", "403", "404.5"), None, None),
    "wavelengths before text": (
        "\n".join(f"{line},{word}" for line, word in zip(AXIS.split(), "tuvwxyz", strict=True)),
        {"drop": ("t",)},
        ("400", "401.5", "403", "404.5"),
        None,
        None,
    ),
    "years that fall": (
        "1993,1992,1991,1990\n" + "1,2,3,4\n5,5,4,5\n" * 3,
        {},
        ("1993", "1992", "1991", "1990"),
        None,
        None,
    ),
    "numbers that rise": ("1,2,3,4\n2,1,4,3\n5,4,3,2\n4,3,2,0\n0,3,2,4\n0,0,0,9\n", {}, None, None, None),
    "a first row that is large": ("90,20,70,80\n" + "2,1,4,3\n0,0,0,9\n" * 3, {}, None, None, None),
    "names of rows without a header": ("s0,1,2\ns1,2,4\ns2,3,1\n", {}, None, ["s0", "s1", "s2"], None),
    "Windows": ("a,b\r\n1,2\r\n", {}, ("a", "b"), None, [[1, 2]]),
}

#: Texts that are refused, what is said of how to read them, and what is said of them.
REFUSED = {
    "text": ("a,t,b\n1,x,2\n", {}, r"'t' holds text, such as 'x'.*--drop t\).*--index t"),
    "more text": (
        "a,t,u\n1,x,y\n",
        {},
        r"'t' holds text, such as 'x', and so does 1 other.*--drop t --drop u",
    ),
    "one sign only": ("a,t\n1,-\n2,-\n", {}, r"'t' holds text, such as '-'.*--drop t\)"),
    "an entry below a limit": (
        "a,b\n1,2\n<LOD,3\n3,4\n",
        {},
        r"1 entry of 1 column that otherwise holds numbers holds text, such as '<LOD' in the column 'a'",
    ),
    "entries below a limit": (
        "a,b\n1,<LOD\n<LOD,3\n3,4\n4,5\n",
        {},
        "2 entries of 2 columns that otherwise hold numbers are '<LOD' in the column 'a'",
    ),
    "text beside entries below a limit": (
        "a,b,t\n1,2,x\n<LOD,3,x\n3,4,y\n",
        {},
        r"'t' holds text, such as 'x'\. Leave it out \(--drop t\)",
    ),
    "nothing but text": ("t,u\nx,y\nx,y\n", {}, "no column holds numbers"),
    "late text": ("a,b\n" + "1,2\n" * 500 + "1,oops\n", {}, "'b' holds 'oops' in line 502, which is no"),
    "a short line": ("a,b\n" + "1,2\n" * 500 + "1\n", {}, "line 502 has 1 columns, where 2 are expected"),
    "ragged": ("a,b\n1,2\n1\n2;3;4\n", {}, "cannot be cut into columns.*--separator"),
    "a comma for a point": (
        "a;b\n1,5;2\n2,5;3\n",
        {},
        r"'a' holds '1,5'. If that is a decimal comma.*--decimal",
    ),
    "a name twice": ("a,a\n1,2\n", {}, "'a' occurs twice"),
    "nothing": ("\n", {}, "is empty"),
    "names only": ("a,b\n", {}, "has names of columns, but no rows"),
    "no such column": (
        "a,size\n1,2\n",
        {"drop": ("siez",)},
        "'siez', which is no column. Did you mean 'size'",
    ),
    "a column without a header": (
        "1,2\n3,4\n",
        {"drop": ("size",)},
        r"'size', which is no column\. The file seems to have no names of columns.*\(--header\)",
    ),
    "a model with names": ("1,2\n3,4\n", {"only": ("f0",)}, r"'f0'.*seems to have no names.*--header"),
    "no such index": ("a,b\n1,2\n", {"index": "x"}, "'x', which is no column. Use one of 'a', 'b'"),
}


def table(folder: Path, content: str, name: str = "rows.csv", **options: object) -> AbstractTable:
    (folder / name).write_bytes(content.encode())
    return open_table(folder / name, FileOptions(**options))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", READ)
def test_separators_headers_and_indices_are_detected(name: str, tmp_path: Path) -> None:
    content, options, features, names, rows = READ[name]
    found = table(tmp_path, content, **options)  # type: ignore[arg-type]
    assert found.feature_names == features
    assert found.row_names(0, found.shape[0]) == names
    if rows is not None:
        np.testing.assert_array_equal(found.read(0, found.shape[0]), np.array(rows, dtype=float))
    assert any(word.startswith("separator") for word in found.remarks)


@pytest.mark.parametrize("name", ["ID", "sample", "patient_id", "cell_id", "Patient", "user", "CellID"])
def test_numbers_below_a_word_for_rows_are_their_names_with_a_remark(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    ids, X = rng.permutation(10**6)[:300], rng.random((300, 4))
    lines = [f"{i}," + ",".join(map(repr, row)) for i, row in zip(ids, X.tolist(), strict=True)]
    found = table(tmp_path, "\n".join([f"{name},a,b,c,d", *lines]))
    assert found.feature_names == tuple("abcd") and found.row_label == name
    assert found.row_names(0, 2) == [str(i) for i in ids[:2]]
    assert any(f"'{name}', which holds numbers (--no-index" in told for told in found.remarks)


def test_empty_columns_are_left_out_with_a_remark(tmp_path: Path) -> None:
    assert "without the last column, empty and nameless" in table(tmp_path, "a,b,\n1,2,\n").remarks
    told = table(tmp_path, "a,b,,\n1,2,,\n").remarks
    assert "without the last 2 columns, empty and nameless" in told


@pytest.mark.parametrize(
    ("content", "is_doubted"),
    [
        ("400,401.5,403\n1,2,3\n4,3,2\n", True),  # too few to be sure
        ("1990,1991,1992,1993\n900,3000,2500,10\n2500,1800,1500,9000\n", True),  # equal steps
        ("7,5,8,1\n1,2,3,2\n4,3,2,5\n", False),
        ("1,3,4,7\n1,2,3,9\n4,3,2,5\n", False),
    ],
)
def test_a_first_line_that_may_hold_names_has_a_remark(
    content: str, is_doubted: bool, tmp_path: Path
) -> None:
    found = table(tmp_path, content)
    assert found.feature_names is None
    assert any("then say --header" in told for told in found.remarks) is is_doubted
    for header in (True, False):
        told = table(tmp_path, content, header=header).remarks
        assert not any("then say --header" in remark for remark in told)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_with_a_text_is_named_with_its_remedy(name: str, tmp_path: Path) -> None:
    content, options, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        table(tmp_path, content, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decimal": "x"}, "`decimal` is 'x'. Use a point or a comma"),
        ({"separator": ";;"}, "`separator` is ';;'. Use one sign"),
        ({"separator": ",", "decimal": ","}, "`separator` and `decimal` are both ','"),
        ({"drop": ("a", "a")}, "`drop` names 'a' twice"),
        ({"drop": ("a",), "index": "a"}, "'a' is both `index` and in `drop`"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FileOptions(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("option", [{"drop": ("a",)}, {"index": "a"}, {"separator": ";"}, {"header": True}])
def test_options_that_say_nothing_of_a_file_are_refused(option: dict[str, object], tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.eye(3))
    with pytest.raises(ValueError, match=r"says nothing of .*rows\.npy"):
        open_table(tmp_path / "rows.npy", FileOptions(**option))  # type: ignore[arg-type]


def test_other_encodings_are_read_or_named(tmp_path: Path) -> None:
    (tmp_path / "latin.csv").write_bytes("größe,b\n1,2\n".encode("latin-1"))
    found = open_table(tmp_path / "latin.csv")
    assert found.feature_names == ("größe", "b") and "encoding latin-1" in found.remarks
    (tmp_path / "wide.csv").write_bytes("a,b\n1,2\n".encode("utf-16"))
    with pytest.raises(ValueError, match="is no text in UTF-8"):
        open_table(tmp_path / "wide.csv")


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 10_000)[:-20])
    with pytest.raises(ValueError, match=r"rows\.csv\.gz"):
        open_table(tmp_path / "rows.csv.gz")


def test_a_large_text_goes_to_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).random((2000, 5))
    content = "\n".join(",".join(map(repr, row)) for row in X.tolist())
    small = table(tmp_path, content)
    monkeypatch.setattr(spool, "MEMORY_BYTES", 10_000)
    monkeypatch.setattr(text, "BLOCK_BYTES", 2000)
    large = table(tmp_path, content)
    assert small.in_memory and not large.in_memory
    for found in (small, large):
        np.testing.assert_array_equal(found.read(0, 2000), X)


def test_a_spool_keeps_rows_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.arange(60.0).reshape(20, 3)
    for limit in (10**6, 100, 0):
        monkeypatch.setattr(spool, "MEMORY_BYTES", limit)
        with Spool(3, X.dtype) as rows:
            for block in (X[:7], X[7:7], X[7:]):
                rows.add(block)
            np.testing.assert_array_equal(rows.rows(), X)
    assert Spool(4, X.dtype).rows().shape == (0, 4)
