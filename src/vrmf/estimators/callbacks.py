"""Callbacks of scikit-learn (version 1.9 or later), which are called after each epoch and may end a fit.

In the words of :mod:`sklearn.callback`, ``fit`` is a task and each of its epochs a subtask. The interface
is marked as experimental there, so all that vrmf uses of it is in this module. Older versions of
scikit-learn have no callbacks; then estimators have no ``set_callbacks``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from vrmf.running.history import History, Iterate
from vrmf.running.rules import Reason

if TYPE_CHECKING:

    class CallbackSupportMixin:
        """What scikit-learn gives to an estimator that supports callbacks."""

    Method = TypeVar("Method", bound=Callable[..., Any])

    def with_callbacks(method: Method) -> Method:
        """Let scikit-learn clear callbacks away after a method."""
        return method

else:
    try:
        from sklearn.callback import CallbackSupportMixin, with_callbacks
    except ImportError:

        class CallbackSupportMixin:
            """Nothing: this version of scikit-learn has no callbacks."""

        def with_callbacks(method):
            """Return the method as it is."""
            return method


#: Attributes in which scikit-learn keeps callbacks, and where in a search or a pipeline a fit belongs.
CALLBACKS, PARENT = "_skl_callbacks", "_parent_callback_ctx"

STOPPED = Reason("callback: a callback asked to stop", False, is_budget=True, is_wanted=True)


@dataclass
class FitCallbacks:
    """Calls the callbacks of a model, if it has any, and notes whether one of them asks to stop."""

    model: Any
    X: Any
    max_iter: int
    attributes: Callable[[Iterate, History], dict[str, Any]]  #: of the model as if the fit had ended now
    context: Any  #: of the fit; None if there are no callbacks
    epoch: int | None = None  #: the last one after which callbacks were called
    task: Any = None  #: the context of the present epoch

    @classmethod
    def begin(
        cls, model: Any, X: Any, max_iter: int, attributes: Callable[[Iterate, History], dict[str, Any]]
    ) -> FitCallbacks:
        """Call callbacks at the beginning of a fit."""
        context = None
        if getattr(model, CALLBACKS, None) or hasattr(model, PARENT):
            context = model._init_callback_context(max_subtasks=max_iter)
            context.call_on_fit_task_begin(estimator=model, X=X)
        return cls(model, X, max_iter, attributes, context)

    def watch(self, current: Iterate, history: History) -> Reason | None:
        """Call callbacks after each epoch; return the reason to stop if one of them asks for it."""
        if self.context is None or current.epoch == self.epoch:
            return None
        self.epoch = current.epoch
        known = {
            "estimator": self.model,
            "X": self.X,
            "reconstruction_attributes": lambda: self.attributes(current, history),
        }
        if self.task is not None and self.task.call_on_fit_task_end(**known):
            self.task = None
            return STOPPED
        self.task = None
        if current.epoch < self.max_iter:
            self.task = self.context.subcontext(task_name="epoch")
            self.task.call_on_fit_task_begin(**known)
        return None

    def end(self) -> None:
        """Call callbacks at the end of a fit; an epoch that had begun is ended, too."""
        if self.task is not None:
            self.task.call_on_fit_task_end(estimator=self.model)
        if self.context is not None:
            self.context.call_on_fit_task_end(estimator=self.model, X=self.X, reconstruction_attributes={})
