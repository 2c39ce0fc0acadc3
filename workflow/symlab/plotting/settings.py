"""The config's style; free of matplotlib, so that a config is checked at once."""

from pydantic import Field

from symlab.settings import Settings


class Style(Settings):
    """Look of the figures; a change redraws figures and re-runs nothing else."""

    font_size: float = Field(9, ge=4, le=24, description="Font size in points.")
    dpi: int = Field(150, ge=50, le=600, description="Resolution of what figures hold as pixels, in dots per inch.")
    palette: str = Field("colorblind", description="Name of a seaborn palette.")
