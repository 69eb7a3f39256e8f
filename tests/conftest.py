"""Which tests are slow: those that say so, pages of documentation, and all but one case of each law.

``make test-quick`` leaves them out. What is left runs each part of the library once.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterable

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.path.suffix == ".md":
            item.add_marker(pytest.mark.slow)
        cases[item.nodeid.partition("[")[0]].append(item)
    for name, each in cases.items():
        for item in all_but_one(name, each):
            item.add_marker(pytest.mark.slow)


def all_but_one(name: str, cases: list[pytest.Item]) -> Iterable[pytest.Item]:
    """Return all cases of a test but one, which differs from test to test but not from run to run.

    Tests over the same table thus run different lines of it.
    """
    chosen = zlib.crc32(name.encode()) % len(cases)
    return (case for place, case in enumerate(cases) if place != chosen)
