"""How the elements of large payloads are packed for transport, and what that costs."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Union

from . import _buffers, _native
from ._enums import CodecRounding, CodecScale, DataType, DeviceType, QuantizationAlgorithm, data_type, member, number
from ._errors import InvalidArgument, failure


NO_FEEDBACK = "feedback: it is for the codecs e4m3, e5m2, int4, e3m0, e2m1 and auto"


@dataclass
class QuantizationOptions:
    """How the elements of large payloads are packed for transport: as a narrower integer, by an
    algorithm of PCCL 1.0; or in a format of eight or four bits, which is given in place of the data
    type: QuantizationOptions("int4", block=64, scale="bfloat16", rounding="stochastic"). A block of
    so many elements has a scale of its own, which travels as this type. With feedback, for sums and
    averages, what packing takes is part of this peer's next contribution with the same tag; that
    takes 8 bytes for each element (Communicator.get_feedback).

    QuantizationOptions("auto", budget_ms=50) is for sums and averages: each operation gets as many
    bits, exact, 16, 8 or 4, as the last one with its tag lets expect to take no longer than that. With
    budget_percent=20 in its place, no longer than that share of the time between two uses of the tag,
    of which the first two are exact. All peers choose the same; the result's codec and why tell what
    was chosen, and why.
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
                raise InvalidArgument("a budget is for an automatic codec")
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
    """What coding costs.

    largest       the largest error, as a share of the largest magnitude
    rms           the root of the mean square of the errors, as a share of that of the elements
    not_finite    elements left out: they, or what they became, are NaN or infinite
    packed_bytes  how long the elements are when they travel
    """

    largest: float
    rms: float
    not_finite: int
    packed_bytes: int


def measure_codec(elements: Any, quantization: QuantizationOptions) -> CodecError:
    """Packs and unpacks these elements, once and for nobody, and tells how far they come out from
    what they were."""
    buffer = _buffers.of(elements, "measure_codec: elements")
    if buffer.device is not DeviceType.CPU:
        raise InvalidArgument("measure_codec: the elements are in an accelerator's memory")
    codec, error = quantization.to_c(), _native.CodecErrorC(size=ctypes.sizeof(_native.CodecErrorC))
    code = _native.lib.pcclMeasureCodec(
        ctypes.byref(codec), buffer.address, buffer.count, buffer.dtype, ctypes.byref(error)
    )
    if code:
        raise failure("pcclMeasureCodec", code, _native.last_failure())
    return CodecError(error.largest, error.rms, error.not_finite, error.packed_bytes)
