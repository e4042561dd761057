//! The base of a delta, restored from a plain file, a container or another delta.

use std::fmt::Display;
use std::ops::Deref;
use std::sync::Arc;

use zstn_core::catalog::{FileKind, recognise_named};
use zstn_core::limits::HEAD_LEN_BYTES;

use super::Checked;
use crate::progress::Total;
use crate::source::{Input, Local, Source};
use crate::{Error, Job, Output, Phase, Progress as _, Result, unpack};

/// The maximum number of bases of a delta: one plain or packed checkpoint, and deltas
/// against it or against each other. Reading one tensor reads every file of a chain,
/// and restoring writes every generation once. Four bases keep a series of checkpoints
/// small; after that, a new full base costs only one file.
pub const MAX_BASES: usize = 4;

/// Refuses a chain with more than [`MAX_BASES`] bases.
pub(crate) fn check_chain(bases: &[impl Display]) -> Result<()> {
    match bases.get(MAX_BASES - 1) {
        Some(last) if bases.len() > MAX_BASES => Err(Error::Usage(format!(
            "a chain of {} bases is over the limit of {MAX_BASES}; unpack {last} with the bases \
             after it, and give the restored file in its place",
            bases.len()
        ))),
        _ => Ok(()),
    }
}

/// The file that a delta is made against: a safetensors file, or a file of another format
/// for a delta between two of these (docs/formats/zstn-delta.md 6).
///
/// A packed base, whether a container or a delta, is first restored, with all checks of
/// unpacking, into an unnamed file in the folder for temporary files (`TMPDIR`). This
/// needs free space for the original; for a chain of deltas, twice as much.
///
/// Decoding each tensor on demand would need no space. But a delta begins with a digest
/// of all data of its base, so every tensor would be decoded at least twice, and once
/// more for each generation in a chain.
#[derive(Debug)]
pub(crate) struct BaseFile(Arc<Local>);

impl BaseFile {
    /// Fetches and restores the first file of `chain`. If it is a delta, the second file
    /// is its base, and so on; the last file needs no base. `delta` is the file that will
    /// be read with the base, if there is one already. Returns `None` if `chain` is empty.
    ///
    /// # Errors
    /// The errors of [`BaseFile::restore`]; a chain that is too long.
    pub(crate) fn open(job: &Job, delta: Option<&Local>, chain: &[Input]) -> Result<Option<Self>> {
        check_chain(chain)?;
        if chain.is_empty() {
            return Ok(None);
        }
        job.phase(Phase::RestoreBase);
        let base = Self::restore(job, delta, chain, |input| input.fetch(&job.http, job));
        job.phase(Phase::Main);
        base.map(Some)
    }

    /// Restores the base like [`BaseFile::open`] from a chain whose files `fetch` makes
    /// available on this machine. A file that takes no base is refused before the next
    /// file is fetched, and nothing is restored before all files are there.
    ///
    /// # Errors
    /// A chain that is too short; a file of another type; every error of `fetch`, and of
    /// unpacking one of the files; too little space for the result.
    pub(crate) fn restore<T: Display>(
        job: &Job,
        delta: Option<&Local>,
        chain: &[T],
        fetch: impl Fn(&T) -> Result<Arc<Local>>,
    ) -> Result<Self> {
        let mut files: Vec<Arc<Local>> = Vec::with_capacity(chain.len());
        for link in chain {
            if let Some(before) = files.last().map(|file| &**file).or(delta) {
                check_takes_base(before, link)?;
            }
            files.push(fetch(link)?);
        }
        let Some(last) = files.pop() else {
            return Err(Error::Usage("no base is given".into()));
        };
        let total = Total::new(job);
        let job = &job.clone().progress(&total);
        let mut base = match kind(&last)? {
            FileKind::Zstn => {
                let write = |output: &Output| unpack::restore(job, &last, output).map(drop);
                restored(&[&last], write)?.into()
            }
            FileKind::Delta => return Err(Error::needs_base(last.name())),
            _ => last,
        };
        while let Some(delta) = files.pop() {
            let write = |output: &Output| Checked::parse(job, &delta, &base)?.restore(job, output);
            base = restored(&[&delta, &base], write)?.into();
        }
        Ok(Self(base))
    }
}

impl Deref for BaseFile {
    type Target = Local;

    fn deref(&self) -> &Local {
        &self.0
    }
}

fn kind(input: &Local) -> Result<FileKind> {
    let head = input.head(HEAD_LEN_BYTES)?;
    recognise_named(input.name(), &head, input.len_bytes()).map_err(Error::place(input.name()))
}

/// Refuses a file that is not a delta and therefore takes no base. `base` is the base
/// that the caller gave for it.
fn check_takes_base(input: &Local, base: &impl Display) -> Result<()> {
    match kind(input)? {
        FileKind::Delta => Ok(()),
        _ => Err(Error::Usage(format!(
            "{} is not a delta, so it takes no base; leave out {base}",
            input.name()
        ))),
    }
}

/// Writes a temporary file from `inputs`; messages call it by the name of the first
/// input.
fn restored(inputs: &[&Local], write: impl FnOnce(&Output) -> Result<()>) -> Result<Local> {
    let output = Output::temporary()?;
    let written = write(&output);
    // If an input has changed, the change is reported: it may have caused any other
    // error.
    inputs
        .iter()
        .try_for_each(|input| input.check_unchanged())?;
    written?;
    let restored = output.written_as(inputs[0].name().into())?;
    Ok(restored.restored_from(inputs))
}
