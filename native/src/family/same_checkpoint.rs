//! Recognises files that are the same checkpoint: its original files, and the files that
//! packing and unpacking make of them.

use std::path::{Path, PathBuf};

use zstn_core::catalog::IndexName;
use zstn_core::container::safetensors::{KERAS_INDEX_SUFFIX, SHARD_INDEX_SUFFIX};

use crate::shards::{PLAIN, Shards};
use crate::source::{FileId, HttpOptions, Location, is_same};

/// Extensions of checkpoint files.
const EXTENSIONS: [&str; 3] = [".safetensors", ".zstn", ".z4dm"];
/// Endings of the names of output folders.
const FOLDER_ENDS: [&str; 3] = ["-safetensors", "-zstn", "-z4dm"];
/// Endings of the names of deltas.
const DELTA_ENDS: [&str; 3] = [".z4dm", "-z4dm", ".z4dm.index.json"];

/// The identity of a checkpoint, shared by its original files and by all files that
/// packing and unpacking make of them. Each such set of files is called a form of the
/// checkpoint.
#[derive(Debug, Clone, Default)]
pub(super) struct Form {
    ids: Vec<FileId>,
    urls: Vec<String>,
    /// The paths or addresses of the checkpoint without the endings that packing and
    /// unpacking add.
    stems: Vec<Location>,
}

impl Form {
    /// Returns the identity of a checkpoint that consists of `files` and is known as
    /// `names`.
    pub(super) fn new<'a>(
        files: impl IntoIterator<Item = &'a Location>,
        names: impl IntoIterator<Item = &'a Location>,
    ) -> Self {
        let mut form = Self::default();
        for file in files {
            match file {
                Location::Path(path) => form.ids.extend(FileId::of_path(path)),
                Location::Url(url) => form.urls.push(url.clone()),
                Location::Pipe(_) | Location::Stdin => {}
            }
        }
        form.stems = names.into_iter().flat_map(stems).collect();
        form
    }

    /// Returns the identity of an input. `shards` are the files of the input if it is
    /// sharded.
    pub(super) fn of_input(input: &Location, shards: Option<&Shards>) -> Self {
        let files = files(input, shards);
        let mut names = vec![input];
        names.extend(shards.and_then(index));
        if let [file] = files[..] {
            names.push(file);
        }
        let folder = folder_of(input, &files);
        Self::new(files, names.into_iter().chain(&folder))
    }

    /// Returns whether both identify the same checkpoint: they share a file, or have
    /// the same name apart from the endings that packing changes.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let same_url = |url: &String| other.urls.iter().any(|other| is_same(url, other));
        let same_stem = |stem: &Location| other.stems.iter().any(|other| is_equal(stem, other));
        self.ids.iter().any(|id| other.ids.contains(id))
            || self.urls.iter().any(same_url)
            || self.stems.iter().any(same_stem)
    }

    /// Returns whether the delta of this checkpoint is stored in the same local folder,
    /// under the name that packing gives it.
    pub(super) fn has_difference(&self) -> bool {
        let paths = self.stems.iter().filter_map(|stem| match stem {
            Location::Path(path) => Some(path),
            _ => None,
        });
        let mut names = paths.flat_map(|path| {
            DELTA_ENDS.iter().map(|end| {
                let mut name = path.clone().into_os_string();
                name.push(end);
                PathBuf::from(name)
            })
        });
        names.any(|name| name.exists())
    }
}

/// Returns the locations of all files of a checkpoint.
fn files<'a>(location: &'a Location, shards: Option<&'a Shards>) -> Vec<&'a Location> {
    match shards {
        Some(shards) => shards.files().iter().map(|file| &file.location).collect(),
        None => vec![location],
    }
}

/// Returns the location of the index of a sharded checkpoint.
pub(super) fn index(shards: &Shards) -> Option<&Location> {
    shards.index().map(|index| &index.location)
}

/// Returns the local folder of a file or an index, if opening the folder opens the same
/// files.
fn folder_of(input: &Location, files: &[&Location]) -> Option<Location> {
    let Location::Path(path) = input else {
        return None;
    };
    if path.is_dir() {
        return None;
    }
    let folder = Location::from(parent(path));
    let shards = Shards::open(&folder, PLAIN, &HttpOptions::default()).ok()??;
    let ids = |files: &[&Location]| Form::new(files.iter().copied(), []).ids;
    let all: Vec<&Location> = shards.files().iter().map(|file| &file.location).collect();
    (ids(&all) == ids(files)).then_some(folder)
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn is_equal(one: &Location, other: &Location) -> bool {
    match (one, other) {
        (Location::Url(one), Location::Url(other)) => is_same(one, other),
        _ => one == other,
    }
}

/// Returns the location without the endings that packing and unpacking add. A path to a
/// link gives two results: the link in its resolved folder, and the file that it points
/// to. Standard input and pipes give none.
fn stems(location: &Location) -> Vec<Location> {
    match location {
        Location::Pipe(_) | Location::Stdin => Vec::new(),
        Location::Url(url) => {
            let url = url.split(['?', '#']).next().unwrap_or_default();
            vec![Location::Url(stem(url.trim_end_matches('/')).into())]
        }
        Location::Path(path) => {
            let named = path.file_name().and_then(|name| {
                let folder = parent(path).canonicalize().ok()?;
                Some(folder.join(name))
            });
            let mut paths: Vec<PathBuf> = path.canonicalize().ok().into_iter().collect();
            paths.extend(named);
            paths.sort();
            paths.dedup();
            let stem_of = |path: PathBuf| match path.file_name().and_then(|name| name.to_str()) {
                Some(name) => path.with_file_name(stem(name)),
                None => path,
            };
            paths.into_iter().map(stem_of).map(Location::Path).collect()
        }
    }
}

/// Returns the name without `end`, in any case; `None` if it does not have this end.
fn without_end<'a>(name: &'a str, end: &str) -> Option<&'a str> {
    let (stem, found) = name.split_at_checked(name.len().checked_sub(end.len())?)?;
    found.eq_ignore_ascii_case(end).then_some(stem)
}

/// Returns the name of a checkpoint without the endings that packing and unpacking add.
fn stem(name: &str) -> &str {
    let strip = |name, ends: &[&str]| {
        let stems = ends.iter().map(|end| without_end(name, end));
        let stem = stems.flatten().find(|stem| !stem.is_empty());
        stem.unwrap_or(name)
    };
    let name = match IndexName::parse(name) {
        Some(index) => index.stem(),
        None => {
            let name = strip(name, &[SHARD_INDEX_SUFFIX, KERAS_INDEX_SUFFIX]);
            strip(name, &EXTENSIONS)
        }
    };
    strip(name, &FOLDER_ENDS)
}
