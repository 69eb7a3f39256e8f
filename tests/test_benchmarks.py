"""The reports of benchmarks are those that their results on file make."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import (
    certificate,
    clusters,
    coding_figures,
    nmf_error,
    out_of_core_tables,
    recovery_report,
    scale_model,
    solver_figures,
    solver_tables,
    start_report,
    suggest,
)
from benchmarks.common import RESULTS, read

#: Pages of tables, and how they are made.
PAGES: dict[str, Callable[[], str]] = {
    "certificate": lambda: certificate.markdown(read("certificate")),
    "coding": lambda: coding_figures.markdown(read("coding")),
    "distributed": lambda: clusters.markdown(read("distributed")),
    "nmf_error": lambda: nmf_error.table(read("nmf_error")["runs"]),
    "out_of_core": lambda: out_of_core_tables.markdown(read("out_of_core")),
    "scale": lambda: scale_model.markdown(read("distributed")),
    "solvers": lambda: solver_tables.markdown(read("solvers")),
    "suggest": lambda: suggest.page(read("suggest")),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_tables_is_made_of_the_results_on_file(name: str) -> None:
    assert PAGES[name]() == (RESULTS / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["recovery", "starts"])
def test_a_page_with_figures_is_made_of_the_results_on_file(name: str, tmp_path: Path) -> None:
    report = {"recovery": recovery_report.report, "starts": start_report.report}[name]
    report(read(name), tmp_path)
    assert (tmp_path / f"{name}.md").read_text(encoding="utf-8") == (RESULTS / f"{name}.md").read_text(
        encoding="utf-8"
    )
    assert list(tmp_path.glob("*.svg"))


@pytest.mark.parametrize(
    ("name", "draw"), [("coding", coding_figures.draw), ("solver", solver_figures.draw)]
)
def test_all_figures_are_drawn_from_the_results_on_file(
    name: str, draw: Callable[[Any, Path], None], tmp_path: Path
) -> None:
    draw(read({"solver": "solvers"}.get(name, name)), tmp_path)
    assert {path.name for path in tmp_path.glob("*.svg")} == {
        path.name for path in RESULTS.glob(f"{name}_*.svg")
    }
