//! Converts a checkpoint into another format in bounded memory: reads tensor by tensor
//! from any supported format and writes one of the target formats.
//!
//! A tensor that the target cannot store is refused before anything is written, as far
//! as names, dtypes and shapes determine it. After an error, no file is left.

use std::iter;
use std::path::{Path, PathBuf};

use zstn_core::catalog::FileKind;
use zstn_core::container::foreign::gauss::TensorReport;

use crate::output::{self, Publication, Staging, sink};
use crate::progress::Unpublished;
use crate::source::{Input, Location, is_same};
use crate::{Error, Job, Progress as _, Result, Sink, View};

mod compressed_tensors;
mod conversion;
mod gauss;
mod safetensors;
mod target;
mod zstn;
mod ztensor;

pub use gauss::{GaussPlan, GaussWatch};
pub use target::{Target, TargetKind};

use conversion::{Conversion, dropped_keys};

/// Options for [`convert`].
#[derive(Clone)]
#[must_use]
pub struct ConvertOptions<'a> {
    bases: Vec<Input>,
    view: View,
    shard_bytes: u64,
    extended: bool,
    gauss: &'a dyn GaussWatch,
}

impl Default for ConvertOptions<'_> {
    fn default() -> Self {
        Self {
            bases: Vec::new(),
            view: View::default(),
            shard_bytes: 5 << 30,
            extended: false,
            gauss: &(),
        }
    }
}

impl<'a> ConvertOptions<'a> {
    /// Reads a delta with the base that it was packed against, plain or packed. If the
    /// base is a delta itself, the next call adds the base's own base, and so on. If it was
    /// packed against several bases, the next call adds the next of them.
    pub fn base(mut self, base: impl Into<Input>) -> Self {
        self.bases.push(base.into());
        self
    }

    /// Selects how weights that are stored in several tensors are read; the default is
    /// [`View::Dense`].
    pub fn view(mut self, view: View) -> Self {
        self.view = view;
        self
    }

    /// Sets the maximum total length of the tensors in a file, if the output is a
    /// sharded checkpoint; the default is 5 GiB. A tensor is never split.
    pub fn shard_bytes(mut self, shard_bytes: u64) -> Self {
        self.shard_bytes = shard_bytes;
        self
    }

    /// Sets whether a ZSTN file gets extension frames
    /// ([`PackOptions::extended`](crate::PackOptions::extended)); the default is false.
    /// Without this option, an input with extension frames becomes a file that z4ai can
    /// read.
    pub fn extended(mut self, extended: bool) -> Self {
        self.extended = extended;
        self
    }

    /// Sets the watch that is called for each tensor of a Gauss file.
    pub fn gauss<'b>(self, gauss: &'b dyn GaussWatch) -> ConvertOptions<'b>
    where
        'a: 'b,
    {
        ConvertOptions { gauss, ..self }
    }
}

/// The result of a conversion.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ConvertReport {
    /// The format of the input.
    pub from: FileKind,
    /// The format of the output.
    pub to: TargetKind,
    /// The number of tensors that were read.
    pub tensors: usize,
    /// The total length of these tensors in bytes.
    pub tensor_bytes: u64,
    /// The total length of all files that were written, in bytes.
    pub written_bytes: u64,
    /// Paths of the written files, or of the folder that contains them; empty if the
    /// output is a writer.
    pub files: Vec<PathBuf>,
    /// Keys of metadata that the output cannot store.
    pub dropped: Vec<String>,
    /// True if the input stores codes instead of values. The output has the decoded
    /// values, which may be less precise than the values that were once encoded.
    pub is_decoded: bool,
    /// True if the weights had been rotated before they were quantised; the output has
    /// the rotated weights.
    pub is_rotated: bool,
    /// How the tensors are stored in the output.
    pub detail: Detail,
}

/// How the tensors of a converted checkpoint are stored.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Detail {
    /// All tensors are stored exactly.
    Exact,
    /// All tensors are stored in a Gauss file, with one report for each in file order.
    Gauss(Vec<TensorReport>),
    /// This number of tensors is stored sparse, and all others are stored dense.
    Sparse(usize),
}

/// The files that were written for a target.
struct Written {
    files: Vec<PathBuf>,
    len_bytes: u64,
    detail: Detail,
}

impl Written {
    /// Returns the result for one file or folder with exactly stored tensors.
    fn file(conversion: &Conversion, len_bytes: u64) -> Self {
        Self {
            files: vec![conversion.output.into()],
            len_bytes,
            detail: Detail::Exact,
        }
    }
}

/// Converts a checkpoint of any format that [`Reader::open`](crate::Reader::open) supports
/// to `target`.
///
/// If the path of `sink` ends in `.safetensors.index.json` or `.zstn.index.json`, the
/// tensors are written to several files in the same folder (docs/formats/sharded.md).
/// The result for compressed-tensors is a folder. Neither can be written to a writer.
/// Converting a ZSTN file to safetensors restores the file that it was packed from,
/// byte for byte.
///
/// # Errors
/// An input that is refused; a tensor that the target cannot store; a sink that cannot
/// take the result or that is the input; [`Error::Changed`] if the input was written to
/// meanwhile; I/O errors. After an error, nothing of the output is left.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # std::env::set_current_dir(&folder)?;
/// # let header = br#"{"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}"#;
/// # let len = (header.len() as u64).to_le_bytes();
/// # std::fs::write("model.safetensors", [&len[..], header, &[1, 2, 3]].concat())?;
/// use zstn::convert::Target;
/// use zstn::{ConvertOptions, Job};
///
/// let target = Target::ZTensor { is_zstd: true, checksum: None };
/// let options = ConvertOptions::default();
/// let report = zstn::convert(&Job::new(), "model.safetensors", "model.zt", &target, &options)?;
/// assert_eq!(report.tensors, 1);
/// # Ok(())
/// # }
/// ```
pub fn convert<'s>(
    job: &Job,
    input: impl Into<Input>,
    sink: impl Into<Sink<'s>>,
    target: &Target,
    options: &ConvertOptions,
) -> Result<ConvertReport> {
    let (input, sink) = (&input.into(), sink.into());
    let job = job.clone().or_default_memory();
    job.run(|job| match sink.0 {
        sink::Kind::Path { path, overwrite } => {
            let name = path.display().to_string();
            convert_to(job, input, (&path, name, overwrite), target, options)
        }
        sink::Kind::Url { url, overwrite } => {
            let mut inputs = iter::once(input).chain(&options.bases);
            inputs.try_for_each(|input| refuse_address(input, &url))?;
            let publication = Publication::begin(&url, overwrite, &job.http)?;
            let path = publication.path();
            let unpublished = Unpublished(job);
            let making = job.clone().progress(&unpublished);
            let output = (path.as_path(), url.clone(), true);
            let mut report = convert_to(&making, input, output, target, options)?;
            job.publishing()?;
            report.files = publication.finish(&report.files)?;
            Ok(report)
        }
        sink::Kind::Writer(mut writer) => {
            if target.kind() == TargetKind::CompressedTensors {
                return Err(sink::needs_path());
            }
            let staging = Staging::temporary()?;
            let path = staging.path("output");
            let output = (path.as_path(), "the output".to_owned(), true);
            let unpublished = Unpublished(job);
            let making = job.clone().progress(&unpublished);
            let mut report = convert_to(&making, input, output, target, options)?;
            let written = std::fs::File::open(&path);
            let copied = written.and_then(|mut file| std::io::copy(&mut file, &mut writer));
            let copied = copied.and_then(|_| writer.flush());
            copied.map_err(|error| Error::io("write the output", error))?;
            report.files.clear();
            Ok(report)
        }
    })
}

/// Converts to the file at `output`, which messages call `output_name`. An existing
/// file is replaced only if `replace` is true.
fn convert_to(
    job: &Job,
    input: &Input,
    (output, output_name, replace): (&Path, String, bool),
    target: &Target,
    options: &ConvertOptions,
) -> Result<ConvertReport> {
    check(input, output, target)?;
    let input = &input.rewindable(&job.http)?;
    let reader = job.open(input, &options.bases, options.view)?;
    let reader = match options.view {
        View::Dense => reader.into_original()?,
        View::Stored => reader,
    };
    if let Some((name, error)) = reader.model().refused().next() {
        // Without this tensor, the output would seem to be complete.
        return Err(Error::place(input)(error.clone().tensor(name)));
    }
    let conversion = Conversion {
        job: job.clone(),
        input,
        reader: &reader,
        output,
        output_name: &output_name,
        replace,
        options,
    };
    // A folder of compressed-tensors is always new, so it contains no input.
    if target.kind() != TargetKind::CompressedTensors {
        conversion.check_output(output)?;
    }
    let dropped = dropped_keys(&conversion, target.kind())?;
    let written = match target {
        Target::Safetensors => safetensors::write(&conversion),
        Target::Zstn { effort } => zstn::write(&conversion, *effort),
        Target::ZTensor { is_zstd, checksum } => ztensor::write(&conversion, *is_zstd, *checksum),
        Target::Gauss(options) => gauss::write(&conversion, options),
        Target::CompressedTensors { format } => compressed_tensors::write(&conversion, *format),
    }?;
    Ok(ConvertReport {
        from: conversion.kind(),
        to: target.kind(),
        tensors: conversion.tensors().len(),
        tensor_bytes: conversion.tensor_bytes(),
        written_bytes: written.len_bytes,
        files: written.files,
        dropped: dropped.into_iter().collect(),
        is_decoded: matches!(
            conversion.kind(),
            FileKind::Gauss | FileKind::CompressedTensors
        ) || conversion.tensors().iter().any(|t| t.format().is_some()),
        is_rotated: reader.model().is_rotated(),
        detail: written.detail,
    })
}

/// Checks everything that can be checked before the input is opened.
fn check(input: &Input, output: &Path, target: &Target) -> Result<()> {
    if let Target::Gauss(options) = target {
        options.check()?;
    }
    let naming = safetensors::Naming::of_index(output)?;
    if naming.is_some() && TargetKind::from_path(output) != Some(target.kind()) {
        return Err(Error::Usage(format!(
            "{} is not a name for an index of {} files",
            output.display(),
            target.kind().name()
        )));
    }
    refuse_input(input, output)
}

/// Refuses to write to the address of an input, or into the folder of an input index,
/// which contains the input's files.
fn refuse_address(input: &Input, output: &str) -> Result<()> {
    let Some(input @ Location::Url(url)) = input.location() else {
        return Ok(());
    };
    let folder = |location: &Location| location.sibling("").map(|folder| folder.to_string());
    let is_read = match input.is_index() || input.is_folder() {
        true => {
            let folders = folder(input).zip(folder(&Location::url(output)));
            folders.is_some_and(|(input, output)| is_same(&input, &output))
        }
        false => is_same(url, output),
    };
    match is_read {
        true => Err(output::being_read(output)),
        false => Ok(()),
    }
}

/// Refuses to replace the input or, if it is a folder, a file in it. This includes its
/// index, which is not one of the reader's sources.
fn refuse_input(input: &Input, output: &Path) -> Result<()> {
    let Some(Location::Path(input)) = input.location() else {
        return Ok(());
    };
    let (Ok(input), Ok(output)) = (std::fs::canonicalize(input), std::fs::canonicalize(output))
    else {
        return Ok(());
    };
    if output == input || output.parent() == Some(&input) {
        return Err(Error::Usage(format!(
            "{} is being read; write under another name",
            output.display()
        )));
    }
    Ok(())
}
