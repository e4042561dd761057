//! Reading as a state machine: work names the ranges that it needs, and a driver reads
//! them.
//!
//! Opening a file, planning rows and reading a tensor are such work. It never waits. A
//! blocking driver ([`fetch`]) runs it for [`Reader`](super::Reader), an asynchronous one
//! for `AsyncReader`.

use std::borrow::Cow;
use std::ops::Range;

use zstn_core::ErrorKind;
use zstn_core::engine::Engine as _;
use zstn_core::model::{Model, StoredPart};

use crate::source::{Source, Wanted, read_wanted};
use crate::{Engine, Error, Result, suggest};

/// A range of a file that work needs.
#[derive(Debug, Clone)]
pub(crate) struct Need {
    /// The model that the file belongs to: 0 for the model itself, 1 for its base, and so
    /// on.
    pub(crate) level: usize,
    /// The number of the file in its model.
    pub(crate) file: usize,
    pub(crate) range: Range<u64>,
    /// True if the work compares all bytes of the range with checksums, as
    /// [`Source::read_compared`] requires.
    pub(crate) is_compared: bool,
}

/// Work that needs ranges of files until it can compute its result. The bytes of sources
/// in memory are borrowed for `'a`.
pub(crate) trait Work<'a> {
    type Output;

    /// Returns the ranges that are needed next; none once the result can be computed.
    fn needs(&mut self) -> Result<Vec<Need>>;

    /// Supplies the bytes of `needs`, the result of the last call of [`Work::needs`].
    fn supply(&mut self, needs: Vec<Need>, bytes: Vec<Cow<'a, [u8]>>) -> Result<()>;

    /// Computes the result. Most of the processor time of the work is spent here.
    fn finish(self, engine: &Engine) -> Result<Self::Output>;
}

/// Several pieces of work of one type, whose ranges are read together. It computes the
/// results of all of them, in their order.
pub(crate) struct Together<W> {
    works: Vec<W>,
    /// For each work, the number of ranges that it needed last.
    counts: Vec<usize>,
}

impl<W> Together<W> {
    pub(crate) fn new(works: Vec<W>) -> Self {
        let counts = Vec::new();
        Self { works, counts }
    }
}

impl<'a, W: Work<'a> + Send> Work<'a> for Together<W>
where
    W::Output: Send,
{
    type Output = Vec<W::Output>;

    fn needs(&mut self) -> Result<Vec<Need>> {
        let mut needs = Vec::new();
        self.counts.clear();
        for work in &mut self.works {
            let wanted = work.needs()?;
            self.counts.push(wanted.len());
            needs.extend(wanted);
        }
        Ok(needs)
    }

    fn supply(&mut self, needs: Vec<Need>, bytes: Vec<Cow<'a, [u8]>>) -> Result<()> {
        let mut supplied = needs.into_iter().zip(bytes);
        for (work, &count) in self.works.iter_mut().zip(&self.counts) {
            if count > 0 {
                let (needs, bytes) = supplied.by_ref().take(count).unzip();
                work.supply(needs, bytes)?;
            }
        }
        Ok(())
    }

    fn finish(self, engine: &Engine) -> Result<Self::Output> {
        let results = engine.map(self.works, |work| work.finish(engine));
        results.into_iter().collect()
    }
}

/// Reads everything that `work` needs, on this thread and from blocking sources.
pub(crate) fn fetch<'a>(
    work: &mut impl Work<'a>,
    source: impl Fn(&Need) -> &'a dyn Source,
) -> Result<()> {
    loop {
        let needs = work.needs()?;
        if needs.is_empty() {
            return Ok(());
        }
        let wanted = needs.iter().map(|need| Wanted {
            source: source(need),
            range: need.range.clone(),
            is_compared: need.is_compared,
        });
        let bytes = read_wanted(&wanted.collect::<Vec<_>>())?;
        work.supply(needs, bytes)?;
    }
}

/// Runs `work` on this thread, with blocking sources.
pub(crate) fn run<'a, W: Work<'a>>(
    mut work: W,
    engine: &Engine,
    source: impl Fn(&Need) -> &'a dyn Source,
) -> Result<W::Output> {
    fetch(&mut work, source)?;
    work.finish(engine)
}

/// An opened model, whose files are read by blocking or asynchronous calls. A clone is
/// another handle to the same model.
pub(crate) trait Opened: Clone {
    /// Returns the path or address by which the model was opened.
    fn name(&self) -> &str;

    fn model(&self) -> &Model;

    /// Returns the base of a delta, if it is attached.
    fn base(&self) -> Option<&Self>;

    /// Returns an error if the file was written to after it was opened
    /// ([`Source::check_unchanged`]).
    fn check_unchanged(&self, file: usize) -> Result<()>;

    /// Returns the error for bytes of another version ([`Source::other_version`]).
    fn other_version(&self, file: usize) -> Option<Error>;

    /// Returns the number of the tensor of `base` that tensor `number` depends on.
    fn in_base(&self, number: usize, base: &Self) -> Result<usize> {
        base.number(self.model().name_in_base(number).unwrap_or_default())
    }

    /// Returns the number of the tensor called `name`. If there is none, the error
    /// suggests similar names.
    fn number(&self, name: &str) -> Result<usize> {
        let model = self.model();
        model.find(name).map_err(|error| {
            let mut names = model.tensors().iter().map(|tensor| tensor.name.as_str());
            let error = match error.kind() {
                ErrorKind::NotFound => error.hint(&suggest::hint(name, &mut names)),
                _ => error,
            };
            Error::place(self.name())(error)
        })
    }

    /// Returns an error if a file of `parts` was written to after it was opened, since
    /// the bytes that were read may come from two versions.
    fn check_parts(&self, parts: &[StoredPart]) -> Result<()> {
        let mut files = parts.iter().map(|part| part.file);
        files.try_for_each(|file| self.check_unchanged(file))
    }

    /// Returns the error for a tensor that could not be decoded. If servers have
    /// responded with different validators, this is an [`Error::Changed`]: the file was
    /// probably changed.
    fn undecodable(&self, number: usize, error: zstn_core::Error) -> Error {
        let mut files = self.model().tensors()[number].parts.iter();
        let change = match error.kind() {
            ErrorKind::Malformed => files.find_map(|part| self.other_version(part.file)),
            _ => None,
        };
        change.unwrap_or_else(|| Error::place(self.name())(error))
    }

    /// Returns the model that is `level` bases away.
    fn at_level(&self, level: usize) -> Option<&Self> {
        let mut model = self;
        for _ in 0..level {
            model = model.base()?;
        }
        Some(model)
    }
}
