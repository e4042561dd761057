//! Sketches of checkpoints, and the choice of a base in a family.

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use zstn::family::{Candidate, Digests, Sketch, SketchOptions};
use zstn::{Job, Location};

use crate::checkpoint::Common;
use crate::engine;
use crate::input::{Argument, Destination};
use crate::interrupt::run;
use crate::progress::Watch;

/// Returns the location of the family to choose from if `base` is `"auto"`.
pub fn location(
    base: Option<&Bound<'_, PyAny>>,
    family: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<Location>> {
    let is_auto = base
        .and_then(|base| base.extract::<String>().ok())
        .is_some_and(|base| base == "auto");
    match (is_auto, family) {
        (false, None) => Ok(None),
        (false, Some(_)) => Err(PyValueError::new_err("family= needs base=\"auto\"")),
        (true, None) => Err(PyValueError::new_err(
            "base=\"auto\" needs the folder to look in, family=; for a file of this name, use \
             \"./auto\"",
        )),
        (true, Some(family)) => Ok(Some(match family.extract::<String>() {
            Ok(text) if Location::is_url(&text) => Location::url(text),
            _ => Location::from(family.extract::<PathBuf>()?),
        })),
    }
}

/// Returns the sketch of a file, made from samples of it.
#[pyfunction]
pub fn sample_sketch<'py>(py: Python<'py>, location: &str) -> PyResult<Bound<'py, PyBytes>> {
    let location = match Location::is_url(location) {
        true => Location::url(location),
        false => Location::from(location),
    };
    let bytes = run(py, &Watch::none(), move |_| {
        let engine = engine::shared()?;
        let options = SketchOptions::default().digests(Digests::Stored);
        let job = Job::new().engine(&engine);
        let sketch = zstn::family::sketch(&job, &location, &options)?;
        Ok(sketch.to_bytes(&engine))
    })?;
    Ok(PyBytes::new(py, &bytes))
}

/// Chooses a base among the other sketched files for each file. `fixed` files get none.
#[pyfunction]
pub fn choose_bases(
    py: Python<'_>,
    sketches: Vec<Vec<u8>>,
    fixed: Vec<bool>,
    extended: bool,
) -> PyResult<Vec<Option<usize>>> {
    run(py, &Watch::none(), move |_| {
        let engine = engine::shared()?;
        let mut candidates = Vec::with_capacity(sketches.len());
        for (file, is_fixed) in sketches.iter().zip(fixed) {
            let sketch = Sketch::parse(&engine, file)?;
            candidates.push(Candidate::new(sketch, is_fixed));
        }
        Ok(zstn::family::bases(&engine, &candidates, extended))
    })
}

/// Writes the sketch of a checkpoint and returns its report.
#[pyfunction]
pub fn sketch<'py>(
    py: Python<'py>,
    src: &Bound<'py, PyAny>,
    dst: &Bound<'py, PyAny>,
    base: Option<&Bound<'py, PyAny>>,
    digests: bool,
    mut common: Common,
) -> PyResult<Bound<'py, PyDict>> {
    let watch = Watch::new(common.progress.take()).making_output();
    let lease = watch.lease();
    let (input, bases) = (
        Argument::new(src, Some(&lease))?,
        Argument::several(base, Some(&lease))?,
    );
    let destination = Destination::new(dst)?;
    let saved = run(py, &watch, move |watch| {
        let job = common.job(input.address.as_deref(), watch)?;
        let mut options = SketchOptions::default();
        if digests {
            options = options.digests(Digests::All);
        }
        for base in &bases {
            options = options.base(&base.input);
        }
        let sink = destination.sink(common.overwrite, watch);
        zstn::family::save_sketch(&job, &input.input, sink, &options)
    })?;
    let sketch = &saved.sketch;
    let tensors = sketch.tensors();
    let digested = tensors.iter().filter(|tensor| tensor.digest.is_some());
    let report = PyDict::new(py);
    report.set_item("original_bytes", sketch.original_len_bytes())?;
    report.set_item("sketch_bytes", saved.len_bytes)?;
    report.set_item("tensors", tensors.len())?;
    report.set_item("digested_tensors", digested.count())?;
    Ok(report)
}
