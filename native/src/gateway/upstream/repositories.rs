//! The repositories in a folder, local or in an object store.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

use crate::gateway::request::Repository;
use crate::serve::root::Root;
use crate::source::store;
use crate::source::{HttpOptions, Source};
use crate::{Error, Location, Result};

/// The time for which a list of files in an object store is used again.
const STORE_LIST_AGE: Duration = Duration::from_secs(10);

/// The most lists that are kept.
const MAX_LISTS: usize = 1000;

/// The most folders within each other that are looked into.
const MAX_DEPTH: usize = 32;

/// The place of the repositories: `OWNER/NAME/…`, those of other kinds in
/// `datasets` and `spaces`.
#[derive(Debug)]
pub(super) struct Repositories {
    place: Place,
    http: HttpOptions,
    lists: Mutex<HashMap<Repository, (Instant, Arc<FileList>)>>,
}

#[derive(Debug)]
enum Place {
    Local(Root),
    /// The address of a folder in an object store, with a slash at its end.
    Store(String),
}

/// The files of a repository.
#[derive(Debug)]
pub(super) struct FileList {
    /// A digest of the list, as long as the name of a commit.
    pub(super) commit: String,
    pub(super) files: BTreeMap<String, File>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct File {
    pub(super) len_bytes: u64,
    /// Differs between versions of the file.
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
            Location::Stdin => {
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

    pub(super) fn is_remote(&self) -> bool {
        matches!(self.place, Place::Store(_))
    }

    /// Returns the files of a repository, or `None` if there is no such repository.
    /// Blocks.
    pub(super) fn list(&self, repository: &Repository) -> Result<Option<Arc<FileList>>> {
        let lock = || self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = |listed: &Instant| {
            matches!(self.place, Place::Store(_)) && listed.elapsed() < STORE_LIST_AGE
        };
        if let Some((listed, list)) = lock().get(repository)
            && is_fresh(listed)
        {
            return Ok(Some(Arc::clone(list)));
        }
        let files = match &self.place {
            Place::Local(root) => match local(root, &repository.prefix())? {
                Some(files) => files,
                None => return Ok(None),
            },
            Place::Store(url) => {
                let url = format!("{url}{}/", repository.prefix());
                let files = stored(&url, &self.http)?;
                if files.is_empty() {
                    return Ok(None);
                }
                files
            }
        };
        let list = Arc::new(FileList {
            commit: commit(&files),
            files,
        });
        if matches!(self.place, Place::Store(_)) {
            let mut lists = lock();
            if lists.len() >= MAX_LISTS {
                lists.clear();
            }
            lists.insert(repository.clone(), (Instant::now(), Arc::clone(&list)));
        }
        Ok(Some(list))
    }

    /// Opens a listed file.
    pub(super) fn open(&self, repository: &Repository, path: &str) -> Result<Box<dyn Source>> {
        let location = match &self.place {
            Place::Local(root) => {
                Location::Path(root.folder().join(repository.prefix()).join(path))
            }
            Place::Store(url) => Location::Url(format!("{url}{}/{path}", repository.prefix())),
        };
        location.open(&self.http)
    }
}

/// Returns the files below a folder but for hidden ones, and links out of it.
fn local(root: &Root, prefix: &str) -> Result<Option<BTreeMap<String, File>>> {
    let folder = root.folder().join(prefix);
    if !root.follow(&folder).is_ok_and(|real| real.is_dir()) {
        return Ok(None);
    }
    let mut files = BTreeMap::new();
    walk(root, &folder, "", 0, &mut files).map_err(Error::file("list", &folder))?;
    Ok(Some(files))
}

fn walk(
    root: &Root,
    folder: &Path,
    prefix: &str,
    depth: usize,
    files: &mut BTreeMap<String, File>,
) -> io::Result<()> {
    for entry in folder.read_dir()? {
        let name = entry?.file_name();
        // A name that is not a text has no address; `.gitattributes` is a file that
        // clients expect.
        let Some(name) = name.to_str() else { continue };
        if name.starts_with('.') && name != ".gitattributes" {
            continue;
        }
        let path = folder.join(name);
        let Ok(real) = root.follow(&path) else {
            continue;
        };
        // A file may be removed while the folder is listed.
        let Ok(metadata) = real.metadata() else {
            continue;
        };
        let name = format!("{prefix}{name}");
        if metadata.is_dir() && depth < MAX_DEPTH {
            walk(root, &path, &format!("{name}/"), depth + 1, files)?;
        } else if metadata.is_file() {
            let modified = metadata.modified()?.duration_since(UNIX_EPOCH);
            let nanos = modified.map_or(0, |modified| modified.as_nanos());
            let file = File {
                len_bytes: metadata.len(),
                version: format!("{:x}-{nanos:x}", metadata.len()),
            };
            files.insert(name, file);
        }
    }
    Ok(())
}

#[cfg(feature = "store")]
fn stored(url: &str, http: &HttpOptions) -> Result<BTreeMap<String, File>> {
    let objects = store::list(url, http)?;
    let named = objects.into_iter().map(|object| {
        let tag = object.tag.as_deref().unwrap_or_default();
        let tag: String = tag.chars().filter(char::is_ascii_alphanumeric).collect();
        let file = File {
            len_bytes: object.len_bytes,
            version: format!("{:x}-{tag}", object.len_bytes),
        };
        (object.path, file)
    });
    Ok(named.collect())
}

#[cfg(not(feature = "store"))]
fn stored(url: &str, http: &HttpOptions) -> Result<BTreeMap<String, File>> {
    store::list_top(url, http)?;
    Ok(BTreeMap::new())
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
