"""Reads the float32 weights of an ONNX file by parsing only the protocol buffer fields that
contain them.

Field numbers are from onnx.proto. Weights are initializers of the graph, or constants in the
branches of its conditions.
"""

import numpy as np

MODEL_GRAPH = 7
GRAPH_NODE, GRAPH_INITIALIZER = 1, 5
NODE_OUTPUT, NODE_ATTRIBUTE = 2, 5
ATTRIBUTE_TENSOR, ATTRIBUTE_GRAPH = 5, 6
DIMS, DATA_TYPE, FLOAT_DATA, NAME, RAW_DATA = 1, 2, 4, 8, 9
FLOAT32 = 1

VARINT, FIXED64, LENGTH_DELIMITED, FIXED32 = 0, 1, 2, 5


def varint(message, at):
    """An unsigned integer with seven bits per byte, and the offset after it."""
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields(message):
    """(number, value) of each field, where the value is an integer or a memoryview of its bytes."""
    at = 0
    while at < len(message):
        tag, at = varint(message, at)
        wire_type = tag & 7
        if wire_type == VARINT:
            value, at = varint(message, at)
        else:
            if wire_type == LENGTH_DELIMITED:
                length, at = varint(message, at)
            else:
                length = {FIXED64: 8, FIXED32: 4}[wire_type]
            value, at = message[at : at + length], at + length
        yield tag >> 3, value


def _integers(value):
    """The values of a repeated integer field, which is encoded as single values or packed."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        integer, at = varint(value, at)
        found.append(integer)
    return found


def _tensor(message):
    """(name, array) of a float32 tensor; None for other dtypes."""
    dims, dtype, name, raw = [], None, "", b""
    for number, value in fields(message):
        if number == DIMS:
            dims += _integers(value)
        elif number == DATA_TYPE:
            dtype = value
        elif number == NAME:
            name = bytes(value).decode()
        elif number in (RAW_DATA, FLOAT_DATA):
            raw = value
    if dtype != FLOAT32:
        return None
    return name, np.frombuffer(raw, "<f4").reshape(dims)


def _graph(message):
    """(name, array) of each float32 tensor in a graph and its subgraphs."""
    for number, value in fields(message):
        if number == GRAPH_INITIALIZER:
            if tensor := _tensor(value):
                yield tensor
        elif number == GRAPH_NODE:
            yield from _node(value)


def _node(message):
    output = ""
    for number, value in fields(message):
        if number == NODE_OUTPUT:
            output = bytes(value).decode()
        elif number == NODE_ATTRIBUTE:
            for inner, part in fields(value):
                if inner == ATTRIBUTE_GRAPH:
                    yield from _graph(part)
                elif inner == ATTRIBUTE_TENSOR and (tensor := _tensor(part)):
                    yield output, tensor[1]


def weights(file):
    """Name -> array of all float32 weights, in file order."""
    for number, value in fields(memoryview(file)):
        if number == MODEL_GRAPH:
            return dict(_graph(value))
    return {}
