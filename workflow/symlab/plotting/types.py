"""Types of matplotlib for annotations, without importing it: jobs that draw nothing do not pay for it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.typing import LineStyleType
else:
    Artist = Axes = Axis = Figure = LineStyleType = Any
