"""Codecs, which compress the elements of large payloads for transfer, and measurement of their error."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Union

from . import _buffers, _native
from ._enums import CodecRounding, CodecScale, DataType, DeviceType, QuantizationAlgorithm, data_type, member, number
from ._errors import InvalidArgument, failure


NO_FEEDBACK = "feedback: requires the codec e4m3, e5m2, int4, e3m0, e2m1 or auto"


@dataclass
class QuantizationOptions:
    """Codec that compresses the elements of large payloads.

    The codec is either a narrower integer type with an algorithm of PCCL 1.0, or an 8-bit or 4-bit format, passed in
    place of the data type: QuantizationOptions("int4", block=64, scale="bfloat16", rounding="stochastic"). Each block
    of `block` elements shares a scale, which is sent as the type `scale`. With feedback=True, for sums and averages,
    this peer's rounding error is added to its next contribution with the same tag; this takes 8 bytes per element (see
    Communicator.get_feedback).

    QuantizationOptions("auto", budget_ms=50), for sums and averages, selects a format for each operation: the widest of
    exact, 16, 8 and 4 bits that should fit the time budget, judging by the previous operation with the same tag.
    budget_percent=20 sets the budget as a share of the time between successive operations with this tag, of which the
    first two are exact. All peers select the same format. `codec` and `why` of the result report the selection and the
    reason.
    """

    quantized_datatype: Union[DataType, QuantizationAlgorithm, str] = DataType.UINT8
    algorithm: Union[QuantizationAlgorithm, str] = QuantizationAlgorithm.MIN_MAX
    block: int = 256
    scale: Union[CodecScale, str] = CodecScale.FLOAT
    rounding: Union[CodecRounding, str] = CodecRounding.NEAREST
    feedback: bool = False
    budget_ms: int = 0
    budget_percent: int = 0

    def __post_init__(self) -> None:
        given = self.quantized_datatype
        name = given.upper() if isinstance(given, str) else getattr(given, "name", None)
        if name in _FORMATS:
            self.quantized_datatype = DataType.UINT8
            self.algorithm = QuantizationAlgorithm[name]

    def to_c(self) -> _native.QuantizationOptionsC:
        algorithm = member("algorithm", QuantizationAlgorithm, self.algorithm)
        if algorithm < QuantizationAlgorithm.E4M3:
            if self.feedback:
                raise InvalidArgument(NO_FEEDBACK)
            if self.budget_ms or self.budget_percent:
                raise InvalidArgument("a budget requires an automatic codec")
            return _native.QuantizationOptionsC(data_type("quantized_datatype", self.quantized_datatype), algorithm)
        params = _native.CodecParamsC(
            ctypes.sizeof(_native.CodecParamsC),
            algorithm,
            number("block", self.block, 0, 1 << 32),
            member("scale", CodecScale, self.scale),
            member("rounding", CodecRounding, self.rounding),
            self.feedback,
            number("budget_ms", self.budget_ms, 0, 1 << 32),
            number("budget_percent", self.budget_percent, 0, 1 << 32),
        )
        codec = _native.QuantizationOptionsC()
        code = _native.lib.pcclCreateCodec(ctypes.byref(params), ctypes.byref(codec))
        if code:
            raise failure("pcclCreateCodec", code, _native.last_failure())
        return codec


def codec_to_c(where: str, given: Any) -> _native.QuantizationOptionsC:
    if not isinstance(given, QuantizationOptions):
        raise InvalidArgument(f"{where}: quantization: expected a QuantizationOptions, not {given!r}")
    return given.to_c()


_FORMATS = [kind.name for kind in QuantizationAlgorithm if kind >= QuantizationAlgorithm.E4M3]


@dataclass(frozen=True)
class CodecError:
    """Error and size of a codec's output.

    largest       the largest error, as a share of the largest magnitude
    rms           root mean square of the errors, as a share of the root mean square of the elements
    not_finite    number of elements left out because they are NaN or infinite before or after coding
    packed_bytes  size of the packed elements
    """

    largest: float
    rms: float
    not_finite: int
    packed_bytes: int


def measure_codec(elements: Any, quantization: QuantizationOptions) -> CodecError:
    """Packs and unpacks the elements locally, without communication, and returns the error."""
    buffer = _buffers.of(elements, "measure_codec: elements")
    if buffer.device is not DeviceType.CPU:
        raise InvalidArgument("measure_codec: the elements are in accelerator memory; expected CPU memory")
    codec, error = quantization.to_c(), _native.CodecErrorC(size=ctypes.sizeof(_native.CodecErrorC))
    code = _native.lib.pcclMeasureCodec(
        ctypes.byref(codec), buffer.address, buffer.count, buffer.dtype, ctypes.byref(error)
    )
    if code:
        raise failure("pcclMeasureCodec", code, _native.last_failure())
    return CodecError(error.largest, error.rms, error.not_finite, error.packed_bytes)
