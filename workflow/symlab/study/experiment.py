"""An experiment as a card says it, and its settings, whose lists span its points; the Snakefile reads both."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

from symlab.settings import Settings

Point = dict[str, Any]
"""Where in the product of the settings' lists: {"N": 8, "L": 3, "width": 4}; plain values, which JSON holds."""


class PointSettings(Settings):
    """Settings of an experiment. Each combination of the values that ``by`` lists is a point, computed on its own.

    One more value in a list adds points and leaves those that are there.
    """

    by: ClassVar[Mapping[str, str]] = {}
    """For each coordinate of a point the key that lists its values, or gives their number: {"seed": "seeds"}."""

    def points(self, datasets: Sequence[str] = ()) -> list[Point]:
        """All points, of an experiment on data sets those of each of these: their coordinate is ``dataset``."""
        chosen = [getattr(self, key) for key in self.by.values()]
        values = [range(each) if isinstance(each, int) else each for each in chosen]
        names = (["dataset"] if datasets else []) + list(self.by)
        return [dict(zip(names, at, strict=True)) for at in product(*([datasets] if datasets else []), *values)]

    def follows(self, point: Point) -> Point | None:
        """The point whose result this one begins with, which ``compute`` is given as ``before``; None for none.

        Settings that define it are computed in such chains: one job a chain at most.
        """
        return None

    def misfit_with(self, source: Any) -> str | None:
        """Why they do not go with the data set of these settings (``data.Source``); None if they do.

        Experiments on data read its classes, unless they say otherwise.
        """
        return None if getattr(source, "n_classes", None) else "it reads classes, which these samples have not"

    def common(self) -> dict[str, Any]:
        """The spec of what all points share."""
        return {key: value for key, value in self.spec().items() if key not in self.by.values()}


@dataclass(frozen=True)
class Experiment:
    """A question that needs none of a study's networks, computed point by point (``study.points``)."""

    key: str
    """Dotted key of a study that asks for it: ``teacher_student.widths``."""
    settings: type[PointSettings]
    """They list the points."""
    compute: str
    """``module:function``: (settings, job, **point) -> what is found at a point, arrays or rows by table."""
    outputs: tuple[str, ...]
    """Tables ``<name>.csv`` of the study, or tensors ``<name>.safetensors``."""
    tables: str = ""
    """``module:function``: (results, settings, job) -> {output: table or tensors}; or rows are joined as they are.

    Its module is another than that of ``compute``, so that what is judged of results is edited without computing them.
    """
    several: bool = False
    """Whether the key may hold a list of settings."""
    datasets: bool = False
    """Whether it is given the study's data sets (``job.datasets``), whose files are then inputs of its job."""
    unused: tuple[str, ...] = ()
    """Keys of its settings that only ``tables`` reads: a change of them computes no point anew."""
    gpu: bool = False
    minutes: int = 240
    memory_mb: int = 2000


def experiments_under(key: str, room: str) -> Callable[..., Experiment]:
    """What makes a room's experiments: each is asked for by a name under the key and computed in a module of the room.

    ``asked("widths", Widths, "training:train_point", ("widths.csv",))`` takes keywords of ``Experiment`` too.
    """

    def asked(
        name: str, settings: type[PointSettings], compute: str, outputs: tuple[str, ...], **more: Any
    ) -> Experiment:
        return Experiment(f"{key}.{name}", settings, f"{room}.{compute}", outputs, **more)

    return asked
