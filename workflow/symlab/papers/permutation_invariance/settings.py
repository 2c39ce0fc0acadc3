"""The ``teacher_student`` block of a study: grids of students of a teacher, what is checked of them, and their points.

Every start of the workflow reads this module, so it imports nothing heavy.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from symlab.papers.permutation_invariance.student_points import Point as Student
from symlab.papers.permutation_invariance.student_points import Size, expand_points, expand_sizes
from symlab.settings import Amount, Listed, Positive
from symlab.study.experiment import Point, PointSettings

Value = TypeVar("Value")


def _listed(value: Any) -> Any:
    return value if value is None or isinstance(value, list) else [value]


def _rising(values: list[float]) -> list[float]:
    if values[0] != 0 or values[-1] != 1 or sorted(set(values)) != values:
        raise ValueError("the points rise from 0 to 1")
    return values


Sizes = Annotated[Listed[Positive], BeforeValidator(_listed, json_schema_input_type=Positive | list[Positive])]
"""A whole number from 1 on, or a list of such."""
Amounts = Annotated[Listed[Amount], BeforeValidator(_listed, json_schema_input_type=Amount | list[Amount])]
"""A number above 0, or a list of such."""


RANDOM = "pairs of random solutions a setting"


class Overlap(PointSettings):
    """Overlap P of two random splits of m neurons over M types, exact and by draws (permutation-1)."""

    by: ClassVar = {"M": "M"}
    counts: ClassVar = {RANDOM: "draws"}

    M: Sizes = Field(description="Teacher neurons, one number or several.")
    up_to: Annotated[float, Field(gt=1)] = Field(6, description="Largest m in units of M.")
    draws: Annotated[int, Field(ge=100)] = Field(10000, description="Pairs of splits drawn at every m.")


class Samples(PointSettings):
    """Pairs of uniform samples of the global minima for every combination of a teacher, a dimension and a width."""

    by: ClassVar = {key: key for key in ("M", "d", "m", "ratio")}
    role: ClassVar[str]
    """Its key in the block, which its tables and generators are named after."""
    smallest_teacher: ClassVar[int] = 2
    needs_pairs: ClassVar[bool] = True
    """Whether its figures are about uniform samples; trained students alone would then be for nothing."""

    M: Sizes = Field(description="Teacher neurons, one number or several.")
    d: Sizes = Field(description="Input dimensions, at least M.")
    m: Sizes | None = Field(None, description="Student neurons; or give ratio.")
    ratio: Amounts | None = Field(None, description="Student neurons in units of M, rounded; instead of m.")
    uniform_pairs: Annotated[int, Field(ge=0)] = Field(
        0, description="Pairs of uniform samples of the minima at every point."
    )
    lambdas: Annotated[list[Annotated[float, Field(ge=0, le=1)]], Field(min_length=3), AfterValidator(_rising)] = Field(
        [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1],
        description="Points of the line between two students at which the barrier is looked for, from 0 to 1.",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.m is None) == (self.ratio is None):
            raise ValueError("it needs exactly one of m, the students' widths, and ratio, widths in units of M")
        if min(self.d) < max(self.M):
            raise ValueError(
                f"d = {min(self.d)} is below M = {max(self.M)}; the teacher's neurons are orthonormal, so d is at "
                "least M"
            )
        if min(self.M) < self.smallest_teacher:
            raise ValueError("M = 1 has no barriers, since all minima are one up to permutation; raise M")
        sizes = self.sizes()
        if min(size.m for size in sizes) < 1:
            raise ValueError("it has students without neurons; raise ratio")
        if len(set(sizes)) < len(sizes):
            raise ValueError("it has the same width twice, after rounding; list each once")
        if self.needs_pairs and (narrow := [size for size in sizes if size.m < size.M]):
            raise ValueError(
                f"it asks for students of m = {narrow[0].m} neurons, fewer than the teacher's M = {narrow[0].M}; such "
                "students have no minima of zero loss to draw from"
            )
        return self

    def misfit(self, *with_what: "Samples") -> str | None:
        # Of the config's keys together; a job that trains is given those alone that it reads.
        if self.needs_pairs and not self.uniform_pairs:
            return "it is about uniform samples of the minima, so it needs uniform_pairs"
        twice = sorted(self.covered() & set[tuple[str, Size]]().union(*(grid.covered() for grid in with_what)), key=str)
        if twice:
            source, size = twice[0]
            return (
                f"it has students of M = {size.M}, d = {size.d}, m = {size.m} ({source}) as a grid before it, whose "
                "rows would be taken together; leave them out of one, or put one grid into another study"
            )
        return None

    def scale(self) -> dict[str, int]:
        return {RANDOM: self.uniform_pairs} if self.uniform_pairs else {}

    def points(self, datasets: Sequence[str] = ()) -> list[Point]:
        return [asdict(size) for size in self.sizes() if size.m >= size.M]

    def sizes(self) -> list[Size]:
        """All combinations of teachers, dimensions and widths."""
        return expand_sizes(self.M, self.d, self.m, self.ratio)

    def covered(self) -> set[tuple[str, Size]]:
        """The rows that it gives to tables, by source and size."""
        return {("uniform", size) for size in self.sizes() if self.uniform_pairs}


class Grid(Samples):
    """Students trained for every combination of a teacher, a dimension, a width and a learning rate; also samples."""

    by: ClassVar = {key: key for key in ("M", "d", "m", "ratio", "lr", "c", "init_std")}
    needs_pairs: ClassVar[bool] = False
    needs_runs: ClassVar[bool] = False
    """Whether its figures are about trained students; uniform samples alone would then be for nothing."""
    one_rate: ClassVar[bool] = True
    """Whether its figures are about students of one learning rate."""

    lr: Amounts | None = Field(None, description="Learning rates; or give c.")
    c: Amounts | None = Field(None, description="Learning rates in units of d/m, instead of lr; without both it is 1.")
    init_std: Literal["one_over_md", "one_over_sqrt_d"] | Amount = Field(
        "one_over_md",
        description="Standard deviation of the initial weights: one_over_md, one_over_sqrt_d, or a number.",
    )
    runs: Annotated[int, Field(ge=0, multiple_of=2)] = Field(
        0, description="Students trained at every point; consecutive seeds form the pairs."
    )
    steps: Positive = Field(20000, description="Gradient steps at most, rounded up to a multiple of 250.")
    stop_below: Annotated[float, Field(gt=0, le=1e-6)] = Field(
        1e-9, description="A student whose population loss is below has converged; those above 1e-5 count in no mean."
    )
    batch: Positive | None = Field(
        None, description="Fresh inputs of each step (online SGD); null for gradient descent on the population loss."
    )

    @model_validator(mode="after")
    def _trains(self) -> Self:
        if self.lr is not None and self.c is not None:
            raise ValueError("it has both lr and c; give one of them")
        if self.one_rate and len(self.lr or self.c or []) > 1:
            raise ValueError("it is about students of one learning rate; give one lr or c, or list grids for others")
        if self.needs_runs and not self.runs:
            raise ValueError("it is about trained students, so it needs runs")
        students = self.students()
        if len({student.name for student in students}) < len(students):
            raise ValueError("it has the same student twice (equal learning rates); list each once")
        return self

    def misfit(self, *with_what: Samples) -> str | None:
        if not self.runs and not self.uniform_pairs:
            return "it needs runs (students to train) or uniform_pairs (samples of the minima)"
        return super().misfit(*with_what)

    def scale(self) -> dict[str, int]:
        return ({"trained networks a setting": self.runs} if self.runs else {}) | super().scale()

    @property
    def source(self) -> str:
        """How its trained students come about: "gd" or "sgd"."""
        return "sgd" if self.batch else "gd"

    def points(self, datasets: Sequence[str] = ()) -> list[Point]:
        return [asdict(student) for student in self.students()] if self.runs else []

    def students(self) -> list[Student]:
        """All combinations of teachers, dimensions, widths and learning rates."""
        return expand_points(self.sizes(), self.lr, self.c, self.init_std)

    def covered(self) -> set[tuple[str, Size]]:
        return super().covered() | {(self.source, size) for size in self.sizes() if self.runs}


class Widths(Grid):
    """Barrier against the students' width (permutation-2, -4, -10)."""

    role: ClassVar[str] = "widths"


class Ratios(Samples):
    """Barrier of uniform samples against m/M, for several M (permutation-3)."""

    role: ClassVar[str] = "ratios"


class AllPermutations(Samples):
    """Barrier of uniform samples after the best of all permutations, beside that after matching (permutation-best)."""

    role: ClassVar[str] = "all_permutations"

    @model_validator(mode="after")
    def _few(self) -> Self:
        if max(size.m for size in self.sizes()) > 7:
            raise ValueError("it tries all m! permutations, so m is at most 7")
        return self


class Sparsity(Grid):
    """Sparsity against width, for several learning rates (permutation-5)."""

    role: ClassVar[str] = "sparsity"
    needs_runs: ClassVar[bool] = True
    one_rate: ClassVar[bool] = False


class LearningRates(Grid):
    """Sparsity and barrier against the learning rate (permutation-6, -13)."""

    role: ClassVar[str] = "learning_rates"
    needs_runs: ClassVar[bool] = True
    one_rate: ClassVar[bool] = False


class DoubledTypes(Grid):
    """Which type of neuron a student of M + 1 neurons has twice (permutation-9)."""

    role: ClassVar[str] = "doubled_types"
    needs_runs: ClassVar[bool] = True


class Column(Grid):
    """How trained students split one teacher neuron, M = 1 (permutation-9)."""

    role: ClassVar[str] = "column"
    needs_runs: ClassVar[bool] = True
    smallest_teacher: ClassVar[int] = 1

    @model_validator(mode="after")
    def _one_neuron(self) -> Self:
        if self.M != [1]:
            raise ValueError("it is about how one teacher neuron is split, so M must be 1")
        return self

    def covered(self) -> set[tuple[str, Size]]:
        # Its table tells students of different first weights apart.
        return {(f"{source}, init_std {self.init_std}", size) for source, size in super().covered()}


class Dimensions(Grid):
    """Barrier against the input dimension (permutation-11)."""

    role: ClassVar[str] = "dimensions"
    needs_pairs: ClassVar[bool] = True


class Teachers(Grid):
    """Barrier against the teacher's width M (permutation-12)."""

    role: ClassVar[str] = "teachers"
    needs_pairs: ClassVar[bool] = True
