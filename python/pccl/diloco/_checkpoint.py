"""The part of a checkpoint that peers do not share: error-feedback residuals and, within a round, this peer's
parameters and reductions in flight."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence, Tuple

from .._errors import InvalidArgument
from ._arrays import Flats, Layout
from ._fragment import Fragment
from ._shared import Shared, check_shape, write_to

_LISTS = ("launched", "counted", "given", "weights")


def _arrays_named(dtypes: Sequence[str], own: Flats, delta: Flats) -> Dict[str, Any]:
    named = {f"own.{dtype}": flat for dtype, flat in zip(dtypes, own)}
    return {**named, **{f"delta.{dtype}": flat for dtype, flat in zip(dtypes, delta)}}


def split(state: Mapping[str, Any]) -> Tuple[Dict[str, Any], Dict[str, Any], Dict[str, Any]]:
    """Splits a state into the shared part, the unshared part, which is empty at a boundary, and the error-feedback
    residuals."""
    mine = {key for key in state if key in ("position", *_LISTS) or key.startswith(("own.", "delta."))}
    kept = {key for key in state if key.startswith("feedback.")}
    return (
        {key: state[key] for key in state if key not in mine | kept},
        {key: state[key] for key in mine},
        {key: state[key] for key in kept},
    )


def named_feedback(layout: Layout, flats: Flats) -> Dict[str, Any]:
    return {f"feedback.{dtype}": flat for dtype, flat in zip(layout.dtypes, flats)}


def feedback_of(state: Mapping[str, Any], layout: Layout) -> Flats:
    """Returns the residuals as flat arrays. Raises InvalidArgument if they do not match the layout."""
    flats = layout.zeros()
    for name, flat in named_feedback(layout, flats).items():
        if name not in state:
            raise InvalidArgument(f"load_state_dict: the state does not fit this peer: only one of them has {name}")
        check_shape(name, state[name], flat)
        write_to(flat, state[name])
    return flats


def save(layout: Layout, shared: Shared, fragments: Sequence[Fragment], delta: Flats) -> Dict[str, Any]:
    own = layout.zeros()
    layout.read(own)
    for fragment in fragments:
        fragment.measured()
    return {
        "position": shared.position,
        "launched": [fragment.launched for fragment in fragments],
        "counted": [fragment.counted for fragment in fragments],
        "given": [fragment.reduction.samples for fragment in fragments],
        "weights": [fragment.reduction.weight for fragment in fragments],
        **_arrays_named(layout.dtypes, own, layout.copy_of(delta)),
    }


def check(state: Mapping[str, Any], layout: Layout, fragments: Sequence[Fragment], inner_steps: int) -> None:
    """Raises InvalidArgument if the unshared part of a state does not match the layout."""
    flats = layout.zeros()
    named = _arrays_named(layout.dtypes, flats, flats)
    differing = sorted({"position", *_LISTS, *named} ^ set(state))
    if differing:
        raise InvalidArgument(
            "load_state_dict: the state does not fit this peer: only one of them has "
            f"{', '.join(differing)}"
        )
    if not 0 <= int(state["position"]) < inner_steps:
        raise InvalidArgument(
            f"load_state_dict: position: {state['position']}; expected 0 to {inner_steps - 1}, as inner_steps is "
            f"{inner_steps}"
        )
    for name in _LISTS:
        if len(state[name]) != len(fragments):
            raise InvalidArgument(
                f"load_state_dict: {name} has {len(state[name])} entries: expected one for each of the "
                f"{len(fragments)} fragments"
            )
    for name, flat in named.items():
        check_shape(name, state[name], flat)


def load(
    state: Mapping[str, Any], layout: Layout, shared: Shared, fragments: Sequence[Fragment], delta: Flats
) -> None:
    """Restores the parameters, and the reductions in flight so that they can be launched again. Call it after check().
    """
    own = layout.zeros()
    for name, flat in _arrays_named(layout.dtypes, own, delta).items():
        write_to(flat, state[name])
    layout.write(own)
    shared.position = int(state["position"])
    lists: List[Any] = [state[name] for name in _LISTS]
    for fragment, launched, counted, given, weight in zip(fragments, *lists):
        shared.set_launched(fragment.index, int(launched))
        fragment.counted = int(counted)
        fragment.reduction.resume(float(weight), int(given))
