"""Grafana's own decoders take the whole of the board that users import."""

import json
import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(__file__)
BOARD = os.path.join(HERE, "../../../contrib/grafana/hearth.json")
# The versions of Grafana, and where their decoders are: `cargo xtask python` installs both.
DECODERS = {"11.6": "", "10.1": os.path.join(sys.prefix, "oldest-grafana")}


def mistakes(text, version):
    """What a decoder has to say of a dashboard."""
    program = [sys.executable, os.path.join(HERE, "board_decoder.py")]
    environment = os.environ | {"PYTHONPATH": DECODERS[version]}
    done = subprocess.run(
        program, input=text, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.fixture(scope="module")
def board():
    with open(BOARD, encoding="utf-8") as file:
        return file.read()


@pytest.mark.parametrize("version", DECODERS)
def test_the_board_is_decoded_whole(board, version):
    assert mistakes(board, version) == ""


def test_the_decoders_are_of_two_versions(board):
    # An option that came with Grafana 10.3.
    newer = board.replace('"textMode"', '"wideLayout": true, "textMode"', 1)
    assert mistakes(newer, "11.6") == ""
    assert "wideLayout: unknown" in mistakes(newer, "10.1")


@pytest.mark.parametrize(
    "typed, instead, place",
    [
        ('"legendFormat"', '"legendFormats"', "legendFormats: unknown"),
        ('"showLegend"', '"showLegends"', "showLegends: unknown"),
        ('"drawStyle"', '"drawStyles"', "drawStyles: unknown"),
        ('"allValue"', '"allValues"', "allValues: unknown"),
        ('"gridPos"', '"gridPosition"', "gridPosition: unknown"),
        ('"thresholds"', '"threshold"', "threshold: unknown"),
        ('"expr"', '"exprs"', "exprs: unknown"),
        ('"editable": true', '"editable": "yes"', ".editable: 'yes' is no"),
        ('"schemaVersion": 39', '"schemaVersion": "39"', ".schema_version: '39' is no int"),
        ('"graphTooltip": 1', '"graphTooltip": 7', ".graph_tooltip: 7 is no"),
        ('"drawStyle": "line"', '"drawStyle": "curve"', "'curve' is no"),
        ('"type": "timeseries"', '"type": "timeserie"', "'timeserie' is no kind of panel"),
        ('"type": "prometheus"', '"type": "loki"', "a query is not for Prometheus"),
    ],
)
def test_a_mistake_is_named(board, typed, instead, place):
    assert typed in board
    assert place in mistakes(board.replace(typed, instead), "11.6")


def test_a_board_that_is_none_is_a_mistake():
    assert "cannot be decoded" in mistakes(json.dumps({"panels": 1}), "11.6")
