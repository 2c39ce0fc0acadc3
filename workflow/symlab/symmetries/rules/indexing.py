"""Rules of operations that pick entries by positions: indexing, gather and scatter, sorting, experts of a router.

Positions are integers. Where they point at indices that may be permuted (the experts that a router ranks highest), they
are renumbered with them, and what they pick is as it was; any other use of them as numbers keeps those in place.
"""

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import torch

from symlab.symmetries.index_sets import IndexSet, Positions, Unsupported, fix, unify
from symlab.symmetries.rules.rearrangements import between
from symlab.symmetries.rules.recorder import MASKS, Labels, Recorder, Result, Sizes, input_of, rule
from symlab.symmetries.rules.reductions import ordered, pointing_at
from symlab.symmetries.values import Dim, Value, bound_set, fix_dim, fixed_dim, uniform_dim


def _point(dim: Dim, positions: Positions | None) -> None:
    """Pair a dimension with what positions in it point at; numbers, and counts of something else, keep it in place."""
    if positions is None or dim.factors is None or positions.of.size != dim.size:
        fix_dim(dim)
        if positions is not None:
            fix(positions.of)
    else:
        unify(bound_set(dim), positions.of)


def _stretch(positions: Value) -> tuple[int, int] | None:
    """Start and length of a list of positions that are known and follow each other."""
    known = positions.known
    if known is None or known.dim() != 1 or known.dtype == torch.bool or not len(known):
        return None
    start = int(known[0])
    follows = torch.equal(known, torch.arange(start, start + len(known), dtype=known.dtype))
    return (start, len(known)) if follows and (start >= 0 or start + len(known) <= 0) else None


@rule("index", points=True)
def index(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    """Entries picked by a mask, or by tensors of positions along some dimensions."""
    value = input_of(arguments)
    used = {dim: positions for dim, positions in enumerate(arguments["indices"]) if positions is not None}
    first, rank = min(used), len(value.dims)
    if arguments[MASKS]:
        if len(used) > 1:
            raise Unsupported("a mask beside other positions")
        masked = range(first, first + len(used[first].dims))
        for dim in (*used[first].dims, *(value.dims[at] for at in masked)):
            fix_dim(dim)
        kept = [at for at in range(rank) if at not in masked]
        picked = recorder.relate([(value, range(rank))], kept)
        row = fixed_dim(shapes[0][first])
        return Value((*picked.dims[:first], row, *picked.dims[first:]), value.parameter)
    if len(used) == 1 and (stretch := _stretch(used[first])) is not None:
        return between(value, first, stretch[0] % value.dims[first].size, stretch[1])
    rows: list[Hashable] = [("row", n) for n in range(-max(len(positions.dims) for positions in used.values()), 0)]
    others = [at for at in range(rank) if at not in used]
    place = first if list(used) == [*range(first, first + len(used))] else 0
    out = [*others[:place], *rows, *others[place:]]
    labels: list[Hashable] = [("picked", at) if at in used else at for at in range(rank)]
    used, labels, of_rows = _row_by_row(value, used, labels)
    for dim, positions in used.items():
        _point(value.dims[dim], positions.positions)
    told_by: dict[Hashable, tuple[Hashable, Positions]] = {
        ("picked", dim): (rows[0], positions.positions)
        for dim, positions in used.items()
        if positions.positions is not None and len(rows) == 1
    }
    result = recorder.relate([(value, labels), *of_rows], out, told_by=told_by)
    return replace(result, parameter=value.parameter)


def _row_by_row(
    value: Value, used: dict[int, Value], labels: list[Hashable]
) -> tuple[dict[int, Value], list[Hashable], list[tuple[Value, Labels]]]:
    """Dimensions of positions, without those of each row's own number, which are labelled as the rows are.

    Returns:
        The positions by dimension, the labels of all dimensions, and of all tensors of positions the axes and labels.
    """
    others, found = dict(used), list(labels)
    operands: list[tuple[Value, Labels]] = []
    for at, picks in used.items():
        rows: list[Hashable] = [("row", n) for n in range(-len(picks.dims), 0)]
        along = _own_axis(picks)
        if along is not None and picks.dims[along].size == value.dims[at].size:
            del others[at]
            found[at] = rows[along]
            picks = Value(tuple(uniform_dim(dim.size) for dim in picks.dims))
        operands.append((picks, rows))
    return others, found, operands


def _own_axis(picks: Value) -> int | None:
    """The dimension along which each entry is its own index; None if they are other positions."""
    positions, wide = picks.positions, [n for n, dim in enumerate(picks.dims) if dim.size > 1]
    if positions is None or not positions.own or len(wide) != 1:
        return None
    factors = [node.root() for node in picks.dims[wide[0]].factors or ()]
    return wide[0] if factors == [positions.of.root()] else None


@rule("index_select", points=True)
def index_select(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    at = arguments["dim"] % len(input_of(arguments).dims)
    return index(
        recorder, {"self": input_of(arguments), "indices": [None] * at + [arguments["index"]], MASKS: False}, shapes
    )


@rule("embedding", points=True)
def embedding(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    weight, indices = arguments["weight"], arguments["indices"]
    _point(weight.dims[0], indices.positions)
    batch = list(range(len(indices.dims)))
    table = Value(weight.dims[1:], weight.parameter)
    result = recorder.relate([(indices, batch), (table, ["out"])], [*batch, "out"], contracts=True)
    recorder.relate([(weight, ["row", "out"])], ["out"], contracts=True)
    if weight.parameter is not None:
        recorder.maps.append((weight.parameter, list(result.dims[-1].factors or ())))
    return result


@rule("embedding_bag", "_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> list[Value]:
    """Means, sums or maxima of rows, a bag each; and which rows were in which bag, which are numbers."""
    weight = arguments["weight"]
    for name in ("indices", "offsets", "per_sample_weights"):
        for dim in arguments[name].dims if isinstance(arguments.get(name), Value) else ():
            fix_dim(dim)
    _point(weight.dims[0], arguments["indices"].positions)
    row = recorder.relate([(weight, ["row", "out"])], ["out"], contracts=True)
    others = [Value(tuple(map(fixed_dim, sizes))) for sizes in shapes[1:]]
    return [Value((fixed_dim(shapes[0][0]), *row.dims)), *others]


def _beside(value: Value, index_value: Value, at: int) -> None:
    """Keep in place the dimensions that ``index_value`` reaches only in part, and those of the index."""
    for n, (dim, other) in enumerate(zip(value.dims, index_value.dims, strict=True)):
        if n != at and dim.size != other.size:
            fix_dim(dim)
            fix_dim(other)


def _labels(value: Value, index_value: Value, at: int, here: str) -> list[Hashable]:
    return [
        here if n == at else n if dim.size == other.size else (here, n)
        for n, (dim, other) in enumerate(zip(value.dims, index_value.dims, strict=True))
    ]


@rule("gather", "take_along_dim", points=True)
def gather(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    """Of each line along one dimension the entries at positions that the line has of its own."""
    value = input_of(arguments)
    picks: Value = arguments["index"] if "index" in arguments else arguments["indices"]
    # Without a dimension all entries are one line.
    if "dim" not in arguments or len(value.dims) != len(picks.dims):
        raise Unsupported("its number of dimensions")
    at = arguments["dim"] % len(value.dims) if len(value.dims) else 0
    _point(value.dims[at], picks.positions)
    _beside(value, picks, at)
    rank = range(len(picks.dims))
    out = ["picked" if n == at else n for n in rank]
    operands: list[tuple[Value, Labels]] = [(value, _labels(value, picks, at, "whole")), (picks, out)]
    return recorder.relate(operands, out)


@rule("scatter", "scatter_add", "scatter_reduce", points=True)
def scatter_at(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    """Each line along one dimension with entries put at positions that the line has of its own."""
    value, picks, source = input_of(arguments), arguments["index"], arguments.get("src")
    at = arguments["dim"] % len(value.dims)
    written: list[tuple[Value, Labels]] = [(picks, ["picked" if n == at else n for n in range(len(picks.dims))])]
    if isinstance(source, Value):
        if source.positions is not None or [d.size for d in source.dims] != [d.size for d in picks.dims]:
            raise Unsupported("a source of another size than the positions")
        written.append((source, written[0][1]))
    value = _open(value, at, picks.positions)
    _beside(value, picks, at)
    labels = _labels(value, picks, at, "whole")
    return recorder.relate([(value, labels), *written], labels)


def _open(value: Value, at: int, positions: Positions | None) -> Value:
    """The value to be written into at positions of one dimension, by which its entries then differ."""
    if value.positions is not None:
        raise Unsupported("positions to be written over")
    dim = value.dims[at]
    if dim.factors is None:
        dim = fixed_dim(dim.size) if positions is None else Dim(dim.size, (positions.of,))
    _point(dim, positions)
    return Value((*value.dims[:at], dim, *value.dims[at + 1 :]))


@rule("index_add", "index_copy", "index_fill", points=True)
def index_add(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    """Slices along one dimension added or copied to those at some positions."""
    value, picks, source = input_of(arguments), arguments["index"], arguments.get("source")
    at = arguments["dim"] % len(value.dims)
    value = _open(value, at, picks.positions)
    labels = list(range(len(value.dims)))
    operands: list[tuple[Value, Labels]] = [(value, labels), (picks, ["picked"] if picks.dims else [])]
    if isinstance(source, Value):
        operands.append((source, ["picked" if n == at else n for n in labels]))
    return recorder.relate(operands, labels)


@rule("index_put", points=True)
def index_put(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    """Entries written at positions along some dimensions."""
    value, written = input_of(arguments), arguments["values"]
    used = {dim: positions for dim, positions in enumerate(arguments["indices"]) if positions is not None}
    if arguments[MASKS]:
        raise Unsupported("a mask")
    if _is_inversion(value, used, written):
        order = used[0].positions.counted
        return Value((fixed_dim(value.dims[0].size),), positions=Positions(order))
    first, rank = min(used), len(value.dims)
    if list(used) != [*range(first, first + len(used))]:
        raise Unsupported("positions along dimensions that are apart")
    if written.positions is not None:
        fix_dim(Dim(written.positions.of.size, (written.positions.of,)))
    rows: list[Hashable] = [("row", n) for n in range(-max(len(positions.dims) for positions in used.values()), 0)]
    others = [at for at in range(rank) if at not in used]
    source: list[Hashable] = [*[at for at in others if at < first], *rows, *[at for at in others if at > first]]
    used, labels, of_rows = _row_by_row(value, used, list(range(rank)))
    for dim, positions in used.items():
        value = _open(value, dim, positions.positions)
    return recorder.relate([(value, labels), (written, source[len(source) - len(written.dims) :]), *of_rows], labels)


def _is_inversion(value: Value, used: dict[int, Value], written: Value) -> bool:
    """Whether the places 0, 1, ... are written at all positions of an order: then what is made points at places."""
    if list(used) != [0] or len(value.dims) != 1 or value.dims[0].factors is not None or len(written.dims) != 1:
        return False
    order, places = used[0].positions, written.positions
    if order is None or order.counted is None or order.ends or places is None:
        return False
    own = written.dims[0].factors or ()
    same_length = written.dims[0].size == order.counted.size == value.dims[0].size
    return same_length and [node.root() for node in own] == [places.of.root()] and places.counted is None


@rule("arange", points=True)
def arange(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    """Each place's own number, if it starts at 0."""
    dim = fixed_dim(shapes[0][0])
    counts = arguments.get("start", 0) == 0 and arguments.get("step", 1) == 1
    return Value((dim,), positions=Positions(bound_set(dim), own=True) if counts and dim.factors else None)


@rule("one_hot", points=True)
def one_hot(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    x, size = input_of(arguments), shapes[0][-1]
    of = None if x.positions is None else x.positions.of
    if of is not None and of.size != size:
        fix_dim(Dim(of.size, (of,)))
        of = None
    new = fixed_dim(size) if of is None else Dim(size, (of,))
    labels = list(range(len(x.dims)))
    return recorder.relate([(x, labels), (Value((new,)), ["class"])], [*labels, "class"])


@rule("topk", "sort", "argsort", "kthvalue", points=True)
def topk(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Result:
    """The largest entries along one dimension, largest first, and where they are."""
    x = input_of(arguments)
    if x.positions is not None:
        return _sorted_positions(x, shapes)
    at = arguments.get("dim", -1) % len(x.dims) if x.dims else 0
    gone = recorder.relate([(x, range(len(x.dims)))], [n for n in range(len(x.dims)) if n != at])
    found = list(gone.dims)
    if len(shapes[0]) == len(x.dims):
        found.insert(at, fixed_dim(shapes[0][at]))
    where = Value(tuple(found), positions=pointing_at(x.dims[at]))
    return where if len(shapes) == 1 else [Value(tuple(found)), where]


def _sorted_positions(x: Value, shapes: list[Sizes]) -> Result:
    """Positions in ascending order, and the order: places change with the numbers that the positions have."""
    assert x.positions is not None
    if len(x.dims) != 1 or len(shapes) != 2 or x.positions.counted is not None or x.dims[0].size != shapes[0][0]:
        raise Unsupported("positions of several dimensions")
    fix_dim(x.dims[0])
    places, positions = IndexSet(x.dims[0].size), Positions(x.positions.of)
    places.sorted_by = positions
    dim = Dim(places.size, (places,))
    order = Positions(bound_set(x.dims[0]), counted=places)
    return [Value((dim,), positions=positions), Value((dim,), positions=order)]


@rule("histc", points=True)
def histc(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    """How many positions point at each index, where every bin is an index."""
    x, bins = input_of(arguments), arguments.get("bins", 100)
    if x.positions is None or x.positions.counted is not None:
        for dim in x.dims:
            fix_dim(dim)
        return Value((fixed_dim(shapes[0][0]),))
    of = x.positions.of
    if not (of.size == bins and arguments.get("min", 0) == 0 and arguments.get("max", 0) == bins - 1):
        raise Unsupported("bins that are not one for each position")
    places = x.dims[0].factors[0].root() if len(x.dims) == 1 and x.dims[0].factors else None
    sorts = places is not None and places.sorted_by is x.positions
    return Value((Dim(bins, (of,)),), positions=Positions(of, counted=places) if sorts else None)


@rule("cumsum", points=True)
def cumsum(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Result:
    x = input_of(arguments)
    if x.positions is not None and x.positions.counted is not None and not x.positions.ends:
        return replace(x, positions=replace(x.positions, ends=True))
    if x.positions is not None:
        fix_dim(Dim(x.positions.of.size, (x.positions.of,)))
    return ordered(recorder, {**arguments, "self": replace(x, positions=None)}, shapes)


@rule("_grouped_mm", "transformers::grouped_mm_fallback", points=True)
def grouped_mm(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    """Each stretch of rows times a matrix of its own.

    Matrices move with the positions by which rows are sorted; they stay where no order of positions tells the
    stretches.
    """
    named = [item for item in arguments.items() if isinstance(item[1], Value) and item[0] != "bias"]
    (name_a, rows), (name_b, matrices), (_, ends) = named
    if len(matrices.dims) != 3:
        raise Unsupported("stretches of a sum")
    order = _order_of_stretches(rows, ends)
    if order is None:
        for dim in (rows.dims[0], matrices.dims[0], *ends.dims, *_pointed_at(rows), *_pointed_at(ends)):
            fix_dim(dim)
    else:
        assert ends.positions is not None
        unify(bound_set(matrices.dims[0]), ends.positions.of)
    operands: list[tuple[str, Value, Labels]]
    operands = [(name_a, rows, ["row", "in"]), (name_b, matrices, ["which", "in", "out"])]
    return recorder.contract(operands, ["row", "out"], told_by={"which": ("row", order)} if order else None)


def _order_of_stretches(rows: Value, ends: Value) -> Positions | None:
    """The positions by which rows are sorted, if stretches end where each position's last row is."""
    stretches, factors = ends.positions, rows.dims[0].factors or ()
    if stretches is None or not stretches.ends or len(factors) != 1 or stretches.counted is None:
        return None
    places = next(iter(factors)).root()
    return places.sorted_by if places is stretches.counted.root() else None


def _pointed_at(value: Value) -> list[Dim]:
    """What a value's entries are positions in."""
    return [] if value.positions is None else [Dim(value.positions.of.size, (value.positions.of,))]
