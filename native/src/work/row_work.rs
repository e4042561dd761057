//! The work on a row.

use std::path::Path;

use super::failure::{Failure, class};
use super::packer::{Packed, Packer, WorkerOptions};
use super::{Origin, store};
use crate::manifest::{Class, Done, Failed, Results, Row};
use crate::{Engine, Error, Location, Progress, Result};

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
        /// Whether it was refused before, and nothing was read now.
        is_known: bool,
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
            is_known: true,
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
        if let Some(done) = self.results.done(&row.key)? {
            return Ok(RowOutcome::Known(done));
        }
        let failed = self.results.failed(&row.key)?;
        let refused = failed.filter(|failed| failed.class == Class::Refused);
        if let Some(Failed { class, reason, .. }) = refused.filter(|_| !self.retry_refused) {
            return Ok(RowOutcome::Failed {
                class,
                reason,
                is_known: true,
            });
        }
        let packed = self.pack(row, bases, progress).and_then(|packed| {
            store::store(&packed, &self.results, self.origin.http())?;
            Ok(packed)
        });
        let (class, reason) = match packed {
            Ok(packed) => {
                self.results.put_done(&packed.done)?;
                return Ok(RowOutcome::Packed(packed.done.clone()));
            }
            #[cfg(feature = "worker")]
            Err(Failure::Stopped) => (Class::Retry, "the work was stopped".to_owned()),
            Err(Failure::File(reason)) => (Class::Refused, reason),
            Err(Failure::Error(error)) => (class(&error), error.to_string()),
        };
        let failed = Failed::new(row.clone(), class, reason.clone());
        self.results.put_failed(&failed)?;
        Ok(RowOutcome::Failed {
            class,
            reason,
            is_known: false,
        })
    }

    fn pack(
        &self,
        row: &Row,
        bases: Option<&[Location]>,
        progress: &dyn Progress,
    ) -> Result<Packed, Failure> {
        let input = self.origin.location(row)?.into();
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
        self.packer.pack_input(row, input, bases, 0, progress)
    }

    /// Refuses a row whose bases are not packed, for now or for good.
    fn check_bases(&self, row: &Row) -> Result<(), Failure> {
        for key in &row.bases {
            if self.results.done(key).map_err(Failure::Error)?.is_some() {
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
