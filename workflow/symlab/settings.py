"""What every block of a config is made of: typed settings whose spec leaves out what was not asked for."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from symlab.errors import UserError

Positive = Annotated[int, Field(ge=1)]
"""A whole number from 1 on."""
Several = Annotated[int, Field(ge=2)]
"""A whole number from 2 on."""
Amount = Annotated[float, Field(gt=0)]
"""A number above 0."""
NotNegative = Annotated[float, Field(ge=0)]
"""A number from 0 on."""
Fraction = Annotated[float, Field(gt=0, le=1)]
"""Above 0 and at most 1."""
ProperFraction = Annotated[float, Field(gt=0, lt=1)]
"""Above 0 and below 1."""
Share = Annotated[float, Field(ge=0, lt=1)]
"""From 0 to below 1."""

Value = TypeVar("Value")


def _distinct(values: list[Value]) -> list[Value]:
    if len(set(values)) < len(values):
        raise ValueError("a value is listed twice")
    return values


Distinct = Annotated[list[Value], AfterValidator(_distinct), Field(json_schema_extra={"uniqueItems": True})]
"""A list that has no value twice."""
Listed = Annotated[Distinct[Value], Field(min_length=1)]
"""A list of one value or more, and none twice; one of two or more is ``Distinct`` with a ``min_length``."""


class Settings(BaseModel):
    """One block of a config; unknown keys are refused, and values are taken as they are (no text for a number).

    A new key with a default changes no spec, so what was computed without it stays. Whoever changes the value of a
    default raises ``revision``, which enters the spec: results of the old default are then no longer taken for the new.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
    revision: ClassVar[int] = 0
    counts: ClassVar[Mapping[str, str]] = {}
    """At which scale an experiment runs: what is counted, and the key that says how many (of a list, its length)."""

    @model_validator(mode="before")
    @classmethod
    def _knows_its_keys(cls, block: Any) -> Any:
        # Told before anything else that is wrong with the block: what a misspelt key stands for is then missing.
        if not isinstance(block, Mapping | cls):
            known = {"known": ", ".join(cls.model_fields)}
            raise PydanticCustomError("no_keys", "it holds the keys {known}", known)
        for key in block if isinstance(block, Mapping) else ():
            if key not in cls.model_fields:
                raise PydanticCustomError("unknown_key", "unknown key", {"key": key, "known": [*cls.model_fields]})
        return block

    def spec(self) -> dict[str, Any]:
        """The keys whose values differ from their defaults, as plain JSON values, by which a job's work is told."""
        found: dict[str, Any] = {"revision": self.revision} if self.revision else {}
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if field.is_required() or value != field.get_default(call_default_factory=True):
                found[name] = _plain(value)
        return found

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> Self:
        """The settings that a spec was made of, by today's defaults."""
        return cls.model_validate(_without_revisions(spec))

    def modules(self) -> list[str]:
        """Modules that an experiment with these settings takes by name, whose code counts as its own."""
        return []

    def scale(self) -> dict[str, int]:
        """At which scale an experiment runs, numbers by what they count: {"students": 20}; none unless a kind says."""
        numbers = {what: getattr(self, key) for what, key in self.counts.items()}
        return {what: len(value) if isinstance(value, list) else value for what, value in numbers.items()}

    def misfit(self, *with_what: Any) -> str | None:
        """Why these settings do not go with others; None if they do.

        A measure's with a network and a scheme, an experiment's with those that its list gives before.
        """
        return None


Kind = TypeVar("Kind", bound=Settings)


def choose(kinds: Sequence[type[Kind]], spec: Mapping[str, Any], key: str = "name") -> Kind:
    """The settings that ``spec`` (as ``Settings.spec`` gives it) stands for, of the kind whose ``key`` it names.

    Raises:
        UserError: no kind has that name.
        pydantic.ValidationError: the kind does not take such keys or values.
    """
    by_name = kinds_by_name(kinds, key)
    if spec.get(key) not in by_name:
        raise UserError(f"{key} is {spec.get(key)!r}; known are {', '.join(sorted(by_name))}.")
    return by_name[spec[key]].from_spec(spec)


def kinds_by_name(kinds: Sequence[type[Kind]], key: str = "name") -> dict[str, type[Kind]]:
    """Kinds of settings by the value that the key which tells them apart has in each."""
    return {get_args(kind.model_fields[key].annotation)[0]: kind for kind in kinds}


def _without_revisions(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_revisions(each) for key, each in value.items() if key != "revision"}
    return [_without_revisions(each) for each in value] if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    if isinstance(value, Settings):
        return value.spec()
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
