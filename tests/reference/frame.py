"""Decodes a frame of a container: a ZXQ1 frame or one of z4ai's."""

import z4ai

from . import zxq1
from .cursor import demand

Z4AI_FRAMES = (b"Z4AI", b"ZSP1", b"ZPL1")


def decode_z4ai(frame):
    """The decoded bytes of a frame that the z4ai package reads."""
    demand(frame[:4] in Z4AI_FRAMES, f"a frame begins with {frame[:4]!r}")
    return bytes(z4ai.decompress(frame))


def decode(frame, extended):
    """The decoded bytes of any frame; ZXQ1 is allowed only if `extended`."""
    if frame[:4] == b"ZXQ1":
        demand(extended, "an extension frame in a version that has none")
        return zxq1.decode(frame)
    return decode_z4ai(frame)
