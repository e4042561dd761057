"""A packer for comparison with the method of BitX: it stores equal tensors once, and packs the XOR of each other tensor
with its counterpart in the best earlier file with zstd −3."""

import hashlib
import struct
import zipfile

import gguf
import numpy as np
import zstandard

from corpus import split

LEVEL = 3
SAMPLE_BYTES = 16384
WIDTHS = {"BF16": 2, "F16": 2, "F32": 4}
REFERENCE_BYTES = 32


def coded(raw):
    return len(zstandard.ZstdCompressor(level=LEVEL).compress(raw))


def _best(raw, width):
    """The smaller of two results: of the bytes as they are, and grouped by their position in an element."""
    grouped = raw[: len(raw) // width * width].reshape(-1, width).T
    return min(coded(raw), sum(coded(np.ascontiguousarray(plane)) for plane in grouped)) if width > 1 else coded(raw)


def _spans(path):
    """(name, dtype, begin, end) of the tensors of a safetensors or GGUF file, and of the members of a ZIP file."""
    if path.suffix == ".safetensors":
        with path.open("rb") as file:
            data = 8 + struct.unpack("<Q", file.read(8))[0]
            header, _ = split(struct.pack("<Q", data - 8) + file.read(data - 8))
        for name, tensor in header.items():
            begin, end = tensor["data_offsets"]
            yield name, tensor["dtype"], data + begin, data + end
    elif path.suffix == ".gguf":
        for tensor in gguf.GGUFReader(path).tensors:
            begin = int(tensor.data_offset)
            yield tensor.name, tensor.tensor_type.name, begin, begin + int(tensor.n_bytes)
    elif zipfile.is_zipfile(path):
        raw = path.read_bytes()
        for member in zipfile.ZipFile(path).infolist():
            begin = member.header_offset + 30 + sum(struct.unpack_from("<HH", raw, member.header_offset + 26))
            yield member.filename, "F32", begin, begin + member.file_size


class Hub:
    """The checkpoints that were added. Their files must remain."""

    def __init__(self):
        self._checkpoints = []
        self._digests = set()

    def add(self, paths):
        """Returns the packed size of a checkpoint."""
        tensors, size = {}, 0
        for path in paths:
            raw, end = np.memmap(path, np.uint8, "r"), 0
            for name, dtype, begin, after in sorted(_spans(path), key=lambda span: span[2]):
                size += coded(raw[end:begin])
                tensors[name, dtype, after - begin] = raw[begin:after]
                end = after
            size += coded(raw[end:])
        base = min([{}, *self._checkpoints], key=lambda base: self._expected(tensors, base))
        for key, raw in tensors.items():
            digest = hashlib.blake2b(raw).digest()
            if digest in self._digests:
                size += REFERENCE_BYTES
                continue
            self._digests.add(digest)
            size += _best(raw ^ base[key] if key in base else raw, WIDTHS.get(key[1], 1))
        self._checkpoints.append(tensors)
        return size

    @staticmethod
    def _expected(tensors, base):
        """The packed size of samples from the middle of each tensor, with the weight of the tensor."""
        total = 0
        for key, raw in tensors.items():
            _, dtype, length = key
            middle = length // 2 - min(SAMPLE_BYTES, length) // 2
            part = slice(middle - middle % 4, middle + SAMPLE_BYTES)
            sample = raw[part] ^ base[key][part] if key in base else raw[part]
            total += _best(sample, WIDTHS.get(dtype, 1)) * length / max(len(sample), 1)
        return total
