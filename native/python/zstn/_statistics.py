"""Tensor statistics that were stored when a file was packed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figures:
    """Statistics of the elements of a tensor or of a band of its rows. Extremes, mean
    and root mean square cover the finite elements; they are NaN if there are none."""

    count: int
    min: float
    max: float
    mean: float
    rms: float
    zeros: int
    nans: int
    infinities: int


@dataclass(frozen=True, slots=True)
class Statistics:
    """The statistics of a tensor and of its bands of rows."""

    summary: Figures
    """Statistics of all elements."""
    rows_per_band: int
    """Number of rows per band; the last band may have fewer. A row is a run along the
    last dimension; a vector is a single row."""
    bands: list[Figures]
    """Statistics of each band, starting with the first rows."""
