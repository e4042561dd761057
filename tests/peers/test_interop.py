"""The real z4ai decodes everything that our encoders can write.

The cases come over a pipe from a Rust program (tests/rust/peers/interop), which applies
every transform and method to random inputs. This side decodes them with z4ai's public
functions and answers with an error message or an empty string. After an error, the
program searches for a smaller input with the same fault. `ZSTN_INTEROP_CASES` sets the
number of cases of each encoder, `ZSTN_INTEROP_SEED` their seed, and `ZSTN_INTEROP_ONLY`
a part of the labels of the encoders to try.
"""

import os
import struct
import subprocess
import tempfile
import time
import unittest

import z4ai
import z4ai.chunked
import z4ai.turbo
from z4ai import model_delta
from z4ai import safetensors as z4ai_safetensors

PROGRAM = os.environ["ZSTN_INTEROP"]
CASES = os.environ.get(
    "ZSTN_INTEROP_CASES", "3" if os.environ.get("ZSTN_TESTS") == "all" else "1"
)
SEED = os.environ.get("ZSTN_INTEROP_SEED", "1")
ONLY = os.environ.get("ZSTN_INTEROP_ONLY", "")
KEEP = os.environ.get("ZSTN_INTEROP_KEEP")


def container(encoded, _reference):
    """Decodes the whole file, after checking every tensor through z4ai's random access."""
    whole = z4ai_safetensors.decompress_bytes(encoded)
    if encoded[5]:  # has an index
        (header_len,) = struct.unpack_from("<Q", whole)
        data = whole[8 + header_len :]
        with z4ai_safetensors.ZstnReader.from_bytes(encoded) as reader:
            header = reader.header()
            spans = {name: tensor["data_offsets"] for name, tensor in header.items() if name != "__metadata__"}
            if sorted(reader.names()) != sorted(spans):
                raise ValueError("the index names other tensors than the header")
            for name, (begin, end) in spans.items():
                if reader.read_raw(name) != data[begin:end]:
                    raise ValueError(f"tensor {name!r} read by name has other bytes")
    return whole


DECODE = {
    "frame": lambda encoded, _: z4ai.decompress(encoded),
    "turbo": lambda encoded, _: z4ai.turbo.decompress(encoded),
    "chunked": lambda encoded, _: z4ai.chunked.decompress(encoded),
    "delta": z4ai.decompress_delta,
    "container": container,
    "model delta": model_delta.decompress,
}


def verdict(call, original, reference, encoded):
    try:
        decoded = bytes(DECODE[call](encoded, reference))
    except Exception as error:  # noqa: BLE001 - a refusal is a verdict, whatever its type
        return f"{type(error).__name__}: {error}"
    if decoded == original:
        return ""
    first = next((i for i, (a, b) in enumerate(zip(decoded, original)) if a != b), min(len(decoded), len(original)))
    return f"{len(decoded)} bytes for {len(original)}, the first difference at {first}"


class Interop(unittest.TestCase):
    def test_everything_we_encode_is_decoded(self):
        keep = KEEP or os.path.join(tempfile.gettempdir(), "zstn-interop")
        command = [PROGRAM, CASES, SEED, keep, *([ONLY] if ONLY else [])]
        answered, seconds = 0, 0.0
        with (
            tempfile.TemporaryFile("w+") as said,
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said) as program,
        ):

            def part():
                head = program.stdout.read(4)
                return program.stdout.read(struct.unpack("<I", head)[0]) if head else None

            while (label := part()) is not None:
                call, original, reference, encoded = part().decode(), part(), part(), part()
                started = time.monotonic()
                answer = verdict(call, original, reference, encoded).encode()
                seconds += time.monotonic() - started
                program.stdin.write(struct.pack("<I", len(answer)) + answer)
                program.stdin.flush()
                answered += 1
            status = program.wait()
            said.seek(0)
            said = said.read().strip()
        self.assertEqual(status, 0, f"\n{said}")
        self.assertGreater(answered, 0, said)
        print(f"\n{said}; {seconds:.0f} s spent in z4ai", flush=True)

    def test_a_wrong_byte_is_noticed(self):
        truth = bytes(range(200))
        frame = bytearray(z4ai.compress(truth))
        self.assertEqual(verdict("frame", truth, b"", bytes(frame)), "")
        frame[-1] ^= 1
        self.assertIn("first difference", verdict("frame", truth, b"", bytes(frame)))
        self.assertIn("bad magic", verdict("frame", truth, b"", b"gibberish"))


if __name__ == "__main__":
    unittest.main()
