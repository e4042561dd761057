//! The repositories in a local or object-store folder, or of plans.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::plan_repositories::Planned;
use crate::hub::Repository;
use zstn::internals::{on_thread, store};
use zstn::source::{BlockingSource, FileSource, HttpOptions, Source};
use zstn::{AsyncSource, Error, Location, Result};
use zstn_serve::path::Root;

/// The time for which the file list of a remote folder is reused.
const STORE_LIST_AGE: Duration = Duration::from_secs(10);

/// Maximum number of cached lists.
const MAX_LISTS: usize = 1000;

/// Maximum number of files in a local repository.
const MAX_FILES: usize = 100_000;

/// Maximum depth of nested folders that are listed.
const MAX_DEPTH: usize = 32;

/// Lists and opens the files of repositories. Models are in `OWNER/NAME/…`, other
/// repositories in `datasets/` and `spaces/`.
#[derive(Debug)]
pub(super) struct Repositories {
    place: Place,
    http: HttpOptions,
    lists: Mutex<HashMap<Repository, (Instant, Arc<FileList>)>>,
}

#[derive(Debug)]
enum Place {
    Local(Root),
    /// The address of a folder in an object store, with a trailing slash.
    Store(String),
    Planned(Arc<Planned>),
}

/// The files of one repository.
#[derive(Debug)]
pub(super) struct FileList {
    /// A digest of the list, as long as a commit name.
    pub(super) commit: String,
    pub(super) files: BTreeMap<String, File>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct File {
    pub(super) len_bytes: u64,
    /// A text that changes when the file is replaced or modified.
    pub(super) version: String,
}

impl Repositories {
    pub(super) fn new(location: &Location, http: &HttpOptions) -> Result<Self> {
        let place = match location {
            Location::Path(path) => {
                let fail = Error::file("serve the folder", path);
                let root = Root::new(path).and_then(|root| root.folder().read_dir().map(|_| root));
                Place::Local(root.map_err(fail)?)
            }
            Location::Url(url) => {
                let url = format!("{}/", url.trim_end_matches('/'));
                store::list_top(&url, http)?;
                Place::Store(url)
            }
            Location::Pipe(_) | Location::Stdin => {
                let sentence = "the upstream is the address of a hub, or a folder";
                return Err(Error::Usage(sentence.into()));
            }
        };
        Ok(Self {
            place,
            http: http.clone(),
            lists: Mutex::default(),
        })
    }

    /// Returns the repositories of plans.
    pub(super) fn planned(planned: Planned, http: &HttpOptions) -> Self {
        Self {
            place: Place::Planned(Arc::new(planned)),
            http: http.clone(),
            lists: Mutex::default(),
        }
    }

    pub(super) fn is_remote(&self) -> bool {
        !matches!(self.place, Place::Local(_))
    }

    /// Returns the files of a repository, or `None` if it does not exist. Blocks.
    pub(super) fn list(&self, repository: &Repository) -> Result<Option<Arc<FileList>>> {
        let lock = || self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = |listed: &Instant| self.is_remote() && listed.elapsed() < STORE_LIST_AGE;
        if let Some((listed, list)) = lock().get(repository)
            && is_fresh(listed)
        {
            return Ok(Some(Arc::clone(list)));
        }
        let files = match &self.place {
            Place::Local(root) => match local(root, &repository.to_string())? {
                Some(files) => files,
                None => return Ok(None),
            },
            Place::Store(url) => {
                let url = format!("{url}{repository}/");
                let files = stored(&url, &self.http)?;
                if files.is_empty() {
                    return Ok(None);
                }
                files
            }
            Place::Planned(planned) => match planned.list(&repository.to_string())? {
                Some(files) => files,
                None => return Ok(None),
            },
        };
        let list = Arc::new(FileList {
            commit: commit(&files),
            files,
        });
        if self.is_remote() {
            let mut lists = lock();
            if lists.len() >= MAX_LISTS {
                lists.clear();
            }
            lists.insert(repository.clone(), (Instant::now(), Arc::clone(&list)));
        }
        Ok(Some(list))
    }

    /// Opens a listed file. Returns it with its version.
    pub(super) async fn open(
        &self,
        repository: &Repository,
        path: &str,
    ) -> Result<(Arc<dyn AsyncSource>, String)> {
        match &self.place {
            Place::Local(root) => {
                let path = root.folder().join(repository.to_string()).join(path);
                let source = on_thread(move || FileSource::open(&path)).await?;
                let modified = source.modified().unwrap_or(UNIX_EPOCH);
                let version = local_version(source.len_bytes(), modified);
                Ok((Arc::new(BlockingSource::new(source)), version))
            }
            Place::Store(url) => {
                let url = format!("{url}{repository}/{path}");
                let (source, tag) = store::open_tagged(&url, &self.http).await?;
                let version = stored_version(source.len_bytes(), tag.as_deref());
                Ok((source, version))
            }
            Place::Planned(planned) => planned.open(&repository.to_string(), path).await,
        }
    }
}

/// Returns the version of a local file, made from its length and modification time.
fn local_version(len_bytes: u64, modified: SystemTime) -> String {
    let since = modified.duration_since(UNIX_EPOCH);
    format!(
        "{len_bytes:x}-{:x}",
        since.map_or(0, |since| since.as_nanos())
    )
}

/// Returns the version of an object with this ETag.
fn stored_version(len_bytes: u64, tag: Option<&str>) -> String {
    let tag = tag.unwrap_or_default().chars();
    let tag: String = tag.filter(char::is_ascii_alphanumeric).collect();
    format!("{len_bytes:x}-{tag}")
}

/// Returns the files below a folder, without hidden files and links that lead out of
/// `root`.
fn local(root: &Root, prefix: &str) -> Result<Option<BTreeMap<String, File>>> {
    let folder = root.folder().join(prefix);
    if !root.follow(&folder).is_ok_and(|real| real.is_dir()) {
        return Ok(None);
    }
    let mut files = BTreeMap::new();
    walk(root, &folder, "", &mut Vec::new(), &mut files).map_err(Error::file("list", &folder))?;
    Ok(Some(files))
}

fn walk(
    root: &Root,
    folder: &Path,
    prefix: &str,
    above: &mut Vec<PathBuf>,
    files: &mut BTreeMap<String, File>,
) -> io::Result<()> {
    for entry in folder.read_dir()? {
        let name = entry?.file_name();
        // A name that is not UTF-8 has no address. `.gitattributes` is shown because
        // clients expect it.
        let Some(name) = name.to_str() else { continue };
        if name.starts_with('.') && name != ".gitattributes" {
            continue;
        }
        let path = folder.join(name);
        let Ok(real) = root.follow(&path) else {
            continue;
        };
        // A file that was removed while the folder was listed is skipped.
        let Ok(metadata) = real.metadata() else {
            continue;
        };
        let name = format!("{prefix}{name}");
        // A link may lead to a folder that contains it.
        if metadata.is_dir() && above.len() < MAX_DEPTH && !above.contains(&real) {
            above.push(real);
            walk(root, &path, &format!("{name}/"), above, files)?;
            above.pop();
        } else if metadata.is_file() {
            let file = File {
                len_bytes: metadata.len(),
                version: local_version(metadata.len(), metadata.modified()?),
            };
            files.insert(name, file);
            if files.len() > MAX_FILES {
                let sentence = format!("a repository may have at most {MAX_FILES} files");
                return Err(io::Error::other(sentence));
            }
        }
    }
    Ok(())
}

fn stored(url: &str, http: &HttpOptions) -> Result<BTreeMap<String, File>> {
    let objects = store::list(url, http)?;
    let named = objects.into_iter().map(|object| {
        let file = File {
            len_bytes: object.len_bytes,
            version: stored_version(object.len_bytes, object.tag.as_deref()),
        };
        (object.path, file)
    });
    Ok(named.collect())
}

fn commit(files: &BTreeMap<String, File>) -> String {
    let mut hasher = blake3::Hasher::new();
    for (path, file) in files {
        hasher.update(path.as_bytes());
        hasher.update(&[0]);
        hasher.update(file.version.as_bytes());
        hasher.update(&[0]);
    }
    hasher.finalize().to_hex()[..40].to_owned()
}
