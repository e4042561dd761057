"""Statistics of tensors that were stored when a file was packed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of the elements of a tensor or of a band of its rows. Extremes,
    mean and root mean square are those of the finite elements, NaN if there is
    none."""

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
    """Statistics of a tensor."""

    summary: Figures
    """Figures of all elements."""
    rows_per_band: int
    """Rows of a band, the last one can have fewer. A row is a run along the last
    dimension; a vector is one row."""
    bands: list[Figures]
    """Figures of each band, first rows first."""
