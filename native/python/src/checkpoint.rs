//! Packing, restoring, verifying and converting whole checkpoints.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use zstn::convert::{Target, TargetKind};
use zstn::family::FamilyOptions;
use zstn::zstn_core::container::foreign::{compressed_tensors, gauss};
use zstn::zstn_core::container::zstn::parse_sha256;
use zstn::{
    ConvertOptions, Effort, Error, Job, PackOptions, Phase, Progress as _, Result, UnpackOptions,
    VerifyOptions, View,
};

use crate::engine::{self, Threads};
use crate::family;
use crate::http::Http;
use crate::input::{Argument, Destination};
use crate::interrupt::run;
use crate::progress::Watch;
use crate::report;

/// Returns the effort with this name.
pub fn effort(name: &str) -> PyResult<Effort> {
    match name {
        "fast" => Ok(Effort::Fast),
        "balanced" => Ok(Effort::Balanced),
        "max" => Ok(Effort::Max),
        _ => Err(PyValueError::new_err(format!(
            "{name:?} is not an effort; use \"fast\", \"balanced\" or \"max\""
        ))),
    }
}

/// The keyword arguments that all of these functions accept.
pub struct Common {
    pub threads: Threads,
    pub memory: Option<u64>,
    pub overwrite: bool,
    pub progress: Option<Py<PyAny>>,
    pub http: Http,
}

impl Common {
    /// Returns the job of a call whose input has the `address`, if it has one.
    pub fn job<'a>(&self, address: Option<&str>, watch: &'a Watch) -> Result<Job<'a>> {
        let job = Job::new()
            .engine(&engine::with_threads(self.threads)?)
            .http(self.http.options(address)?)
            .progress(watch)
            .cancel_token(watch.token());
        Ok(match self.memory {
            Some(bytes) => job.memory_bytes(bytes),
            None => job,
        })
    }
}

// The derived implementation would add the name of the field to error messages.
impl<'py> FromPyObject<'_, 'py> for Common {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self {
            threads: given.get_item("threads")?.extract()?,
            memory: given.get_item("memory")?.extract()?,
            overwrite: given.get_item("overwrite")?.extract()?,
            progress: given.get_item("progress")?.extract()?,
            http: given.get_item("http")?.extract()?,
        })
    }
}

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
    let family = family::location(base, family)?;
    let bases = match family {
        None => Argument::several(base, Some(&lease))?,
        Some(_) => Vec::new(),
    };
    let input = Argument::new(src, Some(&lease))?;
    let (destination, effort) = (Destination::new(dst)?, self::effort(effort)?);
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
        let mut options = VerifyOptions::default();
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
    let effort = self::effort(effort)?;
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
            TargetKind::Gauss => Target::Gauss(gauss::Options::default()),
            TargetKind::CompressedTensors => Target::CompressedTensors {
                format: compressed_tensors::Format::SparseBitmask,
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
