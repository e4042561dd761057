//! A checkpoint in another format, in bounded memory: read tensor by tensor,
//! whatever it is, and written by one of the targets.
//!
//! What a target cannot hold is refused before anything is written, as far as
//! names, dtypes and shapes show it. Nothing is left behind by an error.

use std::path::{Path, PathBuf};

use zstn_core::catalog::Kind;
use zstn_core::container::foreign::gauss::TensorReport;

use crate::source::Place;
use crate::{Engine, Error, Progress, Reader, Result};

mod config;
mod dropped;
mod gauss;
mod job;
mod packed;
mod safetensors;
mod shards;
mod sparse;
mod target;
mod ztensor;

pub use gauss::{GaussPlan, GaussWatch};
pub use target::{Target, TargetKind};

use job::Job;

/// How to convert.
#[derive(Clone, Copy)]
pub struct ConvertOptions<'a> {
    /// The checkpoint that a delta was packed against.
    pub base: Option<&'a Place>,
    /// Memory to stay within, roughly, in bytes; the largest tensor has to
    /// fit in any case. It never changes the output.
    pub memory_bytes: u64,
    /// Most bytes of tensors in a file, where the output is a sharded
    /// checkpoint; a tensor is never cut.
    pub shard_len_bytes: u64,
    /// Whether files that exist are replaced; folders never are.
    pub replace: bool,
    /// Told the bytes of tensors dealt with.
    pub progress: &'a dyn Progress,
    /// Told about each tensor of a Gauss file.
    pub gauss: &'a dyn GaussWatch,
}

impl Default for ConvertOptions<'_> {
    fn default() -> Self {
        Self {
            base: None,
            memory_bytes: 1 << 30,
            shard_len_bytes: 5 << 30,
            replace: true,
            progress: &(),
            gauss: &(),
        }
    }
}

/// What a conversion came to.
#[derive(Debug, Clone, PartialEq)]
pub struct ConvertReport {
    /// What the input is.
    pub from: Kind,
    /// What was made.
    pub to: TargetKind,
    /// Tensors read.
    pub tensors: usize,
    /// Bytes of these tensors.
    pub tensors_len_bytes: u64,
    /// Bytes of all files written.
    pub written_bytes: u64,
    /// These files, or the folder they are in.
    pub files: Vec<PathBuf>,
    /// Keys of metadata that the output has no place for.
    pub dropped: Vec<String>,
    /// Whether values were made from codes that stand for them: they are what
    /// the input says, which may be less than what was once encoded.
    pub is_decoded: bool,
    /// Whether weights had been rotated before they were quantised; the
    /// output has the rotated ones.
    pub is_rotated: bool,
    /// What only this kind of output tells.
    pub detail: Report,
}

/// What becomes of single tensors.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// They are stored as they are.
    Exact,
    /// Of every tensor of a Gauss file, in file order.
    Gauss(Vec<TensorReport>),
    /// So many were made sparse.
    Sparse(usize),
}

/// What a target has made.
struct Written {
    files: Vec<PathBuf>,
    len_bytes: u64,
    detail: Report,
}

impl Written {
    /// One file or folder, tensors as they are.
    fn file(job: &Job, len_bytes: u64) -> Self {
        Self {
            files: vec![job.output.into()],
            len_bytes,
            detail: Report::Exact,
        }
    }
}

/// Converts the checkpoint at `input`, a path or an http(s) address of
/// anything [`Reader::open`] takes. It is read and written by `engine` alone.
///
/// If `output` ends in `.safetensors.index.json` or `.zstn.index.json`, the
/// tensors go into several files beside it (docs/formats/sharded.md). A
/// `.zstn` comes back as the file it was packed from, byte for byte. A folder
/// must not exist, or be empty; files are replaced if
/// [`ConvertOptions::replace`] says so.
///
/// Fails if the input is refused, if the target cannot hold one of its
/// tensors, if output and input are the same, and for I/O.
pub fn convert(
    engine: &Engine,
    input: impl Into<Place>,
    output: impl AsRef<Path>,
    target: &Target,
    options: &ConvertOptions,
) -> Result<ConvertReport> {
    let (input, output) = (&input.into(), output.as_ref());
    check(input, output, target)?;
    let reading = Reader::options().engine(engine);
    let mut reader = reading.open(input)?;
    if let Some(base) = options.base {
        reader = reader.with_base(reading.open(base)?)?;
    }
    if let Some((name, error)) = reader.model().refused().next() {
        // Without it the output would look complete.
        return Err(Error::place(input)(error.clone().tensor(name)));
    }
    let job = Job {
        engine,
        input,
        reader: &reader,
        output,
        options: *options,
    };
    // A folder of compressed-tensors is a new one, which holds no input.
    if target.kind() != TargetKind::CompressedTensors {
        job.check_output(output)?;
    }
    let dropped = dropped::keys(&job, target.kind())?;
    let written = match target {
        Target::Safetensors => safetensors::write(&job),
        Target::Zstn { effort } => packed::write(&job, *effort),
        Target::ZTensor { is_zstd, checksum } => ztensor::write(&job, *is_zstd, *checksum),
        Target::Gauss(options) => gauss::write(&job, options),
        Target::CompressedTensors { format } => sparse::write(&job, *format),
    }?;
    Ok(ConvertReport {
        from: job.kind(),
        to: target.kind(),
        tensors: job.tensors().len(),
        tensors_len_bytes: job.tensors_len_bytes(),
        written_bytes: written.len_bytes,
        files: written.files,
        dropped: dropped.into_iter().collect(),
        is_decoded: matches!(job.kind(), Kind::Gauss | Kind::CompressedTensors),
        is_rotated: reader.model().is_rotated(),
        detail: written.detail,
    })
}

/// What can be refused before the input is opened.
fn check(input: &Place, output: &Path, target: &Target) -> Result<()> {
    if *input == Place::Stdin {
        return Err(Error::Usage(
            "standard input cannot be converted: name a file or an address".into(),
        ));
    }
    if let Target::Gauss(options) = target {
        options.check()?;
    }
    let naming = shards::Naming::of_index(output)?;
    if naming.is_some() && TargetKind::from_path(output) != Some(target.kind()) {
        return Err(Error::Usage(format!(
            "{} is no name for an index of {} files",
            output.display(),
            target.kind().name()
        )));
    }
    refuse_input(input, output)
}

/// Refuses to replace the input, or a file of it if it is a folder, such as
/// its index, which is not one of the reader's sources.
fn refuse_input(input: &Place, output: &Path) -> Result<()> {
    let Place::Path(input) = input else {
        return Ok(());
    };
    let (Ok(place), Ok(output)) = (std::fs::canonicalize(input), std::fs::canonicalize(output))
    else {
        return Ok(());
    };
    if output == place || output.parent() == Some(&place) {
        return Err(Error::Usage(format!(
            "{} is being read; write under another name",
            output.display()
        )));
    }
    Ok(())
}
