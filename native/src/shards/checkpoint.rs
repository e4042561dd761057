//! Finds the files of a checkpoint.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use zstn_core::catalog::FileKind;
use zstn_core::container::safetensors::ShardIndex;
use zstn_core::limits::HEADER_LEN_BYTES;

use super::choice::{self, Choice};
use super::shard::ShardKind as _;
use super::shard::missing;
use super::tree::{self, Tree};
use super::{BASES, Index, PACKED, PLAIN, Shard};
use crate::delta::check_chain;
use crate::source::parallel::{self, FILES_AT_ONCE};
use crate::source::{HttpOptions, Input, Location, store};
use crate::{Error, Result};

/// The files of a checkpoint: all files that an index names, or the only model in a
/// folder.
#[derive(Debug, Clone)]
pub struct Shards {
    location: Location,
    is_folder: bool,
    index: Option<Index>,
    files: Vec<Shard>,
}

impl Shards {
    /// Opens a local folder, a folder in an object store (an address that ends in a
    /// slash), or an index (a path or address that ends in `.index.json`). Returns
    /// `None` for anything else, which is a single file. `http` applies to addresses.
    ///
    /// A folder is opened by its index; without one, by `model.KIND`, or by its only
    /// file of that kind. `kinds` lists the accepted kinds, such as [`FileKind::FILES`];
    /// the first kind that the folder contains is chosen.
    ///
    /// # Errors
    /// A folder with no checkpoint or with more than one; an index that breaks a rule
    /// (docs/formats/sharded.md 1).
    pub fn open(
        location: &Location,
        kinds: &[FileKind],
        http: &HttpOptions,
    ) -> Result<Option<Self>> {
        if let Location::Path(path) = location
            && path.is_dir()
        {
            return Self::of_folder(path, kinds).map(Some);
        }
        if let Some(url) = location.stored_folder() {
            return Self::of_stored_folder(location, url, kinds, http).map(Some);
        }
        match location.file_name() {
            Some(name) if location.is_index() => Self::of_index(location, name, http).map(Some),
            _ => Ok(None),
        }
    }

    /// Opens `input` for work on all of its files, such as packing; `None` if it is a
    /// single file.
    pub fn open_input(
        input: &Input,
        kinds: &[FileKind],
        http: &HttpOptions,
    ) -> Result<Option<Self>> {
        match input.location() {
            Some(location) => Self::open_tree(location, kinds, http),
            None => Ok(None),
        }
    }

    /// Opens several counterparts, such as a chain of bases. Indices on servers are
    /// read at the same time.
    ///
    /// # Errors
    /// The errors of [`Shards::open_counterpart`].
    pub fn open_counterparts(
        inputs: &[Input],
        kinds: &[FileKind],
        http: &HttpOptions,
    ) -> Result<Vec<Self>> {
        check_chain(inputs)?;
        let at_once = parallel::at_once(inputs.iter().map(Input::is_remote), FILES_AT_ONCE);
        parallel::run(inputs.len(), at_once, |number| {
            Self::open_counterpart(&inputs[number], kinds, http)
        })
    }

    /// Opens the counterpart of a sharded checkpoint: its base or its original. A
    /// single file is a checkpoint with one file.
    pub fn open_counterpart(input: &Input, kinds: &[FileKind], http: &HttpOptions) -> Result<Self> {
        let Some(location) = input.location() else {
            return Err(Error::Usage(format!(
                "{input} is a single file in memory and cannot be the counterpart of a checkpoint \
                 in several files; give the path or address of one"
            )));
        };
        let shards = Self::open_tree(location, kinds, http)?;
        Ok(shards.unwrap_or_else(|| Self::of_file(location.clone())))
    }

    /// Opens a checkpoint like [`Shards::open`], for work on everything in a folder. A
    /// folder with no checkpoint at its top, or with several, may have checkpoints in
    /// subfolders, as diffusion pipelines do. [`Shards::files`] are the files of the
    /// only checkpoint at the top; if there is no such checkpoint, they are empty and
    /// the work covers all checkpoints in the tree.
    ///
    /// # Errors
    /// The errors of [`Shards::open`]; a folder that has no checkpoint in its
    /// subfolders either.
    fn open_tree(
        location: &Location,
        kinds: &[FileKind],
        http: &HttpOptions,
    ) -> Result<Option<Self>> {
        let folder = match location {
            Location::Path(folder) if folder.is_dir() => folder,
            _ => return Self::open(location, kinds, http),
        };
        let mut names = file_names(folder)?;
        let chosen = if kinds == PLAIN {
            Self::packable_top(folder, &names)?
        } else {
            // Packed files of other formats are checkpoints of their own.
            names.retain(|name| !tree::is_packed_original(&folder.join(name)));
            match choice::choose_whole(&names, kinds) {
                Ok(Some(choice)) => Some(Self::of_choice(folder, &choice)?),
                Ok(None) | Err(_) => None,
            }
        };
        if let Some(chosen) = chosen {
            return Ok(Some(chosen));
        }
        let top = Self::of_tree(location.clone());
        let tree = Tree::walk(folder, kinds, &top)?;
        match (&tree.checkpoints[..], tree.not_packed.into_iter().next()) {
            ([_, ..], _) => Ok(Some(top)),
            ([], Some((_, reason))) => Err(Error::Usage(reason)),
            ([], None) => {
                let problem = choice::none_of(kinds);
                Err(Error::Usage(format!("{}: {problem}", folder.display())))
            }
        }
    }

    /// Returns the checkpoint at the top of a folder, if exactly one can be packed
    /// there: the checkpoint of the only packable index, else `model.safetensors`, else
    /// the only packable file.
    fn packable_top(folder: &Path, names: &[String]) -> Result<Option<Self>> {
        let mut tops = Vec::new();
        let indices = names.iter().map(String::as_str);
        for (name, index) in choice::indices(indices, FileKind::Safetensors) {
            match tree::open_index(folder, &name.into(), PLAIN, &BTreeSet::new()) {
                // The files of this index are one of several variants.
                Ok(_) if index.has_variant() => return Ok(None),
                Ok(shards) => tops.push(shards),
                Err(error) if tree::is_refusal(&error) => {}
                Err(error) => return Err(error),
            }
        }
        if tops.is_empty() {
            let mut files = Vec::new();
            for name in names {
                let is_plain = FileKind::Safetensors.is_of(name);
                if is_plain && tree::why_not_packed(&folder.join(name))?.is_none() {
                    files.push(name.clone());
                }
            }
            if let Ok(Some(Choice::File(name))) = choice::choose(&files, PLAIN) {
                tops.push(Self::of_file(Location::Path(folder.join(name))));
            }
        }
        let only = (tops.len() == 1).then(|| tops.pop()).flatten();
        Ok(only.map(|top| Self {
            location: Location::Path(folder.into()),
            is_folder: true,
            ..top
        }))
    }

    /// Returns the folder at `location`, which does not have exactly one checkpoint at
    /// its top.
    pub(super) fn of_tree(location: Location) -> Self {
        Self {
            location,
            is_folder: true,
            index: None,
            files: Vec::new(),
        }
    }

    /// Returns the checkpoint that consists of a single file.
    #[must_use]
    pub fn of_file(location: Location) -> Self {
        let name = location.file_name().unwrap_or_else(|| location.to_string());
        Self {
            files: vec![Shard {
                name,
                location: location.clone(),
                tensors: Vec::new(),
            }],
            location,
            is_folder: false,
            index: None,
        }
    }

    fn of_folder(folder: &Path, kinds: &[FileKind]) -> Result<Self> {
        let names = file_names(folder)?;
        let choice = choice::choose(&names, kinds)
            .and_then(|choice| choice.ok_or_else(|| choice::none_of(kinds)))
            .map_err(|problem| Error::Usage(format!("{}: {problem}", folder.display())))?;
        Self::of_choice(folder, &choice)
    }

    fn of_choice(folder: &Path, choice: &Choice) -> Result<Self> {
        let mut shards = match choice {
            Choice::Index(name) => {
                let index = Location::Path(folder.join(name));
                Self::of_index(&index, (*name).into(), &HttpOptions::default())?
            }
            Choice::File(name) => Self::of_file(Location::Path(folder.join(name))),
        };
        shards.location = Location::Path(folder.into());
        shards.is_folder = true;
        Ok(shards)
    }

    /// Opens the checkpoint in a folder of an object store, as if the caller had named
    /// its index or file.
    fn of_stored_folder(
        folder: &Location,
        url: &str,
        kinds: &[FileKind],
        http: &HttpOptions,
    ) -> Result<Self> {
        let objects = store::list_top(url, http)?.into_iter();
        let names: Vec<String> = objects.map(|object| object.path).collect();
        let choice = choice::choose(&names, kinds)
            .and_then(|choice| choice.ok_or_else(|| choice::none_of(kinds)))
            .map_err(|problem| Error::Usage(format!("{folder}: {problem}")))?;
        let at = |name| folder.sibling(name).ok_or_else(|| missing(folder));
        match choice {
            Choice::Index(name) => Self::of_index(&at(name)?, name.into(), http),
            Choice::File(name) => Ok(Self::of_file(at(name)?)),
        }
    }

    pub(super) fn of_index(location: &Location, name: String, http: &HttpOptions) -> Result<Self> {
        let (text, version) = location.read_small(http, HEADER_LEN_BYTES)?;
        Self::parse(location, name, text, version)
    }

    /// Returns the checkpoint of the index called `name` at `location`, whose text is
    /// `text`. The shards are siblings of `version`, the location of this version of
    /// the index.
    pub(crate) fn parse(
        location: &Location,
        name: String,
        text: Vec<u8>,
        version: Location,
    ) -> Result<Self> {
        let parsed = ShardIndex::parse(&text).map_err(Error::place(location))?;
        let mut files: Vec<Shard> = Vec::new();
        for name in parsed.files() {
            files.push(Shard::beside(&version, name).ok_or_else(|| missing(location))?);
        }
        for (tensor, file) in parsed.weights() {
            files[file].tensors.push(tensor.into());
        }
        Ok(Self {
            location: location.clone(),
            is_folder: false,
            index: Some(Index {
                name,
                location: version,
                text,
                parsed,
            }),
            files,
        })
    }

    /// Returns the file in the subfolder `folder` with the same name as `name` except
    /// for the extension, if a delta can be made against such a file.
    pub(super) fn find_below(&self, folder: &Path, name: &str) -> Option<Shard> {
        let Location::Path(root) = &self.location else {
            return None;
        };
        let (stem, _) = name.rsplit_once('.')?;
        let mut names = BASES
            .iter()
            .map(|kind| format!("{stem}.{}", kind.extension()));
        let name = names.find(|name| root.join(folder).join(name).is_file())?;
        Some(Shard {
            location: Location::Path(root.join(folder).join(&name)),
            name,
            tensors: Vec::new(),
        })
    }

    /// Returns the checkpoint in the subfolder `folder`, if there is exactly one that a
    /// delta can be made against.
    pub(super) fn checkpoint_below(&self, folder: &Path) -> Option<Self> {
        let Location::Path(root) = &self.location else {
            return None;
        };
        let folder = root.join(folder);
        let mut names = file_names(&folder).ok()?;
        names.retain(|name| !tree::is_packed_original(&folder.join(name)));
        let choice = choice::choose_whole(&names, BASES).ok()??;
        Self::of_choice(&folder, &choice).ok()
    }

    /// Returns the file at `path` below the opened folder, if it exists. If a single file
    /// was opened, returns it for its own name.
    pub(super) fn find_file(&self, path: &Path) -> Option<Shard> {
        match (&self.location, &self.files[..]) {
            (Location::Path(root), _) if self.is_folder => {
                let location = Location::Path(root.join(path));
                let found = Self::of_file(location).files.pop();
                found.filter(|_| root.join(path).is_file())
            }
            (_, [file]) if path.as_os_str() == file.name.as_str() => Some(file.clone()),
            _ => None,
        }
    }

    /// Returns the location that the caller opened: the folder, the index or the file.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Returns whether the opened location is a folder.
    #[must_use]
    pub fn is_folder(&self) -> bool {
        self.is_folder
    }

    /// Returns whether the files are packed as containers or deltas, according to their
    /// names. For a folder that only has checkpoints in subfolders, returns whether one
    /// of these checkpoints is packed.
    #[must_use]
    pub fn is_packed(&self) -> bool {
        match &self.location {
            Location::Path(folder) if self.files.is_empty() => {
                let tree = Tree::walk(folder, PACKED, self);
                tree.is_ok_and(|tree| !tree.checkpoints.is_empty())
            }
            _ => FileKind::of_packed(self).is_ok(),
        }
    }

    /// Returns the index, if there is one. Without an index there is at most one file.
    #[must_use]
    pub fn index(&self) -> Option<&Index> {
        self.index.as_ref()
    }

    /// Returns the files, sorted by name; their positions are the file numbers of
    /// [`ShardIndex`].
    #[must_use]
    pub fn files(&self) -> &[Shard] {
        &self.files
    }
}

/// Returns the checkpoints in the subfolders of a local folder that has none at its
/// top, such as the models of a diffusion pipeline: their indices and files, sorted by
/// path. Returns none for any other location.
#[must_use]
pub fn checkpoints_below(location: &Location) -> Vec<Location> {
    let Location::Path(folder) = location else {
        return Vec::new();
    };
    let names = match file_names(folder) {
        Ok(names) if folder.is_dir() => names,
        _ => return Vec::new(),
    };
    if choice::choose(&names, FileKind::FILES) != Ok(None) {
        return Vec::new();
    }
    let top = Shards::of_tree(location.clone());
    let found = Tree::walk(folder, FileKind::FILES, &top).map(|tree| tree.checkpoints);
    let found = found.unwrap_or_default().into_iter();
    let locations = found.map(|(_, shards)| match shards.index() {
        Some(_) => shards.location().clone(),
        None => shards.files()[0].location.clone(),
    });
    locations.collect()
}

/// Returns the sorted names of the regular files at the top of `folder`, except hidden
/// files and names that are not Unicode.
fn file_names(folder: &Path) -> Result<Vec<String>> {
    let unreadable = || Error::file("list", folder);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable())? {
        let entry = entry.map_err(unreadable())?;
        // Model caches consist of links, so this checks the file that a link leads to.
        let is_file = fs::metadata(entry.path()).is_ok_and(|metadata| metadata.is_file());
        if is_file && let Ok(name) = entry.file_name().into_string() {
            names.push(name);
        }
    }
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    Ok(names)
}
