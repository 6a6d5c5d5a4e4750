"""How far a run is: public facts alone, told while it lasts.

A *step* says which release of the plan is measured, which pass over rows this is, and how many of
its blocks of rows are done. All of it follows from the number of rows and from the plan:
neighbouring tables make the same steps. When a step comes is no more hidden than any run time.

Whatever a display does, the measurement goes on: it is paid for.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib import import_module
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from dppca_odp.primitives.blocks import heard_by

#: Seconds: work that ends sooner shows nothing; and the least time from one drawing to the next.
APPEARS_AFTER, REDRAWN_AFTER = 1.0, 0.25


class Step(NamedTuple):
    """Where a run is; before the first pass of a release, all numbers are 0."""

    release: str
    number: int
    """Of the pass, counted from 1 in each release."""
    done: int
    blocks: int


StepListener = Callable[[Step], None]
_listener: ContextVar[StepListener | None] = ContextVar("step listener", default=None)


@contextmanager
def steps_heard_by(listener: StepListener) -> Iterator[None]:
    """Tell a listener all steps of this block of code, in this thread; no more once it raises."""
    listening = True

    def tell(step: Step) -> None:
        nonlocal listening
        if listening:
            try:
                listener(step)
            except BaseException:  # whatever closes a display: no reason to lose a release
                listening = False

    before = _listener.set(tell)
    try:
        yield
    finally:
        _listener.reset(before)


@contextmanager
def passes_of(release: str) -> Iterator[None]:
    """The passes of this block of code are those of one release."""
    listener = _listener.get()
    if listener is None:
        yield
        return
    number = 0

    def hear(done: int, blocks: int) -> None:
        nonlocal number
        number += done == 0
        listener(Step(release, number, done, blocks))

    listener(Step(release, 0, 0, 0))
    with heard_by(hear):
        yield


@contextmanager
def progress_shown(releases: tuple[str, ...], wanted: bool | None) -> Iterator[None]:
    """Show the steps of this block of code, if it lasts, and take the display away at its end.

    ``None``: where rich finds a terminal or a notebook. True: on stderr, whatever it is.
    """
    forced = True if wanted else None
    console = _StandardError(stderr=True, force_terminal=forced, force_interactive=forced)
    if wanted is False or not (console.is_interactive or console.is_jupyter):
        yield
        return
    display = (_InNotebook if console.is_jupyter else _OnTerminal)(releases, console)
    try:
        with steps_heard_by(display.show):
            yield
    finally:
        with suppress(Exception):
            display.end()


class _StandardError(Console):
    def on_broken_pipe(self) -> None:
        """Raise what was caught; rich itself would close stdout and end the process."""
        raise


class _Display(ABC):
    """A bar that is drawn in the thread that measures: there is no other one to stop."""

    def __init__(self, releases: tuple[str, ...], console: Console) -> None:
        self.releases = releases
        self.next = time.monotonic() + APPEARS_AFTER
        self.bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[blocks]}", markup=False),
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self.task = self.bar.add_task("", total=None, blocks="")

    def show(self, step: Step) -> None:
        now = time.monotonic()
        if now < self.next:
            return
        self.next = now + REDRAWN_AFTER
        at = f"{step.release} ({self.releases.index(step.release) + 1} of {len(self.releases)})"
        self.bar.reset(
            self.task,
            description=f"{at}, pass {step.number}" if step.number else at,
            completed=step.done,
            total=step.blocks or None,
            blocks=f"{step.done} of {step.blocks} blocks of rows" if step.blocks else "",
        )
        self.draw()

    @abstractmethod
    def draw(self) -> None:
        """Show the bar as it is now."""

    @abstractmethod
    def end(self) -> None:
        """Take it away, if it was drawn."""


class _OnTerminal(_Display):
    """A line at the bottom."""

    begun = False

    def draw(self) -> None:
        self.begun = True
        self.bar.start()
        self.bar.refresh()

    def end(self) -> None:
        if self.begun:
            self.bar.stop()


class _InNotebook(_Display):
    """A line below a cell; without widgets, which not every notebook has."""

    handle: Any = None

    def draw(self) -> None:
        if self.handle is None:  # IPython is there, where a notebook is
            self.handle = import_module("IPython.display").display(self.bar, display_id=True)
        else:
            self.handle.update(self.bar)

    def end(self) -> None:
        if self.handle is not None:
            self.handle.update({"text/plain": ""}, raw=True)
