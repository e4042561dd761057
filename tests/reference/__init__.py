"""Slow decoders, written from docs/formats alone, that the vectors of extension frames are compared with.

They check what the documents demand and decode element by element; floats are single IEEE operations of NumPy scalars
and arrays. The frames of z4ai inside are decoded by the z4ai package.
"""
