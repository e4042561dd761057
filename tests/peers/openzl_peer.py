"""OpenZL, if it is installed: one frame per tensor, of typed numbers, with a few graphs for floats."""

import functools
import importlib.util

import numpy as np

WIDTHS = {"BF16": 2, "F16": 2, "F32": 4, "I64": 8}


def load():
    """The bindings of the package, or None if it is not installed."""
    if importlib.util.find_spec("openzl") is None:
        return None
    from openzl import ext

    return ext


def _numbers(raw, dtype):
    return np.frombuffer(raw, f"<u{WIDTHS[dtype]}")


def _deconstructed(ext, compressor, dtype, entropy):
    """Splits exponents from signs and fractions, the latter by bytes, and uses the same entropy coder for each."""
    nodes, graphs = ext.nodes, ext.graphs
    by_bytes = nodes.TransposeSplit()(compressor, entropy(compressor))
    if dtype == "BF16":
        fraction = nodes.ConvertStructToSerial()(compressor, entropy(compressor))
        return nodes.BFloat16Deconstruct()(compressor, fraction, entropy(compressor))
    node = {"F16": nodes.Float16Deconstruct, "F32": nodes.Float32Deconstruct}[dtype]
    return node()(compressor, by_bytes, entropy(compressor))


def _transposed(ext, compressor):
    lanes = ext.nodes.TransposeSplit()(compressor, ext.graphs.Entropy()(compressor))
    return ext.nodes.ConvertNumToStructLE()(compressor, lanes)


def _tokenized(ext, dtype, compressor):
    """Codes the sorted distinct values, and the index of each element's value."""
    alphabet = ext.graphs.Compress()(compressor)
    # Its entropy coders only accept numbers of one or two bytes.
    indices = _transposed(ext, compressor) if dtype == "F32" else ext.graphs.Entropy()(compressor)
    return ext.nodes.TokenizeNumeric(sort=True)(compressor, alphabet, indices)


def _starting_graph(ext, compressor, dtype, graph):
    if graph.startswith("deconstruct+"):
        entropy = {"fse": ext.graphs.Fse, "huffman": ext.graphs.Huffman}[graph.removeprefix("deconstruct+")]
        return _deconstructed(ext, compressor, dtype, lambda compressor: entropy()(compressor))
    return {
        "transpose+entropy": functools.partial(_transposed, ext),
        "tokenize+entropy": functools.partial(_tokenized, ext, dtype),
        "generic": lambda compressor: ext.graphs.Compress()(compressor),
        "field-lz-1": lambda compressor: ext.graphs.FieldLz(compression_level=1)(compressor),
    }[graph](compressor)


FLOAT_GRAPHS = ("deconstruct+fse", "deconstruct+huffman")
OTHER_GRAPHS = ("transpose+entropy", "tokenize+entropy", "generic", "field-lz-1")
GRAPHS = " ".join(FLOAT_GRAPHS + OTHER_GRAPHS)


def graphs(dtype):
    """The names of the graphs that accept numbers of a dtype."""
    return FLOAT_GRAPHS + OTHER_GRAPHS if dtype in ("BF16", "F16", "F32") else OTHER_GRAPHS


class Coder:
    """One graph for one dtype; contexts are reused between tensors."""

    def __init__(self, ext, dtype, graph):
        self._ext, self._dtype = ext, dtype
        compressor = ext.Compressor()
        compressor.set_parameter(ext.CParam.FormatVersion, ext.MAX_FORMAT_VERSION)
        compressor.select_starting_graph(_starting_graph(ext, compressor, dtype, graph))
        self._encoder, self._decoder = ext.CCtx(), ext.DCtx()
        self._compressor = compressor

    def compress(self, raw):
        """The frame of a tensor's bytes."""
        numbers = _numbers(raw, self._dtype)
        # A context forgets its graph after each frame.
        self._encoder.ref_compressor(self._compressor)
        return self._encoder.compress([self._ext.Input(self._ext.Type.Numeric, numbers)])

    def decompress(self, frame):
        """The tensor's bytes, as an array allocated by OpenZL."""
        (output,) = self._decoder.decompress(frame)
        return output.content.as_nparray()


def best(ext, raw, dtype):
    """The length of the smallest frame of a tensor. Every frame is decompressed and compared."""
    if not raw:
        return 0
    found = []
    for graph in graphs(dtype):
        coder = Coder(ext, dtype, graph)
        try:
            frame = coder.compress(raw)
        except RuntimeError:
            continue  # the graph refuses these values; tokenizing refuses too many distinct ones
        if coder.decompress(frame).tobytes() != raw:
            raise AssertionError(f"OpenZL's {graph} changed a tensor")
        found.append(len(frame))
    return min(found)


def checkpoint_size(ext, header, data):
    """The total length of the smallest frames of all tensors, without names and shapes."""
    return sum(best(ext, data[slice(*tensor["data_offsets"])], tensor["dtype"]) for tensor in header.values())


def _ordered(raw, dtype):
    """The bits of floats as integers in the order of the values; negative values count down."""
    width = WIDTHS[dtype]
    bits = np.frombuffer(raw, f"<i{width}")
    magnitude = bits & np.array(~(1 << (8 * width - 1)) & (1 << (8 * width)) - 1, f"<u{width}").view(f"<i{width}")
    return np.where(bits < 0, ~magnitude, magnitude)


def difference_size(ext, header, data, base):
    """The total length for the differences from a base. OpenZL cannot compute them, so they are ordered integers that
    are subtracted and zigzag-coded before."""
    base_header, base_data = base
    total = 0
    for name, tensor in header.items():
        raw = data[slice(*tensor["data_offsets"])]
        other = base_header.get(name)
        if other is None or (other["dtype"], other["shape"]) != (tensor["dtype"], tensor["shape"]):
            total += best(ext, raw, tensor["dtype"])
            continue
        reference = base_data[slice(*other["data_offsets"])]
        difference = _ordered(raw, tensor["dtype"]) - _ordered(reference, tensor["dtype"])
        zigzag = (difference << 1) ^ (difference >> (8 * WIDTHS[tensor["dtype"]] - 1))
        total += best(ext, zigzag.tobytes(), tensor["dtype"])
    return total
