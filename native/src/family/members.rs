//! Lists the checkpoints of a family, which are the files in its folder.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use zstn_core::catalog::{FileKind, IndexName};

use super::same_checkpoint::{self, Form};
use crate::shards::{BASES, Shards};
use crate::source::{HttpOptions, Location, store};
use crate::{Error, Result};

/// The file extension of sketches.
const SKETCH: &str = "sketch";

/// The maximum number of entries in the folder of a family.
const MAX_ENTRIES: usize = 100_000;

/// Names of entries that cannot be a base, with the reasons.
pub(super) type LeftOut = Vec<(String, String)>;

/// A checkpoint that may be a base.
#[derive(Debug, Clone)]
pub(super) struct Member {
    /// The name of the checkpoint's file, index or folder in the family.
    pub(super) name: String,
    /// The location that is given as a base: a file, an index or a folder.
    pub(super) location: Location,
    /// The format of the checkpoint's files, according to their names.
    pub(super) kind: FileKind,
    /// The identity of the checkpoint.
    pub(super) form: Form,
    /// Names of the checkpoint's files without their extensions, sorted; empty for a
    /// single file.
    pub(super) shards: Vec<String>,
    /// The path or address of the checkpoint's sketch, which may not exist.
    pub(super) sketch: Location,
    pub(super) has_sketch: bool,
    pub(super) is_local: bool,
}

impl Member {
    /// Returns whether the checkpoint consists of deltas, which cannot be read without
    /// a base.
    pub(super) fn is_delta(&self) -> bool {
        self.kind == FileKind::Delta
    }
}

/// Lists the checkpoints of a local folder or of a folder in an object store, sorted by
/// name: files, indices of shards, and local subfolders that contain one checkpoint.
/// Also returns the names of indices that cannot be read, with the reasons.
pub(super) fn list(folder: &Location, http: &HttpOptions) -> Result<(Vec<Member>, LeftOut)> {
    let (names, folders): (Vec<String>, _) = match folder {
        Location::Path(path) => local_names(path)?,
        Location::Url(url) if folder.is_folder() => {
            let objects = store::list_top(url, http)?;
            check_count(objects.len(), folder)?;
            let names = objects.into_iter().map(|object| object.path);
            (names.collect(), Vec::new())
        }
        _ => {
            return Err(Error::Usage(format!(
                "{folder} cannot be listed; a family is a local folder, or one in an object \
                 store, whose address ends in a slash, like s3://bucket/folder/"
            )));
        }
    };
    let listing = Listing {
        folder,
        names: names
            .into_iter()
            .filter(|name| !name.starts_with('.'))
            .collect(),
        http,
    };
    listing.members(&folders)
}

/// Refuses a folder with too many entries to be a family.
fn check_count(count: usize, folder: &Location) -> Result<()> {
    match count > MAX_ENTRIES {
        true => Err(Error::Usage(format!(
            "{folder} contains over {MAX_ENTRIES} files; a family is smaller"
        ))),
        false => Ok(()),
    }
}

/// Returns the names of the files and of the subfolders in a local folder. The names of
/// the subfolders are sorted.
fn local_names(folder: &Path) -> Result<(Vec<String>, Vec<String>)> {
    let unreadable = || Error::file("list", folder);
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(folder).map_err(unreadable())? {
        let entry = entry.map_err(unreadable())?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        // Links are treated like the files or folders that they lead to.
        match fs::metadata(entry.path()) {
            Ok(metadata) if metadata.is_dir() => folders.push(name),
            Ok(metadata) if metadata.is_file() => files.push(name),
            _ => {}
        }
        check_count(files.len() + folders.len(), &folder.into())?;
    }
    folders.sort();
    Ok((files, folders))
}

struct Listing<'a> {
    folder: &'a Location,
    names: BTreeSet<String>,
    http: &'a HttpOptions,
}

impl Listing<'_> {
    fn members(self, folders: &[String]) -> Result<(Vec<Member>, LeftOut)> {
        let (mut members, mut left_out) = (Vec::new(), LeftOut::new());
        let mut in_index = BTreeSet::new();
        for name in &self.names {
            let index = IndexName::parse(name).filter(|index| BASES.contains(&index.kind()));
            let Some(index) = index else {
                continue;
            };
            let stem = index.stem();
            let shards = match Shards::open(&self.at(name), BASES, self.http) {
                Ok(Some(shards)) => shards,
                Ok(None) => continue,
                Err(error) if self.is_remote() && error.is_external() => return Err(error),
                Err(error) => {
                    left_out.push((name.clone(), error.to_string()));
                    continue;
                }
            };
            in_index.extend(shards.files().iter().map(|file| file.name.clone()));
            members.extend(self.of_shards(name, stem, &shards));
        }
        for name in self.names.iter().filter(|name| !in_index.contains(*name)) {
            if let Some((stem, kind)) = with_kind(name) {
                let at = self.at(name);
                let form = Form::new([&at], [&at]);
                members.push(self.member((name, stem), kind, at, form, Vec::new()));
            }
        }
        for name in folders.iter().filter(|name| !name.starts_with('.')) {
            // Folders without a checkpoint, or with several, are ignored: they are not
            // members.
            if let Ok(Some(shards)) = Shards::open(&self.at(name), BASES, self.http) {
                members.extend(self.of_shards(name, name, &shards));
            }
        }
        members.sort_by(|a, b| a.name.cmp(&b.name));
        Ok((members, left_out))
    }

    fn of_shards(&self, name: &str, stem: &str, shards: &Shards) -> Option<Member> {
        let (_, kind) = with_kind(&shards.files().first()?.name)?;
        let location = match (shards.files(), shards.index()) {
            ([file], None) => file.location.clone(),
            _ => shards.location().clone(),
        };
        let files = shards.files().iter().map(|file| &file.location);
        let form = Form::new(
            files,
            [&self.at(name), &location]
                .into_iter()
                .chain(same_checkpoint::index(shards)),
        );
        let shards = shard_stems(shards);
        Some(self.member((name, stem), kind, location, form, shards))
    }

    fn member(
        &self,
        (name, stem): (&str, &str),
        kind: FileKind,
        location: Location,
        form: Form,
        shards: Vec<String>,
    ) -> Member {
        let sketch = format!("{stem}.{SKETCH}");
        Member {
            name: name.into(),
            location,
            kind,
            form,
            shards,
            has_sketch: self.names.contains(&sketch),
            sketch: self.at(&sketch),
            is_local: matches!(self.folder, Location::Path(_)),
        }
    }

    /// Returns whether the family is on a server, where an error may be temporary. An
    /// error of a local file, such as a denied permission, would occur again.
    fn is_remote(&self) -> bool {
        !matches!(self.folder, Location::Path(_))
    }

    fn at(&self, name: &str) -> Location {
        match self.folder {
            Location::Path(folder) => Location::Path(folder.join(name)),
            other => other.sibling(name).unwrap_or_else(|| other.clone()),
        }
    }
}

/// Splits the name of a file that may be a base into its stem and kind.
fn with_kind(name: &str) -> Option<(&str, FileKind)> {
    let (stem, extension) = name.rsplit_once('.')?;
    let is_of = |kind: &&FileKind| kind.extension().eq_ignore_ascii_case(extension);
    let kind = BASES.iter().find(is_of)?;
    (!stem.is_empty()).then_some((stem, *kind))
}

/// Returns the names of shards without their extensions; none for a single file.
pub(super) fn shard_stems(shards: &Shards) -> Vec<String> {
    if let ([_], None) = (shards.files(), shards.index()) {
        return Vec::new();
    }
    shards
        .files()
        .iter()
        .map(|file| file.stem().into())
        .collect()
}
