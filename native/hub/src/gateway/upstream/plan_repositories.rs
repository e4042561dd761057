//! The repositories of plans, backed by a folder of results.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use super::repositories::File;
use super::restored_cache::{Restored, RestoredFiles};
use crate::manifest::{Bases, Done, KnownBases, Results, Row};
use crate::work::stream_sha256;
use zstn::internals::on_thread;
use zstn::source::{BlockingSource, FileSource, HttpOptions};
use zstn::{AsyncSource, Error, Job, Location, Result, Sink, UnpackOptions};
use zstn_core::catalog::has_other_extension;
use zstn_serve::path::packed_path;

/// The packed files of plans. A container is shown as `X.zstn`, or for a file of another
/// format as `model.gguf.zstn`. A delta is shown as the `X.safetensors` that it restores,
/// which is restored whole on its first read. Of two files that would be shown under one
/// name, such as `model.gguf` and `model.gguf.safetensors`, the safetensors file is shown
/// if it is packed, as a worker does.
#[derive(Debug)]
pub(super) struct Planned {
    results: Results,
    http: HttpOptions,
    /// Maps each repository to its rows by the path under which they are shown. Of the
    /// rows with the same path, the first that is packed is shown.
    rows: HashMap<String, BTreeMap<String, Vec<Row>>>,
    /// Entries that have been read from the results. They never change.
    done: Mutex<HashMap<String, Done>>,
    restored: RestoredFiles,
}

impl Planned {
    /// Creates the repositories of `rows`, which show only the files that are packed in
    /// `results`. Restored files take at most `restored_bytes` in the folder for
    /// temporary files, unless a single file is larger.
    ///
    /// # Errors
    /// [`Error::Usage`] if a key has different bases in two rows.
    pub(super) fn new(
        results: Results,
        rows: Vec<Row>,
        restored_bytes: u64,
        http: &HttpOptions,
    ) -> Result<Self> {
        let mut by_path: HashMap<(String, String), Row> = HashMap::new();
        let mut known = KnownBases::default();
        for row in rows {
            // The rows come from several plans. Restoring a cycle of bases would wait forever.
            known.add(&row).map_err(|why| {
                Error::Usage(format!("the row of {} in a plan: {why}", row.place()))
            })?;
            by_path.insert((row.repo.clone(), row.path.clone()), row);
        }
        let mut by_repository: HashMap<String, BTreeMap<String, Vec<Row>>> = HashMap::new();
        for row in by_path.into_values() {
            let files = by_repository.entry(row.repo.clone()).or_default();
            let same = files.entry(shown_path(&row)).or_default();
            same.push(row);
            same.sort_by_key(|row| has_other_extension(&row.path));
        }
        Ok(Self {
            results,
            http: http.clone(),
            rows: by_repository,
            done: Mutex::default(),
            restored: RestoredFiles::new(restored_bytes)?,
        })
    }

    /// Returns the packed files of a repository, or `None` if no plan contains the
    /// repository.
    pub(super) fn list(&self, prefix: &str) -> Result<Option<BTreeMap<String, File>>> {
        let Some(rows) = self.rows.get(prefix) else {
            return Ok(None);
        };
        let mut files = BTreeMap::new();
        for (path, rows) in rows {
            let Some((row, done)) = self.first_packed(rows)? else {
                continue;
            };
            let file = File {
                len_bytes: match row.bases.is_empty() {
                    true => done.packed_bytes,
                    false => row.len_bytes,
                },
                version: version(row),
            };
            files.insert(path.clone(), file);
        }
        Ok(Some(files))
    }

    /// Opens a listed file. Returns it with its version.
    pub(super) async fn open(
        self: &Arc<Self>,
        prefix: &str,
        path: &str,
    ) -> Result<(Arc<dyn AsyncSource>, String)> {
        let (this, place) = (Arc::clone(self), (prefix.to_owned(), path.to_owned()));
        let find = move || {
            let rows = this.rows.get(&place.0).and_then(|rows| rows.get(&place.1));
            let found = this.first_packed(rows.map_or(&[], |rows| &rows[..]))?;
            Ok(found.map(|(row, _)| row.clone()))
        };
        let Some(row) = on_thread(find).await? else {
            let error = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(Error::io(format!("open {prefix}/{path}"), error));
        };
        if row.bases.is_empty() {
            let source = self.packed(&row).open_async(&self.http).await?;
            return Ok((source, version(&row)));
        }
        let (this, key, bases) = (Arc::clone(self), row.key.clone(), row.bases.clone());
        let source = on_thread(move || {
            let restored = this.restored(&key, &bases)?;
            // The open file stays readable even if the cache removes it.
            FileSource::open(restored.path())
        });
        Ok((Arc::new(BlockingSource::new(source.await?)), version(&row)))
    }

    /// Returns the first of these rows that is packed, and its entry.
    fn first_packed<'r>(&self, rows: &'r [Row]) -> Result<Option<(&'r Row, Done)>> {
        for row in rows {
            if let Some(done) = self.done(&row.key)? {
                return Ok(Some((row, done)));
            }
        }
        Ok(None)
    }

    fn packed(&self, row: &Row) -> Location {
        self.results.at("packed", &row.packed_name())
    }

    fn done(&self, key: &str) -> Result<Option<Done>> {
        let lock = || self.done.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(done) = lock().get(key) {
            return Ok(Some(done.clone()));
        }
        let done = self.results.done(key)?;
        if let Some(done) = &done {
            lock().insert(key.into(), done.clone());
        }
        Ok(done)
    }

    /// Returns the restored file of a key with these bases. Restored bases are cached
    /// too, so that all deltas from a base share it.
    fn restored(&self, key: &str, bases: &Bases) -> Result<Restored> {
        self.restored.get(key, |path| {
            let done = self.done(key)?.ok_or_else(|| {
                let error = std::io::Error::other("it is not packed, or was removed");
                Error::io(format!("read the packed file {key}"), error)
            })?;
            let nearest = bases.nearest().iter();
            let bases = nearest.map(|base| self.restored(base.key(), base.bases()));
            let bases: Vec<Restored> = bases.collect::<Result<_>>()?;
            let job = Job::new().http(self.http.clone());
            let mut options = UnpackOptions::default();
            for base in &bases {
                options = options.base(base.path());
            }
            let packed = self.packed(&done.row);
            zstn::unpack(&job, &packed, Sink::path(path), &options)?;
            let (_, sha256) = stream_sha256(&path.into(), &self.http)?;
            match sha256 == done.row.sha256 {
                true => Ok(()),
                false => Err(Error::Differs {
                    detail: format!(
                        "{packed} restores a file with the SHA-256 {sha256}, but its entry says {}",
                        done.row.sha256
                    ),
                }),
            }
        })
    }
}

/// Returns the version of a file. It has a prefix that keeps clients from mistaking it
/// for a SHA-256, because the SHA-256 in a plan is unverified until the file has been
/// restored.
fn version(row: &Row) -> String {
    format!("zstn-{}", row.key)
}

/// Returns the path under which a row is shown.
fn shown_path(row: &Row) -> String {
    let packed = packed_path(&row.path).filter(|_| row.bases.is_empty());
    packed.unwrap_or_else(|| row.path.clone())
}
