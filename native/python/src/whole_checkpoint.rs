//! Packing, restoring, verifying, comparing, converting and sketching whole checkpoints.

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use zstn::convert::{Target, TargetKind};
use zstn::family::{Digests, FamilyOptions, SketchOptions};
use zstn::zstn_core::container::foreign::{compressed_tensors, gauss};
use zstn::zstn_core::container::zstn::parse_sha256;
use zstn::{
    ConvertOptions, DiffOptions, Error, Location, PackOptions, Phase, Progress as _, UnpackOptions,
    VerifyOptions, View,
};

use crate::arguments::{self, Argument, Common, Destination};
use crate::interrupt::run;
use crate::progress::Watch;
use crate::report;

/// Packs a checkpoint and returns the report.
#[pyfunction]
#[expect(
    clippy::too_many_arguments,
    reason = "the keywords of a Python function"
)]
pub fn pack<'py>(
    py: Python<'py>,
    src: &Bound<'py, PyAny>,
    dst: &Bound<'py, PyAny>,
    effort: &str,
    extended: bool,
    base: Option<&Bound<'py, PyAny>>,
    family: Option<&Bound<'py, PyAny>>,
    statistics: bool,
    sha256: Option<&str>,
    mut common: Common,
) -> PyResult<Bound<'py, PyDict>> {
    let watch = Watch::new(common.progress.take()).making_output();
    let lease = watch.lease();
    let parsed = sha256.map(parse_sha256).transpose();
    let sha256 = parsed.map_err(|error| PyValueError::new_err(error.to_string()))?;
    if sha256.is_some() && base.is_some() {
        let detail = "a delta cannot store a SHA-256; leave out `sha256`";
        return Err(PyValueError::new_err(detail));
    }
    let family = family_location(base, family)?;
    let bases = match family {
        None => Argument::several(base, Some(&lease))?,
        Some(_) => Vec::new(),
    };
    let input = Argument::new(src, Some(&lease))?;
    let (destination, effort) = (Destination::new(dst)?, arguments::effort(effort)?);
    let (report, choice) = run(py, &watch, move |watch| {
        let job = common.job(input.address.as_deref(), watch)?;
        let mut options = PackOptions::default()
            .effort(effort)
            .extended(extended)
            .statistics(statistics);
        if let Some(sha256) = sha256 {
            options = options.sha256(sha256);
        }
        for base in &bases {
            options = options.base(&base.input);
        }
        let mut choice = None;
        if let Some(family) = family {
            let choosing = FamilyOptions::default().extended(extended);
            let chosen = zstn::family::choose(&job, &input.input, family, &choosing)?;
            // The progress of packing counts from 0 again.
            watch.phase(Phase::Main);
            options = chosen.add_to(options);
            choice = Some(chosen);
        }
        let sink = destination.sink(common.overwrite, watch);
        Ok((zstn::pack(&job, &input.input, sink, &options)?, choice))
    })?;
    let packed = report::packed(py, &report)?;
    if let Some(choice) = choice {
        packed.set_item("family", report::chosen(py, &choice)?)?;
    }
    Ok(packed)
}

/// Restores a checkpoint and returns the report.
#[pyfunction]
pub fn unpack<'py>(
    py: Python<'py>,
    src: &Bound<'py, PyAny>,
    dst: &Bound<'py, PyAny>,
    base: Option<&Bound<'py, PyAny>>,
    mut common: Common,
) -> PyResult<Bound<'py, PyDict>> {
    let watch = Watch::new(common.progress.take()).making_output();
    let lease = watch.lease();
    let (input, bases) = (
        Argument::new(src, Some(&lease))?,
        Argument::several(base, Some(&lease))?,
    );
    let destination = Destination::new(dst)?;
    let report = run(py, &watch, move |watch| {
        let job = common.job(input.address.as_deref(), watch)?;
        let mut options = UnpackOptions::default();
        for base in &bases {
            options = options.base(&base.input);
        }
        let sink = destination.sink(common.overwrite, watch);
        zstn::unpack(&job, &input.input, sink, &options)
    })?;
    report::unpacked(py, &report)
}

/// Verifies a checkpoint and returns the report.
#[pyfunction]
pub fn verify<'py>(
    py: Python<'py>,
    src: &Bound<'py, PyAny>,
    original: Option<&Bound<'py, PyAny>>,
    confirm: bool,
    fast: bool,
    base: Option<&Bound<'py, PyAny>>,
    mut common: Common,
) -> PyResult<Bound<'py, PyDict>> {
    let watch = Watch::new(common.progress.take());
    let lease = watch.lease();
    let (input, bases) = (
        Argument::new(src, Some(&lease))?,
        Argument::several(base, Some(&lease))?,
    );
    let original = original
        .map(|original| Argument::new(original, Some(&lease)))
        .transpose()?;
    let report = run(py, &watch, move |watch| {
        let job = common.job(input.address.as_deref(), watch)?;
        let mut options = VerifyOptions::default().confirm(confirm).fast(fast);
        if let Some(original) = &original {
            options = options.original(&original.input);
        }
        for base in &bases {
            options = options.base(&base.input);
        }
        zstn::verify(&job, &input.input, &options)
    })?;
    report::verified(py, &report)
}

/// Compares two models and returns the report.
#[pyfunction]
pub fn diff<'py>(
    py: Python<'py>,
    first: &Bound<'py, PyAny>,
    second: &Bound<'py, PyAny>,
    figures: bool,
    dense: bool,
    base: Option<&Bound<'py, PyAny>>,
    mut common: Common,
) -> PyResult<Bound<'py, PyDict>> {
    let watch = Watch::new(common.progress.take());
    let lease = watch.lease();
    let first = Argument::new(first, Some(&lease))?;
    let second = Argument::new(second, Some(&lease))?;
    let bases = Argument::several(base, Some(&lease))?;
    let report = run(py, &watch, move |watch| {
        let addresses = [&first, &second].map(|input| input.address.as_deref());
        let job = common.job(addresses.into_iter().flatten().next(), watch)?;
        let mut options = DiffOptions::default().figures(figures).view(match dense {
            true => View::Dense,
            false => View::Stored,
        });
        for base in &bases {
            options = options.base(&base.input);
        }
        zstn::diff(&job, &first.input, &second.input, &options)
    })?;
    report::compared(py, &report)
}

/// Converts a checkpoint. `target` is the name of a file format; by default, the
/// extension of the output determines it.
#[pyfunction]
#[expect(
    clippy::too_many_arguments,
    reason = "the keywords of a Python function"
)]
pub fn convert<'py>(
    py: Python<'py>,
    src: &Bound<'py, PyAny>,
    dst: &Bound<'py, PyAny>,
    target: Option<&str>,
    effort: &str,
    extended: bool,
    dense: bool,
    shard_bytes: Option<u64>,
    base: Option<&Bound<'py, PyAny>>,
    mut common: Common,
) -> PyResult<Bound<'py, PyDict>> {
    let watch = Watch::new(common.progress.take()).making_output();
    let lease = watch.lease();
    let (input, bases) = (
        Argument::new(src, Some(&lease))?,
        Argument::several(base, Some(&lease))?,
    );
    let destination = Destination::new(dst)?;
    let effort = arguments::effort(effort)?;
    let kind = match target {
        Some(name) => TargetKind::from_name(name),
        None => destination.kind(),
    };
    let names = || TargetKind::ALL.map(TargetKind::name).join(", ");
    let kind = kind.ok_or_else(|| {
        let detail = match target {
            Some(name) => format!("{name:?} is not a kind of file; use one of {}", names()),
            None => format!(
                "the name of the output does not name a kind; give `to=`, one of {}",
                names()
            ),
        };
        PyValueError::new_err(detail)
    })?;
    if extended && kind != TargetKind::Zstn {
        let detail = format!("extended has no effect on a {} output", kind.name());
        return Err(PyValueError::new_err(detail));
    }
    let report = run(py, &watch, move |watch| {
        let target = match kind {
            TargetKind::Safetensors => Target::Safetensors,
            TargetKind::Zstn => Target::Zstn { effort },
            TargetKind::ZTensor => Target::ZTensor {
                is_zstd: true,
                checksum: None,
            },
            TargetKind::Gauss => Target::Gauss(gauss::GaussOptions::default()),
            TargetKind::CompressedTensors => Target::CompressedTensors {
                format: compressed_tensors::WeightFormat::SparseBitmask,
            },
            _ => return Err(Error::Usage("this kind cannot be written".into())),
        };
        let job = common.job(input.address.as_deref(), watch)?;
        let mut options = ConvertOptions::default()
            .view(if dense { View::Dense } else { View::Stored })
            .extended(extended);
        if let Some(bytes) = shard_bytes {
            options = options.shard_bytes(bytes);
        }
        for base in &bases {
            options = options.base(&base.input);
        }
        let sink = destination.sink(common.overwrite, watch);
        zstn::convert(&job, &input.input, sink, &target, &options)
    })?;
    report::converted(py, &report)
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

/// Returns the location of the family to choose from if `base` is `"auto"`.
fn family_location(
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
