"""Slow decoders, written from docs/formats alone, with which the vectors of extension frames are compared.

They check the requirements of the documents and decode element by element. Floats are computed with single IEEE
operations of NumPy scalars and arrays. Inner frames of z4ai are decoded by the z4ai package.
"""
