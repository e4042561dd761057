//! A checkpoint in several files: an index and the shards beside it, or what
//! lies in a folder (docs/formats/sharded.md).

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use zstn_core::Rule;
use zstn_core::catalog::FileCatalog;
use zstn_core::container::safetensors::{SHARD_INDEX_SUFFIX, ShardIndex};
use zstn_core::limits::HEADER_LEN_BYTES;

use crate::source::{HttpOptions, Map, Place, Source};
use crate::{Error, Result};

mod bases;
mod choice;
mod kind;
mod pack;
mod parts;
mod plan;
mod report;
mod tree;
mod unpack;
mod verify;
mod work;

pub use choice::{BASES, PACKED, READABLE};
pub use pack::pack_shards;
pub use report::{Packed, ShardReport, ShardsReport, ShardsVerified};
pub use unpack::unpack_shards;
pub use verify::verify_shards;

use choice::Choice;
use kind::Kind;
use tree::Tree;

/// The files of a checkpoint: those that an index names, or the one model of
/// a folder.
#[derive(Debug, Clone)]
pub struct Shards {
    place: Place,
    is_folder: bool,
    index: Option<Index>,
    files: Vec<Shard>,
}

/// The index of a checkpoint in several files.
#[derive(Debug, Clone)]
pub struct Index {
    /// Name of its file.
    pub name: String,
    /// Where it was read.
    pub place: Place,
    /// Its bytes.
    pub text: Vec<u8>,
    /// What they say.
    pub parsed: ShardIndex,
}

/// One of the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shard {
    /// Name of the file.
    pub name: String,
    /// Where it is.
    pub place: Place,
    /// Tensors that the index says it holds, sorted; none without an index.
    pub tensors: Vec<String>,
}

impl Shards {
    /// Opens a local folder, or an index by its path or http(s) address, which
    /// ends with `.index.json`. `None` is for anything else: a file by itself.
    ///
    /// A folder holds the checkpoint of its index; without one, that of
    /// `model.KIND`, or of its only file of that kind. `kinds` says which
    /// kinds count, such as [`READABLE`]; the first of them that is there is
    /// taken.
    ///
    /// # Errors
    /// A folder that holds no checkpoint or more than one; an index that
    /// breaks a rule (docs/formats/sharded.md 1).
    pub fn open(place: &Place, kinds: &[&str]) -> Result<Option<Self>> {
        Self::open_with(place, kinds, &HttpOptions::default())
    }

    /// As [`Shards::open`], with other limits for an address.
    pub(crate) fn open_with(
        place: &Place,
        kinds: &[&str],
        http: &HttpOptions,
    ) -> Result<Option<Self>> {
        if let Place::Path(path) = place
            && path.is_dir()
        {
            return Self::of_folder(path, kinds).map(Some);
        }
        match place.file_name() {
            Some(name) if name.ends_with(SHARD_INDEX_SUFFIX) => {
                Self::of_index(place, name, http).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// As [`Shards::open`], for work on all that is in a folder: one that has
    /// no checkpoint at its top may have some in subfolders, as diffusion
    /// pipelines have. [`Shards::files`] are those at the top, none of them
    /// then.
    ///
    /// # Errors
    /// As [`Shards::open`]; a folder without any checkpoint, also below.
    pub fn open_tree(place: &Place, kinds: &[&str]) -> Result<Option<Self>> {
        let Place::Path(folder) = place else {
            return Self::open(place, kinds);
        };
        if !folder.is_dir() {
            return Self::open(place, kinds);
        }
        let problem = match Self::of_folder(folder, kinds) {
            Err(problem @ Error::Usage(_)) => problem,
            other => return other.map(Some),
        };
        let top = Self {
            place: place.clone(),
            is_folder: true,
            index: None,
            files: Vec::new(),
        };
        let tree = Tree::walk(folder, kinds, &top)?;
        let is_below = |(folder, _): &(PathBuf, Self)| !folder.as_os_str().is_empty();
        match tree.checkpoints.iter().any(is_below) {
            true => Ok(Some(top)),
            false => Err(problem),
        }
    }

    /// A checkpoint in one file.
    #[must_use]
    pub fn of_file(place: Place) -> Self {
        let name = place.file_name().unwrap_or_else(|| place.to_string());
        Self {
            files: vec![Shard {
                name,
                place: place.clone(),
                tensors: Vec::new(),
            }],
            place,
            is_folder: false,
            index: None,
        }
    }

    fn of_folder(folder: &Path, kinds: &[&str]) -> Result<Self> {
        let names = file_names(folder)?;
        let choice = choice::choose(&names, kinds)
            .and_then(|choice| choice.ok_or_else(|| choice::none_of(kinds)))
            .map_err(|problem| Error::Usage(format!("{}: {problem}", folder.display())))?;
        let mut shards = match choice {
            Choice::Index(name) => {
                let index = Place::Path(folder.join(name));
                Self::of_index(&index, name.into(), &HttpOptions::default())?
            }
            Choice::File(name) => Self::of_file(Place::Path(folder.join(name))),
        };
        shards.place = Place::Path(folder.into());
        shards.is_folder = true;
        Ok(shards)
    }

    fn of_index(place: &Place, name: String, http: &HttpOptions) -> Result<Self> {
        let text = place
            .small_with(http, HEADER_LEN_BYTES)?
            .ok_or_else(|| missing(place))?;
        let parsed = ShardIndex::parse(&text).map_err(Error::place(place))?;
        let mut files: Vec<Shard> = Vec::new();
        for name in parsed.files() {
            files.push(Shard {
                name: name.clone(),
                place: place.beside(name).ok_or_else(|| missing(place))?,
                tensors: Vec::new(),
            });
        }
        for (tensor, file) in parsed.weights() {
            files[file].tensors.push(tensor.into());
        }
        Ok(Self {
            place: place.clone(),
            is_folder: false,
            index: Some(Index {
                name,
                place: place.clone(),
                text,
                parsed,
            }),
            files,
        })
    }

    /// The file in the subfolder `folder` that is called as `name` is, but for
    /// its extension, if it is one a delta can be made against.
    fn find_below(&self, folder: &Path, name: &str) -> Option<Shard> {
        let Place::Path(root) = &self.place else {
            return None;
        };
        let (stem, _) = name.rsplit_once('.')?;
        let mut names = BASES.iter().map(|kind| format!("{stem}.{kind}"));
        let name = names.find(|name| root.join(folder).join(name).is_file())?;
        Some(Shard {
            place: Place::Path(root.join(folder).join(&name)),
            name,
            tensors: Vec::new(),
        })
    }

    /// What was opened: the folder or the index.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Whether that is a folder.
    #[must_use]
    pub fn is_folder(&self) -> bool {
        self.is_folder
    }

    /// Whether the files are packed, containers or deltas, by their names; of
    /// a folder with checkpoints in subfolders alone, whether one of those is.
    #[must_use]
    pub fn is_packed(&self) -> bool {
        match &self.place {
            Place::Path(folder) if self.files.is_empty() => {
                let tree = Tree::walk(folder, &PACKED, self);
                tree.is_ok_and(|tree| !tree.checkpoints.is_empty())
            }
            _ => Kind::of_packed(self).is_ok(),
        }
    }

    /// The index, if there is one. Without, there is one file.
    #[must_use]
    pub fn index(&self) -> Option<&Index> {
        self.index.as_ref()
    }

    /// The files, by name; their numbers are those of [`ShardIndex`].
    #[must_use]
    pub fn files(&self) -> &[Shard] {
        &self.files
    }
}

impl Shard {
    /// Checks that the file, which has this catalog, holds every tensor that
    /// the index says it does.
    ///
    /// # Errors
    /// [`Rule::ShardTensorMissing`].
    pub fn check(&self, catalog: &FileCatalog) -> Result<()> {
        let mut names = self.tensors.iter();
        match names.find(|tensor| catalog.find(tensor).is_err()) {
            None => Ok(()),
            Some(tensor) => {
                let detail = "the index of the shards says it is in this file, but it is not";
                let refusal = zstn_core::Error::malformed(Rule::ShardTensorMissing, detail);
                Err(Error::place(&self.place)(refusal.tensor(tensor)))
            }
        }
    }

    /// Opens it for reading parts; `http` is for an address.
    ///
    /// # Errors
    /// As [`Place::open`], and [`Rule::ShardMissing`] if there is no such local
    /// file.
    pub fn open(&self, http: &HttpOptions) -> Result<Box<dyn Source>> {
        self.check_there()?;
        self.place.open_with(http)
    }

    /// Makes all of it available as a map.
    ///
    /// # Errors
    /// As [`Place::whole`], and [`Rule::ShardMissing`] if there is no such
    /// local file.
    pub fn whole(&self, progress: &dyn Fn(u64, Option<u64>)) -> Result<Map> {
        self.check_there()?;
        self.place.whole(progress)
    }

    fn check_there(&self) -> Result<()> {
        match &self.place {
            Place::Path(path) => match path.metadata() {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    let detail = "the index of the shards names this file, but it is not there; \
                                  download it as well";
                    let refusal = zstn_core::Error::malformed(Rule::ShardMissing, detail);
                    Err(Error::place(path.display())(refusal))
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

/// The text of the index that the one at `path`, of packed shards, was made
/// from.
#[cfg(feature = "serve")]
pub(crate) fn unpacked_index(path: &Path) -> Result<Vec<u8>> {
    let place = Place::Path(path.into());
    let name = place.file_name().ok_or_else(|| missing(&place))?;
    let shards = Shards::of_index(&place, name, &HttpOptions::default())?;
    let index = shards.index.as_ref().ok_or_else(|| missing(&place))?;
    Ok(Kind::Zstn.renamed_index(index, Kind::Safetensors)?.text)
}

fn missing(place: &Place) -> Error {
    match place {
        Place::Url(url) => Error::Http {
            url: url.clone(),
            detail: "there is no such file, or it needs a login; check the address".into(),
            status: None,
        },
        _ => Error::io(format!("open {place}"), ErrorKind::NotFound.into()),
    }
}

/// Names of the regular files at the top of `folder` that are not hidden,
/// sorted. A name that is not Unicode is none of a checkpoint's.
fn file_names(folder: &Path) -> Result<Vec<String>> {
    let unreadable = || Error::file("list", folder);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable())? {
        let entry = entry.map_err(unreadable())?;
        // Model caches are made of links: what counts is where they lead.
        let is_file = fs::metadata(entry.path()).is_ok_and(|metadata| metadata.is_file());
        if is_file && let Ok(name) = entry.file_name().into_string() {
            names.push(name);
        }
    }
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    Ok(names)
}
