"""Reads a dashboard with Grafana's own decoder, which is generated from Grafana's schema.

``python board_decoder.py < BOARD`` prints what the decoder does not know or what has another type
than the schema says, one a line. The decoder itself skips unknown keys and believes every type: so
what it has read is written again and compared, and each value is held against the types that its
classes name.
"""

import enum
import json
import sys
import types
import typing

from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard, prometheus


def mistakes(source):
    """The mistakes of a dashboard, as lines."""
    plugins.register_default_plugins()
    try:
        board = dashboard.Dashboard.from_json(source)
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        return [f"cannot be decoded: {error!r}"]
    written = json.loads(json.dumps(board, cls=JSONEncoder))
    found = [*lost(source, written, ""), *mistyped(board, dashboard.Dashboard, "")]
    return found + list(foreign(board))


def foreign(board):
    """The panels and queries of other programs' plugins, which are taken as they are."""
    panels = [panel for panel in board.panels if isinstance(panel, dashboard.Panel)]
    for panel in panels:
        if not hasattr(panel.options, "to_json"):
            yield f"panel {panel.id_val}: {panel.type_val!r} is no kind of panel"
        for query in panel.targets:
            if not isinstance(query, prometheus.Dataquery):
                yield f"panel {panel.id_val}: a query is not for Prometheus"


def lost(source, written, place):
    """What of ``source`` the decoder has not taken."""
    if isinstance(source, dict) and isinstance(written, dict):
        for key, value in source.items():
            if key in written:
                yield from lost(value, written[key], f"{place}.{key}")
            else:
                yield f"{place}.{key}: unknown"
    elif isinstance(source, list) and isinstance(written, list) and len(source) == len(written):
        for number, (ours, theirs) in enumerate(zip(source, written)):
            yield from lost(ours, theirs, f"{place}[{number}]")
    elif type(source) is not type(written) or source != written:
        yield f"{place}: {source!r} becomes {written!r}"


def mistyped(value, kind, place):
    """What of a decoded ``value`` is not of the type ``kind``."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        each = [list(mistyped(value, one, place)) for one in inner]
        if all(each):
            # Of the alternatives, the one that fits furthest inwards.
            yield from max(each, key=lambda found: max(len(line.split(":")[0]) for line in found))
    elif origin is list and isinstance(value, list):
        for number, element in enumerate(value):
            yield from mistyped(element, inner[0], f"{place}[{number}]")
    elif origin is dict and isinstance(value, dict):
        for key, element in value.items():
            yield from mistyped(element, inner[1], f"{place}.{key}")
    elif not is_a(value, kind, origin, inner):
        yield f"{place}: {value!r} is no {getattr(kind, '__name__', kind)}"
    elif hasattr(value, "to_json"):
        for name, declared in typing.get_type_hints(type(value)).items():
            yield from mistyped(getattr(value, name), declared, f"{place}.{name}")


def is_a(value, kind, origin, inner):
    """Whether a value without parts, or an object whose parts are not looked at, is a ``kind``."""
    if kind in (object, typing.Any):
        return True
    if origin is typing.Literal:
        return value in inner
    if origin is not None:
        return False
    if issubclass(kind, enum.Enum):
        return value in [member.value for member in kind]
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


if __name__ == "__main__":
    print(*mistakes(json.load(sys.stdin)), sep="\n", end="")
