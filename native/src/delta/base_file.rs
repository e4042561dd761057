//! The base of a delta, which any type of file may restore.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use zstn_core::catalog::{Kind, recognise};
use zstn_core::limits::HEAD_LEN_BYTES;

use super::Checked;
use crate::source::{HttpOptions, Input, Local, Source};
use crate::{Engine, Error, Output, Phase, Progress, Result, unpack};

/// The maximum number of bases of a delta: one plain or packed checkpoint, and deltas
/// against it or against each other. Reading one tensor reads every file of a chain,
/// and restoring writes every generation once. Four bases keep a series of checkpoints
/// small; after that, a new full base costs only one file.
pub const MAX_BASES: usize = 4;

/// Refuses a chain with more than [`MAX_BASES`] bases.
pub(crate) fn check_chain(bases: &[impl std::fmt::Display]) -> Result<()> {
    match bases.get(MAX_BASES - 1) {
        Some(last) if bases.len() > MAX_BASES => Err(Error::Usage(format!(
            "a chain of {} bases is over the limit of {MAX_BASES}; unpack {last} with the bases \
             after it, and give the restored file in its place",
            bases.len()
        ))),
        _ => Ok(()),
    }
}

/// The safetensors file that a delta is made against.
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
    /// Opens the first file of `chain`. If it is a delta, the second file is its base,
    /// and so on; the last file needs no base.
    ///
    /// Decoding takes up to about `memory_bytes`, unless a single tensor needs more.
    ///
    /// # Errors
    /// A chain that is too short or too long; a file of another type; every error of
    /// unpacking one of the files; too little space for the result.
    pub(crate) fn open(
        engine: &Engine,
        chain: &[Input],
        http: &HttpOptions,
        memory_bytes: u64,
        progress: &dyn Progress,
    ) -> Result<Self> {
        check_chain(chain)?;
        progress.phase(Phase::RestoreBase);
        let mut files: Vec<Arc<Local>> = Vec::with_capacity(chain.len());
        for input in chain {
            if let Some(before) = files.last() {
                check_takes_base(before, &input.to_string())?;
            }
            files.push(input.fetch(http, progress)?);
        }
        let base = Self::restore(engine, files, memory_bytes, progress);
        progress.phase(Phase::Main);
        base
    }

    /// Opens the base of `input` like [`BaseFile::open`]; returns `None` if `chain` is
    /// empty. An `input` that is not a delta is refused before anything is fetched or
    /// restored.
    ///
    /// # Errors
    /// The errors of [`BaseFile::open`].
    pub(crate) fn open_for(
        engine: &Engine,
        input: &Local,
        chain: &[Input],
        http: &HttpOptions,
        memory_bytes: u64,
        progress: &dyn Progress,
    ) -> Result<Option<Self>> {
        let Some(base) = chain.first() else {
            return Ok(None);
        };
        check_takes_base(input, &base.to_string())?;
        Self::open(engine, chain, http, memory_bytes, progress).map(Some)
    }

    /// Restores the base from local files, like [`BaseFile::open`].
    ///
    /// # Errors
    /// The errors of [`BaseFile::open`].
    pub(crate) fn restore(
        engine: &Engine,
        mut chain: Vec<Arc<Local>>,
        memory_bytes: u64,
        progress: &dyn Progress,
    ) -> Result<Self> {
        for pair in chain.windows(2) {
            check_takes_base(&pair[0], pair[1].name())?;
        }
        let Some(last) = chain.pop() else {
            return Err(Error::Usage("no base is given".into()));
        };
        let work = Restoring {
            engine,
            memory_bytes,
            progress: Total {
                progress,
                len_bytes: AtomicU64::new(0),
            },
        };
        let mut base = match kind(&last)? {
            Kind::Safetensors => last,
            Kind::Zstn => work.container(&last)?.into(),
            Kind::Delta => return Err(Error::needs_base(last.name())),
            _ => {
                return Err(Error::Usage(format!(
                    "{} cannot be a base: that is a safetensors file, or a .zstn or .z4dm file \
                     that restores one; `convert` makes a safetensors file of it",
                    last.name()
                )));
            }
        };
        while let Some(delta) = chain.pop() {
            base = work.delta(&delta, &base)?.into();
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

fn kind(input: &Local) -> Result<Kind> {
    let head = input.head(HEAD_LEN_BYTES)?;
    recognise(&head, input.len_bytes()).map_err(Error::place(input.name()))
}

/// Refuses a file that is not a delta, although `base` was given as its base.
fn check_takes_base(input: &Local, base: &str) -> Result<()> {
    match kind(input)? {
        Kind::Delta => Ok(()),
        _ => Err(Error::Usage(format!(
            "{} is not a delta, so it takes no base; leave out {base}",
            input.name()
        ))),
    }
}

/// The arguments that all steps of restoring a chain share.
struct Restoring<'a> {
    engine: &'a Engine,
    memory_bytes: u64,
    progress: Total<'a>,
}

impl Restoring<'_> {
    fn container(&self, input: &Local) -> Result<Local> {
        restored(&[input], |output| {
            unpack::restore(
                self.engine,
                input,
                output,
                self.memory_bytes,
                &self.progress,
            )
            .map(drop)
        })
    }

    fn delta(&self, input: &Local, base: &Local) -> Result<Local> {
        restored(&[input, base], |output| {
            let delta = Checked::parse(self.engine, input, base, self.memory_bytes)?;
            delta.restore(self.engine, output, self.memory_bytes, &self.progress)
        })
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

/// The progress of restoring several files sequentially, with one total.
struct Total<'a> {
    progress: &'a dyn Progress,
    len_bytes: AtomicU64,
}

impl Progress for Total<'_> {
    fn begin(&self, len_bytes: u64) {
        let before = self.len_bytes.fetch_add(len_bytes, Relaxed);
        self.progress.begin(before.saturating_add(len_bytes));
    }

    fn advance(&self, len_bytes: u64) {
        self.progress.advance(len_bytes);
    }
}
