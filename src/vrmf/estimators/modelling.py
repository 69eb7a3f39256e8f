"""Which problem a model poses for given data, and the dictionary from which a fit of it starts."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from vrmf.arrays import Array
from vrmf.auto_weights import DataSummary
from vrmf.checks import check_room
from vrmf.estimators.common import CommonParameters
from vrmf.estimators.data import centred, rows_for
from vrmf.formulations import Formulation
from vrmf.running.path import AbstractPath, SingleStage
from vrmf.running.stage import Stage
from vrmf.running.stream import SEEN
from vrmf.seen import DataSeen, remembered_rows
from vrmf.sources import AbstractSource
from vrmf.starting.initial import given_dictionary, initial_dictionary
from vrmf.terms.base import AbstractTerm

#: Values of all weights of a formulation, by name.
Weights = dict[str, Any]


class AbstractModel(CommonParameters):
    """The formulation of an estimator, which its subclasses define, and the first stage of a fit."""

    components_: Array

    @abstractmethod
    def _resolved_weights(self, source: AbstractSource, summary: DataSummary, seed: int) -> Weights:
        """Return the values of all weights for these data, checked."""

    @abstractmethod
    def _formulation(self, n_samples: float, weights: Weights) -> Formulation:
        """Return the formulation for these weights and n rows."""

    @abstractmethod
    def _start_rows(self, formulation: Formulation, rows: Array, n_samples: int, weights: Weights) -> Array:
        """Return rows of the data as atoms of a sensible size."""

    def _weights_for(self, n_samples: float, weights: Weights) -> Weights:
        """Return the weights as they enter the formulation of n rows; not all depend on n."""
        return weights

    def _set_weights(self, n_samples: float, weights: Weights) -> None:
        """Set the values of weights that are parameters, numbers or terms, as attributes."""
        names = self.get_params(deep=False)
        for name, value in self._weights_for(n_samples, weights).items():
            if name in names and isinstance(value, float | AbstractTerm):
                setattr(self, f"{name}_", value)

    def _set_interim_attributes(self, source: AbstractSource, weights: Weights) -> None:
        """Set the further attributes of a model of this kind while a fit is under way."""

    def _start(self, source: AbstractSource, whole: bool = True, n_components: int | None = None) -> Stage:
        """Return the first stage of a fit, or of a stream, which may have another number of atoms."""
        seed, k = self._seed(), n_components or self._first_components(source)
        summary = DataSummary.of(source)
        weights = self._resolved_weights(source, summary, seed)
        formulation = self._formulation(source.n_samples, weights)
        formulation.check_width(k, source.n_features)
        if self._goes_on and whole:
            D = given_dictionary("components_", self.components_, formulation, k, source)
        else:
            D = initial_dictionary(
                self.init,
                source,
                formulation,
                k,
                summary,
                lambda rows: self._start_rows(formulation, rows, source.n_samples, weights),
                seed,
            )
        seen = DataSeen.of(summary, self._remembered_rows(source.n_features))
        return Stage(formulation, D, seed, weights | {SEEN: seen})

    def _first_components(self, source: AbstractSource) -> int:
        """Return the number of atoms with which a fit begins."""
        return self.n_components

    @property
    def _goes_on(self) -> bool:
        """Whether a fit starts from the dictionary of the last one."""
        return self.warm_start and hasattr(self, "components_")

    def _source(self, X: Any, reset: bool, dtype: Any = None) -> AbstractSource:
        source = rows_for(
            self, X, reset=reset, nonnegative=self._nonnegative, n_jobs=self.n_jobs, dtype=dtype
        )
        if reset and self.n_components is not None:
            check_room(self.n_components, source.n_features, source.dtype)
        return centred(source) if self.center else source

    def _path(self, source: AbstractSource) -> AbstractPath:
        """Return the sequence of problems that a fit solves."""
        return SingleStage()

    def _remembered_rows(self, n_features: int) -> int:
        """Return how many rows a stream remembers, at most."""
        return remembered_rows(n_features)


def weights_in_use(model: AbstractModel, n_samples: float, stage: Stage) -> Weights:
    """Return the weights as they enter the formulation of a stage."""
    return model._weights_for(n_samples, stage.weights)
