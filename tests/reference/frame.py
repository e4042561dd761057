"""Decodes a frame of a container: a ZXQ1 or ZXI1 frame, or one of z4ai's."""

import z4ai

from . import zxi1, zxq1
from .cursor import demand

Z4AI_FRAMES = (b"Z4AI", b"ZSP1", b"ZPL1")


def decode_z4ai(frame):
    """The decoded bytes of a frame that the z4ai package reads."""
    demand(frame[:4] in Z4AI_FRAMES, f"a frame begins with {frame[:4]!r}")
    return bytes(z4ai.decompress(frame))


def decode(frame, extended):
    """The decoded bytes of any frame; ZXQ1 and ZXI1 are allowed only if `extended`."""
    family = {b"ZXQ1": zxq1, b"ZXI1": zxi1}.get(bytes(frame[:4]))
    if family:
        demand(extended, "an extension frame in a version that has none")
        return family.decode(frame)
    return decode_z4ai(frame)
