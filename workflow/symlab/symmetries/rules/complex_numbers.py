"""Fourier transforms along fixed axes, and pairs of real numbers as complex ones."""

from typing import Any

from symlab.symmetries.rules.rearrangements import along_fixed
from symlab.symmetries.rules.recorder import Recorder, Sizes, input_of, rule
from symlab.symmetries.values import Value, fix_dim, fixed_dim


@rule("fft_fft", "fft_ifft", "fft_rfft", "fft_irfft")
def fourier(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    return along_fixed(recorder, {"n": None, **arguments}, shapes)


@rule("fft_fft2", "fft_ifft2", "fft_rfft2", "fft_irfft2")
def fourier_of_images(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    return along_fixed(recorder, {"dim": (-2, -1), **arguments}, shapes)


@rule("view_as_complex")
def as_complex(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    """Pairs of real numbers, along the last dimension, as one number each."""
    value = input_of(arguments)
    fix_dim(value.dims[-1])
    return value.with_dims(value.dims[:-1])


@rule("view_as_real")
def as_real(recorder: Recorder, arguments: dict[str, Any], shapes: list[Sizes]) -> Value:
    value = input_of(arguments)
    return value.with_dims((*value.dims, fixed_dim(2)))
