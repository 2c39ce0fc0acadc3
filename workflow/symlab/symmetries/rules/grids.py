"""Rules of operations on coordinates: grids of points, and images at the points of one."""

from typing import Any

from symlab.symmetries.rules.recorder import Labels, Recorder, Sizes, input_of, rule
from symlab.symmetries.values import Value, fix_dim, fixed_dim, uniform_dim


@rule("grid_sampler", "grid_sampler_2d", "grid_sampler_3d", "cudnn_grid_sampler")
def grid_sampler(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    """Every channel of an image at points that it has of its own, given by their coordinates."""
    image, points = input_of(arguments), arguments["grid"]
    for dim in (*image.dims[2:], points.dims[-1]):
        fix_dim(dim)
    labels = ["image", *(f"point{n}" for n in range(len(points.dims) - 2)), "coordinate"]
    pixels = [f"pixel{n}" for n in range(len(image.dims) - 2)]
    operands: list[tuple[Value, Labels]] = [(image, ["image", "channel", *pixels]), (points, labels)]
    return recorder.relate(operands, ["image", "channel", *labels[1:-1]])


@rule("affine_grid_generator")
def affine_grid(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    """The coordinates of every pixel of an image under a map of its own."""
    matrices = arguments["theta"]
    for dim in matrices.dims[1:]:
        fix_dim(dim)
    return Value((matrices.dims[0], *map(fixed_dim, shapes[0][1:])))


@rule("meshgrid")
def meshgrid(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> list[Value]:
    tensors = arguments["tensors"]
    places = list(range(len(tensors)))
    if arguments.get("indexing", "ij") == "xy":
        places[:2] = places[:2][::-1]
    results = []
    for value, place in zip(tensors, places, strict=True):
        dims = [uniform_dim(size) for size in shapes[0]]
        dims[place] = value.dims[0] if value.dims else dims[place]
        results.append(Value(tuple(dims)))
    return results
