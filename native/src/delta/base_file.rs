//! The bases of deltas, restored from plain files, containers or other deltas.

use std::fmt::Display;
use std::ops::Deref;
use std::sync::Arc;

use zstn_core::catalog::{FileCatalog, FileKind, recognise_named};
use zstn_core::container::model_delta::{DeltaTable, Mixes};
use zstn_core::container::safetensors::ShardIndex;
use zstn_core::limits::HEAD_LEN_BYTES;

use super::base::{Base, File, has_computed_base, locked, source_count};
use super::{Checked, base_header, merge};
use crate::catalog::open_catalog;
use crate::progress::Total;
use crate::shards::{BASES, Shard, Shards};
use crate::source::{HttpOptions, Input, Local, Mixed, Source};
use crate::{Error, Job, Output, Phase, Progress as _, Result, unpack};

/// The maximum number of bases of a delta: plain or packed checkpoints that it was made
/// against, and deltas against these or against each other. Reading one tensor reads every
/// file of a chain, and restoring writes every generation once. Four bases keep a series of
/// checkpoints small; after that, a new full base costs only one file.
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

/// The file that a delta is made against: a safetensors file, several of them as one
/// (docs/formats/zstn-delta.md 8), or a file that is computed from other checkpoints
/// (docs/formats/zstn-delta.md 9). For a delta that restores a file that is not safetensors,
/// it is a file of any format, or the data of several safetensors files
/// (docs/formats/zstn-delta.md 6).
///
/// A packed base, whether a container or a delta, is first restored, with all checks of
/// unpacking, into an unnamed file in the folder for temporary files (`TMPDIR`). This
/// needs free space for the original; for a chain of deltas, twice as much.
///
/// Decoding each tensor on demand would need no space. But a delta begins with a digest
/// of all data of its base, so every tensor would be decoded at least twice, and once
/// more for each generation in a chain.
#[derive(Debug)]
pub(crate) struct BaseFile {
    file: Arc<Local>,
    mixes: Option<Mixes>,
}

impl BaseFile {
    /// Fetches and restores the base of `delta` from a chain whose first input is its
    /// base, whose second input is the base of that, and so on. Returns `None` if `chain`
    /// is empty.
    ///
    /// # Errors
    /// The errors of [`Bases::open`] and [`Bases::of_delta`].
    pub(crate) fn of_delta(job: &Job, delta: &Local, chain: &[Input]) -> Result<Option<Self>> {
        Self::of_chain(job, chain, |bases, job| bases.of_delta(job, delta))
    }

    /// Fetches and restores the base for packing `target`, which is not a delta, like
    /// [`BaseFile::of_delta`]. Only a delta that `is_extended` may refer to tensors of other
    /// names, and may have a base that is converted to the dtypes of the target.
    ///
    /// # Errors
    /// The errors of [`Bases::open`] and [`Bases::for_packing`].
    pub(crate) fn for_packing(
        job: &Job,
        target: &Local,
        chain: &[Input],
        is_extended: bool,
    ) -> Result<Option<Self>> {
        Self::of_chain(job, chain, |bases, job| {
            let base = bases.for_packing(job, target, is_extended)?;
            // z4ai does not convert the base.
            let is_converted =
                is_extended && base.mixes.is_none() && merge::is_of_another_dtype(target, &base)?;
            match is_converted {
                true => Bases::computed(job, target, &[bases.file(job, 0, None)?]),
                false => Ok(base),
            }
        })
    }

    /// Fetches and restores the base of a file that is not safetensors.
    ///
    /// # Errors
    /// The errors of [`Bases::open`] and [`Bases::whole`].
    pub(crate) fn of_original(job: &Job, chain: &[Input]) -> Result<Option<Self>> {
        Self::of_chain(job, chain, Bases::whole)
    }

    /// Returns how the file is computed from other checkpoints, if it is and
    /// [`BaseFile::for_packing`] has returned it.
    pub(crate) fn mixes(&self) -> Option<&Mixes> {
        self.mixes.as_ref()
    }

    pub(super) fn file(&self) -> &Arc<Local> {
        &self.file
    }

    fn of_chain(
        job: &Job,
        chain: &[Input],
        restore: impl FnOnce(&Bases, &Job) -> Result<Self>,
    ) -> Result<Option<Self>> {
        let Some(bases) = Bases::open(chain, &job.http)? else {
            return Ok(None);
        };
        job.phase(Phase::RestoreBase);
        let total = Total::new(job);
        let base = restore(&bases, &job.clone().progress(&total));
        job.phase(Phase::Main);
        base.map(Some)
    }
}

impl Deref for BaseFile {
    type Target = Local;

    fn deref(&self) -> &Local {
        &self.file
    }
}

impl From<Arc<Local>> for BaseFile {
    fn from(file: Arc<Local>) -> Self {
        Self { file, mixes: None }
    }
}

/// The base of deltas, the base of this base if it is a delta itself, and so on. Each of
/// them is a checkpoint in one or several files. If a delta was made against several
/// checkpoints together, these follow one another, each with its own bases after it.
pub(crate) struct Bases(Vec<Base>);

impl Bases {
    /// Returns the bases in `chain`, nearest first; `None` if it is empty. Indices and
    /// folders are read.
    ///
    /// # Errors
    /// A chain that is too long; a folder without a checkpoint at its top; I/O errors.
    pub(crate) fn open(chain: &[Input], http: &HttpOptions) -> Result<Option<Self>> {
        check_chain(chain)?;
        let bases = chain.iter().map(|input| {
            Ok(match Shards::open_input(input, BASES, http)? {
                Some(shards) if shards.files().is_empty() => {
                    return Err(Error::Usage(format!(
                        "{input} has no checkpoint that could be the base of a single file: give \
                         the path of a file or an index"
                    )));
                }
                Some(shards) => Base::of_shards(&shards),
                None => Base::new(input.to_string(), vec![File::Input(input.clone())], None),
            })
        });
        let bases: Vec<_> = bases.collect::<Result<_>>()?;
        Ok((!bases.is_empty()).then_some(Self(bases)))
    }

    /// Returns the bases that consist of these checkpoints, nearest first. `None` if there
    /// is none.
    pub(crate) fn of_checkpoints(chain: &[Shards]) -> Option<Self> {
        let bases = chain.iter().map(Base::of_shards).collect();
        (!chain.is_empty()).then_some(Self(bases))
    }

    /// Returns the bases that consist of these files, with the name and the index of each
    /// checkpoint, nearest first. `None` if there is none.
    pub(crate) fn of_files(chain: Vec<(String, Vec<Shard>, Option<ShardIndex>)>) -> Option<Self> {
        let bases = chain.into_iter().map(|(name, files, index)| {
            let files = files.into_iter().map(File::Shard);
            Base::new(name, files.collect(), index)
        });
        let bases: Vec<_> = bases.collect();
        (!bases.is_empty()).then_some(Self(bases))
    }

    /// Returns whether files have to be fetched or restored, which takes disk space.
    pub(crate) fn take_disk_space(&self) -> bool {
        let mut files = self.0.iter().flat_map(|base| &base.files);
        files.any(File::takes_disk_space)
    }

    /// Fetches and restores the base of `delta`: the file that it was made against, or
    /// all files as one.
    ///
    /// # Errors
    /// A file that is not a delta; another base than the delta's; a chain that is too
    /// short; every error of fetching and unpacking one of the files; too little space for
    /// the result.
    pub(crate) fn of_delta(&self, job: &Job, delta: &Local) -> Result<BaseFile> {
        // Bases that are left are refused before any base is restored.
        if self.0.len() > 1 && kind(delta)? == FileKind::Delta {
            let count = source_count(delta)?;
            let end = (0..count).try_fold(0, |end, _| self.end_of(job, end))?;
            if end < self.0.len() {
                // A damaged trailer seems to need fewer bases.
                let table = DeltaTable::read(delta.len_bytes(), &mut |range| delta.read(range));
                table.map_err(|error: Error| error.placed(delta.name()))?;
            }
            self.check_end(count, end)?;
        }
        self.of_delta_at(job, 0, delta).map(BaseFile::from)
    }

    /// Fetches and restores the base for packing `target`: the file with the same name,
    /// if it has all of the target's tensors, or all files as one. If there are several
    /// checkpoints, the base is computed from all of them.
    ///
    /// # Errors
    /// The errors of [`Bases::of_delta`] for the files of the base.
    pub(crate) fn for_packing(
        &self,
        job: &Job,
        target: &Local,
        is_extended: bool,
    ) -> Result<BaseFile> {
        let places = self.sources(job)?;
        if places.len() > 1 {
            let files = places.into_iter().map(|place| self.file(job, place, None));
            let sources = files.collect::<Result<Vec<_>>>()?;
            return Self::computed(job, target, &sources);
        }
        let file = self.0[0].file_for_packing(job, target, is_extended)?;
        self.file(job, 0, file).map(BaseFile::from)
    }

    /// Returns the base that is computed from `sources` for packing `target`.
    fn computed(job: &Job, target: &Local, sources: &[Arc<Local>]) -> Result<BaseFile> {
        let (file, mixes) = merge::fitted(job, target, sources)?;
        Ok(BaseFile {
            file: Arc::new(file),
            mixes: Some(mixes),
        })
    }

    /// Fetches and restores the nearest base as one file.
    ///
    /// # Errors
    /// The errors of [`Bases::of_delta`] for the files of the base.
    pub(crate) fn whole(&self, job: &Job) -> Result<BaseFile> {
        self.check_end(1, self.end_of(job, 0)?)?;
        self.file(job, 0, None).map(BaseFile::from)
    }

    /// Returns the places of the checkpoints that are not bases of other ones.
    fn sources(&self, job: &Job) -> Result<Vec<usize>> {
        let mut places = Vec::new();
        let mut place = 0;
        while place < self.0.len() {
            places.push(place);
            place = self.end_of(job, place)?;
        }
        Ok(places)
    }

    /// Returns the place after the base at `place` and its own bases.
    fn end_of(&self, job: &Job, place: usize) -> Result<usize> {
        let Some(base) = self.0.get(place) else {
            return Ok(place);
        };
        match self.0.len() {
            1 => Ok(place + 1),
            _ => (0..base.sources(job)?).try_fold(place + 1, |end, _| self.end_of(job, end)),
        }
    }

    /// Refuses bases after the last of `count` checkpoints and its own bases, which end at
    /// the place `end`.
    fn check_end(&self, count: usize, end: usize) -> Result<()> {
        match (count, self.0.get(end)) {
            (_, None) => Ok(()),
            (1, Some(next)) => Err(takes_no_base(&self.0[end - 1].name, next)),
            (_, Some(next)) => Err(Error::Usage(format!(
                "the delta was made against {count} bases together; leave out {}",
                next.name
            ))),
        }
    }

    fn of_delta_at(&self, job: &Job, place: usize, delta: &Local) -> Result<Arc<Local>> {
        let Some(base) = self.0.get(place) else {
            return Err(Error::needs_base(delta.name()));
        };
        if kind(delta)? != FileKind::Delta {
            return Err(takes_no_base(delta.name(), base));
        }
        if has_computed_base(delta)? {
            return self.mixed(job, place, delta);
        }
        if base.files.len() > 1 && restores_other_format(job, delta)? {
            let whole = self.file(job, place, None)?;
            return Ok(whole.joined_data().map_or(whole, Arc::new));
        }
        let file = base.file_of_delta(job, delta)?;
        self.file(job, place, file)
    }

    /// Returns the base that is computed for `delta` from the checkpoints that begin at
    /// `place`.
    fn mixed(&self, job: &Job, place: usize, delta: &Local) -> Result<Arc<Local>> {
        let catalog = open_catalog(&job.steady_engine(), delta)?;
        let count = catalog.mixes().map_or(0, Mixes::sources);
        let mut files: Vec<Arc<Local>> = Vec::new();
        let mut end = place;
        while files.len() < count && end < self.0.len() {
            files.push(self.file(job, end, None)?);
            end = self.end_of(job, end)?;
        }
        let headers = files.iter().map(|file| base_header(file));
        let base = catalog.mixed_base(&headers.collect::<Result<Vec<_>>>()?);
        let base = base
            .map_err(Error::place(delta.name()))?
            .unwrap_or_default();
        let files = files.into_iter().map(|file| file as Arc<dyn Source>);
        Ok(Arc::new(Local::mixed(Mixed::new(base, files.collect()))))
    }

    /// Returns a file of the base at `place` in the chain, or if `number` is `None` the
    /// only file or all files as one.
    fn file(&self, job: &Job, place: usize, number: Option<usize>) -> Result<Arc<Local>> {
        if let Some(number) = number {
            return self.restored(job, place, number);
        }
        let base = &self.0[place];
        let mut known = locked(&base.whole);
        if let Some(whole) = &*known {
            return Ok(whole.clone());
        }
        let files = 0..base.files.len();
        let files = files.map(|number| self.restored(job, place, number));
        let mut files: Vec<_> = files.collect::<Result<_>>()?;
        let whole = match files.len() {
            1 => files.remove(0),
            _ => {
                let (name, index) = (base.name.clone(), base.index.as_ref());
                Arc::new(Local::joined(&job.steady_engine(), name, files, index)?)
            }
        };
        *known = Some(whole.clone());
        Ok(whole)
    }

    /// Fetches a file of the base at `place` in the chain, and restores it if it is
    /// packed.
    fn restored(&self, job: &Job, place: usize, number: usize) -> Result<Arc<Local>> {
        let local = self.0[place].files[number].fetch(job)?;
        match kind(&local)? {
            FileKind::Zstn => {
                let write = |output: &Output| unpack::restore(job, &local, output).map(drop);
                restored(job, &[&local], write)
            }
            FileKind::Delta => {
                let base = self.of_delta_at(job, place + 1, &local)?;
                let write =
                    |output: &Output| Checked::parse(job, &local, &base)?.restore(job, output);
                restored(job, &[&local, &base], write)
            }
            _ => Ok(local),
        }
    }
}

fn kind(input: &Local) -> Result<FileKind> {
    let head = input.head(HEAD_LEN_BYTES)?;
    recognise_named(input.name(), &head, input.len_bytes()).map_err(Error::place(input.name()))
}

/// Returns whether a delta restores a file that is not safetensors.
fn restores_other_format(job: &Job, delta: &Local) -> Result<bool> {
    let catalog = open_catalog(&job.steady_engine(), delta)?;
    Ok(catalog.original_kind().is_some())
}

/// The error for a file that is not a delta and therefore takes no base.
fn takes_no_base(name: &str, base: &Base) -> Error {
    Error::Usage(format!(
        "{name} is not a delta, so it takes no base; leave out {}",
        base.name
    ))
}

/// Writes a temporary file from `inputs`, of which the first one is the packed file. Messages
/// call it by that file's name.
fn restored(
    job: &Job,
    inputs: &[&Local],
    write: impl FnOnce(&Output) -> Result<()>,
) -> Result<Arc<Local>> {
    let output = Output::temporary()?;
    let written = write(&output);
    // If an input has changed, the change is reported: it may have caused any other
    // error.
    inputs
        .iter()
        .try_for_each(|input| input.check_unchanged())?;
    written?;
    let restored = output.written_as(inputs[0].name().into())?;
    // A packed file whose tensors cannot be listed was packed from safetensors.
    let packed = open_catalog(&job.steady_engine(), inputs[0]).ok();
    let format = packed.as_ref().and_then(FileCatalog::original_kind);
    let restored = restored.restored_from(inputs).with_stated_format(format);
    Ok(Arc::new(restored))
}
