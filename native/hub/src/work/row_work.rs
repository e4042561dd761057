//! The work on a row.

use std::path::Path;

use super::Origin;
use super::failure::{Failure, class};
use super::packer::{Packed, Packer, WorkerOptions};
use super::store::Store;
use crate::manifest::{Class, Done, Failed, Results, Row};
use zstn::internals::Unpublished;
use zstn::{Engine, Error, Location, Progress, Result};

/// Works on rows of a plan, one after the other.
#[derive(Debug)]
pub struct RowWork {
    packer: Packer,
    origin: Origin,
    results: Results,
    retry_refused: bool,
}

/// What became of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowOutcome {
    /// It was packed and compared with the original now.
    Packed(Done),
    /// It was done before; nothing of the original was read.
    Known(Done),
    /// It failed, for this reason.
    Failed {
        /// Whether another attempt may succeed.
        class: Class,
        /// The reason, as a sentence.
        reason: String,
        /// Whether nothing of the original was read.
        is_unread: bool,
    },
}

impl RowOutcome {
    /// Returns the outcome for an error that is not about the file of a row, such as
    /// results that cannot be read.
    #[must_use]
    pub fn of_error(error: &Error) -> Self {
        Self::Failed {
            class: class(error),
            reason: error.to_string(),
            is_unread: true,
        }
    }
}

impl RowWork {
    /// Begins to work on rows whose files are in `origin`. Files under way are in
    /// `scratch`, a local folder that several processes may share; it is made if it is
    /// missing.
    ///
    /// # Errors
    /// A folder that cannot be made.
    pub fn new(
        engine: &Engine,
        origin: Origin,
        results: Results,
        scratch: &Path,
        options: WorkerOptions,
    ) -> Result<Self> {
        let mut packer = Packer::new(scratch, options, origin.http().clone())?;
        packer.engine = engine.clone();
        Ok(Self {
            packer,
            origin,
            results,
            retry_refused: false,
        })
    }

    /// Sets whether rows are tried again that were refused before, by default they are
    /// not.
    #[must_use]
    pub fn retry_refused(mut self, retry: bool) -> Self {
        self.retry_refused = retry;
        self
    }

    /// Packs the file of a row: `packed/KEY.zstn`, then `done/KEY.json`; for a row with
    /// bases `packed/KEY.z4dm`. If that fails, `failed/KEY.json`. Several machines may
    /// work on the same row; they write the same bytes.
    ///
    /// `bases` are the packed files that [`Row::bases`] names, if copies of them are
    /// near; else those of the results are read.
    ///
    /// # Errors
    /// Results that cannot be read or written. What is wrong with the file is an outcome.
    pub fn work(
        &self,
        row: &Row,
        bases: Option<&[Location]>,
        progress: &dyn Progress,
    ) -> Result<RowOutcome> {
        if let Some(done) = self.results.packed(row)? {
            return Ok(RowOutcome::Known(done));
        }
        let failed = self.results.failed(&row.key)?;
        let refused = failed.filter(|failed| failed.class == Class::Refused);
        if let Some(Failed { class, reason, .. }) = refused.filter(|_| !self.retry_refused) {
            return Ok(RowOutcome::Failed {
                class,
                reason,
                is_unread: true,
            });
        }
        let is_unread;
        let (class, reason) = match self.pack(row, bases, &Unpublished(progress)) {
            Ok(packed) => {
                progress.publishing()?;
                // An entry may describe another packed file, which is gone.
                let is_first = self.results.put_done(&packed.done)?;
                if !is_first && !self.is_recorded(&packed.done)? {
                    self.results.replace_done(&packed.done)?;
                }
                return Ok(RowOutcome::Packed(packed.done.clone()));
            }
            #[cfg(feature = "worker")]
            Err(Failure::Stopped) => {
                is_unread = true;
                (Class::Retry, "the work was stopped".to_owned())
            }
            Err(Failure::File(reason)) => {
                is_unread = false;
                (Class::Refused, reason)
            }
            Err(Failure::Error(error)) => {
                is_unread = is_missing(&error);
                (class(&error), error.to_string())
            }
        };
        // An end of the work says nothing about the file.
        progress.check()?;
        let failed = Failed::new(row.clone(), class, reason.clone());
        self.results.put_failed(&failed)?;
        Ok(RowOutcome::Failed {
            class,
            reason,
            is_unread,
        })
    }

    /// Returns whether an entry describes this packed file. The row may be that of another
    /// place with the same content.
    fn is_recorded(&self, done: &Done) -> Result<bool> {
        let recorded = self.results.packed(&done.row)?;
        Ok(recorded.is_some_and(|recorded| recorded.packed_sha256 == done.packed_sha256))
    }

    fn pack(
        &self,
        row: &Row,
        bases: Option<&[Location]>,
        progress: &dyn Progress,
    ) -> Result<Packed, Failure> {
        let location = self.origin.location(row)?;
        if let Location::Path(path) = &location {
            let metadata = path.metadata().map_err(Error::file("open", path))?;
            if !metadata.is_file() {
                let detail = format!("{} is not a regular file", path.display());
                return Err(Failure::File(detail));
            }
        }
        let input = location.into();
        let stored: Vec<Location>;
        let bases = match bases {
            Some(bases) => bases,
            None => {
                self.check_bases(row)?;
                let names = row.base_names();
                stored = names
                    .iter()
                    .map(|name| self.results.at("packed", name))
                    .collect();
                &stored
            }
        };
        let mut packed = self.packer.pack_input(row, input, bases, 0, progress)?;
        let store = Store {
            results: &self.results,
            http: self.origin.http(),
            engine: &self.packer.engine,
            memory_bytes: self.packer.options.memory_bytes,
            progress,
        };
        store.store(&mut packed, bases)?;
        Ok(packed)
    }

    /// Refuses a row whose bases are not packed, for now or for good.
    fn check_bases(&self, row: &Row) -> Result<(), Failure> {
        for key in &row.bases {
            let done = self.results.done(key).map_err(Failure::Error)?;
            if let Some(done) = done
                && self.results.has_packed(&done).map_err(Failure::Error)?
            {
                continue;
            }
            let failed = self.results.failed(key).map_err(Failure::Error)?;
            return Err(
                match failed.filter(|failed| failed.class == Class::Refused) {
                    Some(failed) => Failure::File(format!(
                        "its base {key} was refused: {}; make the plan again, with --known, for another \
                     base",
                        failed.reason
                    )),
                    None => Failure::Error(Error::io(
                        format!("read the base {key}"),
                        std::io::Error::other("it is not packed yet"),
                    )),
                },
            );
        }
        Ok(())
    }
}

/// Returns whether an error says that a file is not there.
fn is_missing(error: &Error) -> bool {
    match error {
        Error::Io { source, .. } => source.kind() == std::io::ErrorKind::NotFound,
        Error::Http { status, .. } => matches!(status, Some(404 | 410)),
        _ => false,
    }
}
