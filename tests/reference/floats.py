"""Bits and values of bfloat16, float16 and float32; each step is an operation defined by IEEE 754."""

import numpy as np

NAMES = ("BF16", "F16", "F32")
WIDTH = {"BF16": 2, "F16": 2, "F32": 4}
MANTISSA_BITS = {"BF16": 7, "F16": 10, "F32": 23}
EXPONENT_BITS = {"BF16": 8, "F16": 5, "F32": 8}
BIAS = {"BF16": 127, "F16": 15, "F32": 127}


def read(raw, dtype):
    """The bit patterns of the elements, as Python integers."""
    return np.frombuffer(raw, f"<u{WIDTH[dtype]}").tolist()


def write(bits, dtype):
    """The bytes of elements with these bit patterns."""
    return np.array(bits, f"<u{WIDTH[dtype]}").tobytes()


def f32_of_bits(bits):
    """The float32 with this bit pattern."""
    return np.uint32(bits).view(np.float32)


def bits_of_f32(value):
    """The bit pattern of a float32."""
    return int(np.float32(value).view(np.uint32))


def value(bits, dtype):
    """The value of a bit pattern as float32, which represents it exactly."""
    if dtype == "F16":
        return np.uint16(bits).view(np.float16).astype(np.float32)
    return f32_of_bits(bits << 16 if dtype == "BF16" else bits)


def nearest(number, dtype):
    """The bit pattern of the element nearest to a float32, ties to even."""
    if dtype == "F16":
        with np.errstate(over="ignore"):
            return int(np.float32(number).astype(np.float16).view(np.uint16))
    bits = bits_of_f32(number)
    if dtype == "F32":
        return bits
    kept, cut = bits >> 16, bits & 0xFFFF
    return kept + (cut > 0x8000 or (cut == 0x8000 and kept & 1))


def exponent_field(bits, dtype):
    return bits >> MANTISSA_BITS[dtype] & ((1 << EXPONENT_BITS[dtype]) - 1)


def mantissa_field(bits, dtype):
    return bits & ((1 << MANTISSA_BITS[dtype]) - 1)


def is_finite(bits, dtype):
    return exponent_field(bits, dtype) != (1 << EXPONENT_BITS[dtype]) - 1


def ordered(bits, dtype):
    """An integer in the order of the values: the magnitude bits, or -1 minus them if the sign bit is set."""
    sign = 1 << (8 * WIDTH[dtype] - 1)
    return bits if bits < sign else -(bits - sign) - 1


def unordered(number, dtype):
    """The bit pattern of an ordered integer, taken modulo 2 to the power of the width."""
    sign = 1 << (8 * WIDTH[dtype] - 1)
    number = (number + sign) % (2 * sign) - sign
    return number if number >= 0 else sign + (-number - 1)
