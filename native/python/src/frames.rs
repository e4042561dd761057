//! Single buffers: frames, deltas, and checkpoints in memory as differences.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use zstn::core::dtype::Dtype;
use zstn::{Engine, Result};

use crate::checkpoint;
use crate::engine;
use crate::error::zstn_error;
use crate::interrupt::run;
use crate::object::Memory;
use crate::progress::Watch;

fn dtype(py: Python<'_>, name: Option<&str>) -> PyResult<Option<Dtype>> {
    let Some(name) = name else {
        return Ok(None);
    };
    let found = Dtype::from_name(name);
    found
        .map(Some)
        .ok_or_else(|| zstn_error(py, format!("{name:?} is not a dtype"), "unsupported"))
}

/// Runs `work` with an engine and returns its bytes.
fn bytes<'py>(
    py: Python<'py>,
    threads: usize,
    work: impl FnOnce(&Engine) -> Result<Vec<u8>> + Send + 'static,
) -> PyResult<Bound<'py, PyBytes>> {
    let made = run(py, &Watch::none(), move |_| {
        work(&engine::with_threads(threads)?)
    })?;
    Ok(PyBytes::new(py, &made))
}

/// Returns a frame.
#[pyfunction]
pub fn compress<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    dtype: Option<&str>,
    effort: &str,
    threads: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let (data, dtype) = (Memory::new(data)?, self::dtype(py, dtype)?);
    let effort = checkpoint::effort(effort)?;
    bytes(py, threads, move |engine| {
        Ok(zstn::compress(engine, data.as_slice(), dtype, effort))
    })
}

/// Returns what a frame was made from.
#[pyfunction]
pub fn decompress<'py>(
    py: Python<'py>,
    frame: &Bound<'py, PyAny>,
    threads: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let frame = Memory::new(frame)?;
    bytes(py, threads, move |engine| {
        zstn::decompress(engine, frame.as_slice())
    })
}

/// Returns `current` as its difference from `reference`.
#[pyfunction]
pub fn compress_delta<'py>(
    py: Python<'py>,
    current: &Bound<'py, PyAny>,
    reference: &Bound<'py, PyAny>,
    dtype: Option<&str>,
    effort: &str,
    threads: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let (current, reference) = (Memory::new(current)?, Memory::new(reference)?);
    let (dtype, effort) = (self::dtype(py, dtype)?, checkpoint::effort(effort)?);
    bytes(py, threads, move |engine| {
        let (current, reference) = (current.as_slice(), reference.as_slice());
        zstn::compress_delta(engine, current, reference, dtype, effort)
    })
}

/// Returns what a difference was made from.
#[pyfunction]
pub fn decompress_delta<'py>(
    py: Python<'py>,
    delta: &Bound<'py, PyAny>,
    reference: &Bound<'py, PyAny>,
    threads: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let (delta, reference) = (Memory::new(delta)?, Memory::new(reference)?);
    bytes(py, threads, move |engine| {
        zstn::decompress_delta(engine, delta.as_slice(), reference.as_slice())
    })
}

/// Returns a safetensors file as its difference from another one.
#[pyfunction]
pub fn model_delta_pack<'py>(
    py: Python<'py>,
    target: &Bound<'py, PyAny>,
    base: &Bound<'py, PyAny>,
    effort: &str,
    threads: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let (target, base) = (Memory::new(target)?, Memory::new(base)?);
    let effort = checkpoint::effort(effort)?;
    bytes(py, threads, move |engine| {
        zstn::model_delta::compress(engine, target.as_slice(), base.as_slice(), effort)
    })
}

/// Returns the safetensors file that a difference was made from.
#[pyfunction]
pub fn model_delta_unpack<'py>(
    py: Python<'py>,
    delta: &Bound<'py, PyAny>,
    base: &Bound<'py, PyAny>,
    threads: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let (delta, base) = (Memory::new(delta)?, Memory::new(base)?);
    bytes(py, threads, move |engine| {
        zstn::model_delta::decompress(engine, delta.as_slice(), base.as_slice())
    })
}
