//! Working on the rows of a plan, whose originals are on a hub or in a folder.

use std::io::ErrorKind;
use std::path::Path;

use super::Store;
use super::packer::{Packed, Packer, WorkerOptions};
use super::{Failure, class};
use crate::hub::{Hub, Repository};
use crate::manifest::{Class, Done, Failed, Results, Row};
use crate::proof;
use zstn::internals::Unpublished;
use zstn::source::HttpOptions;
use zstn::{Engine, Error, Location, Progress, Result};

/// Works on rows of a plan, one or several at a time.
#[derive(Debug, Clone)]
pub struct RowWork {
    packer: Packer,
    origin: Origin,
    results: Results,
    retry_refused: bool,
}

/// The outcome of the work on a row.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowOutcome {
    /// The file was packed and verified in this call.
    Packed(Done),
    /// The file had been packed before; the original was not read.
    Known(Done),
    /// The work failed.
    Failed {
        /// The class, which states whether another attempt may succeed.
        class: Class,
        /// The reason, as a sentence.
        reason: String,
        /// True if the original was not read.
        is_unread: bool,
    },
}

impl RowOutcome {
    /// Returns the outcome for an error that does not concern the row's file, such as
    /// unreadable results.
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
    /// Creates a worker for rows whose files are in `origin`. Temporary files are in
    /// `scratch`, a local folder that several processes may share; it is created if it
    /// does not exist.
    ///
    /// # Errors
    /// If the folder cannot be created.
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

    /// Sets whether rows that were refused before are retried; off by default.
    #[must_use]
    pub fn retry_refused(mut self, retry: bool) -> Self {
        self.retry_refused = retry;
        self
    }

    /// Returns how many of `count` rows with different keys are worked on at the same time,
    /// and the worker for each of them.
    #[cfg(feature = "worker")]
    pub(crate) fn for_one_of(&self, count: usize) -> (usize, Self) {
        let (at_once, packer) = self.packer.for_one_of(count);
        let work = Self {
            packer,
            ..self.clone()
        };
        (at_once, work)
    }

    /// Packs the file of a row into `packed/KEY.zstn`, or `packed/KEY.z4dm` for a row
    /// with bases, and then writes the entry `done/KEY.json`. A failure is recorded in
    /// `failed/KEY.json`. Several machines may work on the same row, because they write
    /// the same bytes.
    ///
    /// `bases` are local copies of the packed files that [`Row::bases`] names, in the order
    /// of [`Bases::all`]. If this is `None`, the packed files are read from the results.
    ///
    /// [`Bases::all`]: crate::manifest::Bases::all
    ///
    /// # Errors
    /// If the results cannot be read or written. An error of the row's file is an
    /// outcome.
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
        let missing = self.missing(row);
        let is_there = missing.is_none();
        let packed = match missing {
            Some(reason) => Err(Failure::File(reason)),
            None => self.pack(row, bases, &Unpublished(progress)),
        };
        let (class, reason) = match packed {
            Ok(packed) => {
                progress.publishing()?;
                // An existing entry may describe another packed file, which no longer
                // exists.
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
                is_unread = !is_there;
                (Class::Refused, reason)
            }
            Err(Failure::Error(error)) => {
                is_unread = is_missing(&error);
                (class(&error), error.to_string())
            }
        };
        // An error caused by stopping the work must not be recorded for the file.
        progress.check()?;
        let failed = Failed::new(row.clone(), class, reason.clone());
        self.results.put_failed(&failed)?;
        Ok(RowOutcome::Failed {
            class,
            reason,
            is_unread,
        })
    }

    /// Returns whether the recorded entry describes this packed file. The entry may name
    /// another repository or path with the same content.
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
        let input = self.origin.location(row)?.into();
        let stored: Vec<Location>;
        let entries;
        let bases = match bases {
            Some(bases) => {
                entries = self.entries_of_bases(row).map_err(Failure::Error)?;
                bases
            }
            None => {
                entries = self.check_bases(row)?.into_iter().map(Some).collect();
                let all = row.bases.all().into_iter();
                stored = all
                    .map(|base| self.results.at("packed", &base.packed_name()))
                    .collect();
                &stored
            }
        };
        let packed = self.packer.pack_input(row, input, bases, 0, progress);
        let mut packed = match packed {
            Err(Failure::File(reason)) => return Err(self.fault_of_base(row, &entries, reason)),
            packed => packed?,
        };
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

    /// Returns the reason why the original of a row cannot be read and will not come back:
    /// it is not a regular file, or it was removed from a local folder.
    fn missing(&self, row: &Row) -> Option<String> {
        let Ok(Location::Path(path)) = self.origin.location(row) else {
            return None;
        };
        match path.metadata() {
            Ok(metadata) if metadata.is_file() => None,
            Ok(_) => Some(format!("{} is not a regular file", path.display())),
            // If the whole folder is missing, it may only be not mounted.
            Err(error) if error.kind() == ErrorKind::NotFound && self.origin.is_folder() => {
                Some(format!(
                    "{} was removed after it was listed; plan again",
                    path.display()
                ))
            }
            Err(_) => None,
        }
    }

    /// Returns the failure of a file that could not be packed for `reason`. If a base in a
    /// local folder of results is damaged, its entry is removed, so that another run packs
    /// it again, and the delta may be retried. (Bases in an object store are compared with
    /// their entries when they are downloaded.) `entries` are the entries before packing,
    /// because another delta may have removed the base's entry since. If there was none, it
    /// had been removed before, and the delta may be retried too.
    fn fault_of_base(&self, row: &Row, entries: &[Option<Done>], reason: String) -> Failure {
        for (number, base) in row.bases.all().into_iter().enumerate() {
            let key = base.key();
            let location = self.results.at("packed", &base.packed_name());
            let damaged = || -> Result<Option<Row>> {
                let Some(Some(done)) = entries.get(number).cloned() else {
                    let error = std::io::Error::other("it is not packed any more");
                    return Err(Error::io(format!("read the base {key}"), error));
                };
                let (_, sha256) = stream_sha256(&location, self.origin.http())?;
                if sha256 == done.packed_sha256 {
                    return Ok(None);
                }
                self.results.remove("done", &format!("{key}.json"))?;
                Ok(Some(done.row))
            };
            if !matches!(location, Location::Path(_)) {
                break;
            }
            match damaged() {
                Ok(None) => {}
                Ok(Some(base)) => {
                    let error = std::io::Error::other(
                        "its packed file is damaged; another run packs it again",
                    );
                    let action = format!("read the base {}", base.place());
                    return Failure::Error(Error::io(action, error));
                }
                Err(error) => return Failure::Error(error),
            }
        }
        Failure::File(reason)
    }

    /// Returns the entries of the row's bases, if the results are in a local folder.
    fn entries_of_bases(&self, row: &Row) -> Result<Vec<Option<Done>>> {
        match self.results.at("packed", "") {
            Location::Path(_) => {
                let all = row.bases.all().into_iter();
                all.map(|base| self.results.done(base.key())).collect()
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Returns the entries of the row's bases. Fails if a base is not packed. The first such
    /// base decides: the failure is permanent if that base was refused, and is retried
    /// otherwise.
    fn check_bases(&self, row: &Row) -> Result<Vec<Done>, Failure> {
        let mut entries = Vec::new();
        for base in row.bases.all() {
            let key = base.key();
            let done = self.results.done(key).map_err(Failure::Error)?;
            let mut base = key.to_owned();
            if let Some(done) = done {
                if self.results.has_packed(&done).map_err(Failure::Error)? {
                    entries.push(done);
                    continue;
                }
                base = done.row.place();
            }
            if let Some(failed) = self.results.failed(key).map_err(Failure::Error)? {
                base = failed.row.place();
                if failed.class == Class::Refused {
                    return Err(Failure::File(format!(
                        "its base {base} was refused: {}; make the plan again, with --known, for \
                         another base",
                        failed.reason
                    )));
                }
            }
            return Err(Failure::Error(Error::io(
                format!("read the base {base}"),
                std::io::Error::other("it is not packed yet"),
            )));
        }
        Ok(entries)
    }
}

/// Returns whether an error reports a missing file.
fn is_missing(error: &Error) -> bool {
    match error {
        Error::Io { source, .. } => source.kind() == ErrorKind::NotFound,
        Error::Http { status, .. } => matches!(status, Some(404 | 410)),
        _ => false,
    }
}

/// The location of a plan's original files.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The folder with `OWNER/NAME/PATH`, or `None` for a hub.
    folder: Option<Location>,
    http: HttpOptions,
}

impl Origin {
    /// Returns the origin for a hub. Each file is read at the revision of its row.
    ///
    /// # Errors
    /// If no requests can be made to the hub's endpoint.
    pub fn hub(hub: &Hub) -> Result<Self> {
        Ok(Self {
            folder: None,
            http: hub.http()?,
        })
    }

    /// Returns the origin for a local or object-store folder that contains the files as
    /// `OWNER/NAME/PATH`. The revisions of rows are ignored.
    #[must_use]
    pub fn folder(root: impl Into<Location>) -> Self {
        Self {
            folder: Some(root.into()),
            http: HttpOptions::default(),
        }
    }

    pub(super) fn http(&self) -> &HttpOptions {
        &self.http
    }

    /// Returns whether the originals are in a local folder that exists.
    fn is_folder(&self) -> bool {
        matches!(&self.folder, Some(Location::Path(path)) if path.is_dir())
    }

    /// Returns the location of a row's file.
    pub(super) fn location(&self, row: &Row) -> Result<Location> {
        Ok(match &self.folder {
            None => {
                let repository: Repository = row.repo.parse()?;
                Location::url(repository.file_url(&row.revision, &row.path))
            }
            Some(Location::Url(url)) => {
                let folder = url.trim_end_matches('/');
                Location::url(format!("{folder}/{}/{}", row.repo, row.path))
            }
            Some(Location::Path(path)) => Location::Path(path.join(&row.repo).join(&row.path)),
            Some(other @ (Location::Pipe(_) | Location::Stdin)) => other.clone(),
        })
    }
}

/// Lists the objects below the object-store folder `url`: their names relative to it,
/// lengths in bytes, and ETags.
///
/// # Errors
/// The errors of the requests.
pub fn list_objects(url: &str) -> Result<Vec<(String, u64, Option<String>)>> {
    let listed = zstn::internals::store::list(url, &HttpOptions::default())?;
    let object = |object: zstn_store::ListedObject| (object.path, object.len_bytes, object.tag);
    Ok(listed.into_iter().map(object).collect())
}

/// Reads a whole file. Returns its length in bytes and its SHA-256 in lower-case hex.
///
/// # Errors
/// If the file cannot be read or changes meanwhile.
pub fn stream_sha256(location: &Location, http: &HttpOptions) -> Result<(u64, String)> {
    proof::stream(location, http, |_| Ok(()))
}

/// Copies a file to `path`, which must not exist. Returns its length in bytes and its
/// SHA-256 in lower-case hex.
///
/// # Errors
/// If the file cannot be read or changes meanwhile; [`Error::Exists`]; I/O errors.
///
/// [`Error::Exists`]: zstn::Error::Exists
pub fn copy_sha256(location: &Location, path: &Path, http: &HttpOptions) -> Result<(u64, String)> {
    proof::copy(location, http, path)
}
