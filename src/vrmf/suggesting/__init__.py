"""Suggestions: which model, how many components and which weights suit some data, and why.

``sample.py`` reads some rows, ``findings.py`` measures them (with ``rank.py``, ``spikes.py``,
``outliers.py`` and ``structure.py``), ``rules.py`` decides, and ``doubts.py`` says what is uncertain.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vrmf.checks import whole_number
from vrmf.sources import single_threaded_blas
from vrmf.suggesting.doubts import ALTERNATIVES, doubts
from vrmf.suggesting.findings import Findings
from vrmf.suggesting.rules import choose
from vrmf.suggesting.sample import MOST_ROWS, SampleRows
from vrmf.suggesting.suggestion import Suggestion

__all__ = ["Findings", "Suggestion", "suggest"]


def suggest(X: Any, random_state: int = 0, max_rows: int = MOST_ROWS) -> Suggestion:
    """Suggest a model, the number of components and weights for some data, each with its reason.

    A sample of the rows is read, spread over the data, and measured: signs, gross outliers, components that
    stand out of the noise, sparse codes, the order of the features. Nothing is fitted to all of the data.
    It takes about a second or two, however large the data are.

    Parameters
    ----------
    X : whatever ``fit`` takes, but no iterator
        An array, sparse matrix, data frame, the path of a file, … . Entries may be NaN.
    random_state : int
        Seed of random signs, rotations and rows.
    max_rows : int
        Rows that are read, at most.

    Returns
    -------
    Suggestion

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.gamma(1.0, size=(300, 4)) @ rng.gamma(1.0, size=(4, 40))
    >>> suggestion = suggest(X)
    >>> suggestion.model, suggestion.n_components
    ('nmf', 4)
    >>> suggestion.estimator(random_state=0).fit(X).components_.shape
    (4, 40)
    """
    whole_number("max_rows", max_rows, low=1)
    rng = np.random.default_rng(whole_number("random_state", random_state, low=0))
    with single_threaded_blas():
        found = Findings.of(SampleRows.of(X, max_rows), rng)
    choice = choose(found)
    return Suggestion(
        model=choice.model,
        n_components=choice.n_components,
        parameters=choice.parameters,
        reasons=choice.reasons,
        doubts=doubts(found, choice),
        alternatives=ALTERNATIVES[choice.model],
        findings=found,
    )
