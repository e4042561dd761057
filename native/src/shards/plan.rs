//! Plans the contents of a result folder before anything is written.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use zstn_core::catalog::{FileKind, has_other_extension, packed_name, restored_name};
use zstn_core::container::safetensors::ShardIndex;

use super::choice::{self, Choice};
use super::shard::ShardKind as _;
use super::tree::{Tree, is_packed_original};
use super::{Index, PACKED, PLAIN, Shard, Shards};
use crate::output::{Mode, OutputFolder};
use crate::report::FolderReport;
use crate::source::{CONFIG, HttpOptions, Location, regular};
use crate::{Error, Result};

/// The maximum length of a `config.json` in bytes; real files have a few kilobytes.
const CONFIG_BYTES: u64 = 16 << 20;

/// The files of the result of packing or unpacking. All paths are relative to the
/// result folder.
pub(super) struct Plan<'a> {
    /// The checkpoints of the result. The first one is the checkpoint of the input
    /// itself, unless the input is a folder that only has checkpoints in subfolders.
    pub(super) units: Vec<Unit<'a>>,
    /// Other files, which are copied unchanged.
    pub(super) copied: Vec<PathBuf>,
    /// Folders to create, each after its parent.
    pub(super) folders: Vec<PathBuf>,
    /// The copied files that could not be packed, with the reason.
    not_packed: Vec<(PathBuf, String)>,
    /// Entries of the input folder that are not copied.
    pub(super) left_out: Vec<PathBuf>,
    /// The text of the `config.json` in the folder of an index.
    config: Option<Vec<u8>>,
}

/// One checkpoint, with the names of its files in the result.
pub(super) struct Unit<'a> {
    /// The folder that contains the checkpoint.
    pub(super) folder: PathBuf,
    pub(super) shards: Cow<'a, Shards>,
    /// The format of the shards in the input, if they are or restore safetensors files.
    pub(super) from: FileKind,
    /// True for a file that is, or restores, a model file of another format. It has no
    /// base.
    pub(super) is_original: bool,
    /// The shard index of the result; `None` for a checkpoint in one file.
    pub(super) index: Option<Index>,
    /// The names of the shards in the result, indexed by shard number.
    names: Vec<String>,
}

impl<'a> Unit<'a> {
    fn new(folder: PathBuf, shards: Cow<'a, Shards>, from: FileKind, to: FileKind) -> Result<Self> {
        if let Some(name) = original_name(&shards, to) {
            return Ok(Self {
                index: None,
                names: vec![name],
                folder,
                shards,
                from,
                is_original: true,
            });
        }
        let index = shards.index().map(|index| from.renamed_index(index, to));
        let names = shards.files().iter().map(|file| {
            from.renamed(&file.name, to).ok_or_else(|| {
                Error::Usage(format!(
                    "{} is not a .{} file",
                    file.location,
                    from.extension()
                ))
            })
        });
        Ok(Self {
            index: index.transpose()?,
            names: names.collect::<Result<_>>()?,
            folder,
            shards,
            from,
            is_original: false,
        })
    }

    /// Returns the path of shard `number` in the result.
    pub(super) fn output(&self, number: usize) -> PathBuf {
        self.folder.join(&self.names[number])
    }

    /// Returns whether this is the checkpoint at the top of the folder, or of the index.
    pub(super) fn is_top(&self) -> bool {
        self.folder.as_os_str().is_empty()
    }

    /// Returns the files of `other`, a base or an original as `role` states, that
    /// correspond to the shards of this checkpoint: the files with the same names in
    /// the same subfolder of `other`.
    pub(super) fn counterparts(&self, other: &Shards, role: &str) -> Result<Vec<Shard>> {
        if self.is_original {
            let path = self.output(0);
            let found = other.find_file(&path).ok_or_else(|| {
                Error::Usage(format!(
                    "{} has no file {}; the {role} must be the folder that was packed",
                    other.location(),
                    path.display()
                ))
            });
            return Ok(vec![found?]);
        }
        if self.is_top() && !other.files().is_empty() {
            let found = counterparts(&self.shards, other, role)?;
            return Ok(found.into_iter().cloned().collect());
        }
        let files = self.shards.files().iter();
        let found = files.map(|file| {
            let found = other.find_below(&self.folder, &file.name);
            found.ok_or_else(|| {
                Error::Usage(format!(
                    "{} has no counterpart to {}; the {role} must have the same folders",
                    other.location(),
                    self.folder.join(&file.name).display()
                ))
            })
        });
        found.collect()
    }

    /// Returns the files of `base` that this checkpoint is compared with, and their index:
    /// the checkpoint in the same subfolder. A checkpoint in one file, and one in a folder
    /// with several checkpoints, is compared with the files of the same names.
    pub(super) fn files_of_base(&self, base: &Shards) -> Result<(Vec<Shard>, Option<ShardIndex>)> {
        let counterparts = || Ok((self.counterparts(base, "base")?, None));
        if self.is_original || self.is_top() {
            return counterparts();
        }
        let checkpoint = || {
            let found = base.checkpoint_below(&self.folder)?;
            let index = found.index().map(|index| index.parsed.clone());
            Some((found.files().to_vec(), index))
        };
        match self.shards.files().len() {
            1 => counterparts().or_else(|error| checkpoint().ok_or(error)),
            _ => checkpoint().map_or_else(counterparts, Ok),
        }
    }

    /// Returns the paths of all files of this checkpoint in the result.
    pub(super) fn outputs(&self) -> impl Iterator<Item = PathBuf> {
        let index = self.index.iter().map(|index| &index.name);
        let names = self.names.iter().chain(index);
        names.map(|name| self.folder.join(name))
    }
}

impl<'a> Plan<'a> {
    /// Plans the result of packing `input` to shards of the kind `to`. Refuses a result
    /// from which unpacking could not find the same checkpoints.
    pub(super) fn of_packing(input: &'a Shards, to: FileKind, http: &HttpOptions) -> Result<Self> {
        let plan = Self::new(input, PLAIN, |_| Ok(FileKind::Safetensors), to, http)?;
        plan.check_found(input)?;
        Ok(plan)
    }

    /// Plans the result of unpacking `input`.
    pub(super) fn of_unpacking(input: &'a Shards, http: &HttpOptions) -> Result<Self> {
        Self::new(
            input,
            PACKED,
            FileKind::of_packed,
            FileKind::Safetensors,
            http,
        )
    }

    fn new(
        input: &'a Shards,
        kinds: &[FileKind],
        from: impl Fn(&Shards) -> Result<FileKind>,
        to: FileKind,
        http: &HttpOptions,
    ) -> Result<Self> {
        let mut plan = Self {
            units: Vec::new(),
            copied: Vec::new(),
            not_packed: Vec::new(),
            folders: Vec::new(),
            left_out: Vec::new(),
            config: None,
        };
        if !input.files().is_empty() {
            let shards = Cow::Borrowed(input);
            plan.units
                .push(Unit::new(PathBuf::new(), shards, from(input)?, to)?);
        }
        match input.location() {
            Location::Path(folder) if input.is_folder() => {
                let tree = Tree::walk(folder, kinds, input)?;
                for (folder, shards) in tree.checkpoints {
                    let from = from(&shards)?;
                    let shards = Cow::Owned(shards);
                    plan.units.push(Unit::new(folder, shards, from, to)?);
                }
                (plan.copied, plan.folders) = (tree.files, tree.folders);
                (plan.left_out, plan.not_packed) = (tree.left_out, tree.not_packed);
            }
            location => {
                let version = input.index().map_or(location, |index| &index.location);
                let config = version
                    .sibling(CONFIG)
                    .map(|config| config.read_small_if_any(http, CONFIG_BYTES));
                plan.config = config.transpose()?.flatten();
                plan.copied
                    .extend(plan.config.is_some().then(|| CONFIG.into()));
            }
        }
        plan.check_distinct(input)?;
        Ok(plan)
    }

    /// Checks that the caller named a base if there are deltas, and none otherwise.
    pub(super) fn check_bases(&self, input: &Shards, bases: &[Shards]) -> Result<()> {
        let has_deltas = self.units.iter().any(|unit| unit.from == FileKind::Delta);
        match (has_deltas, bases) {
            (true, []) => Err(Error::needs_base(input.location())),
            (true, _) | (false, []) => Ok(()),
            (false, _) => Err(Error::Usage(format!(
                "{} is not a delta, so it takes no base",
                input.location()
            ))),
        }
    }

    fn check_distinct(&self, input: &Shards) -> Result<()> {
        let mut seen = BTreeSet::new();
        let outputs = self.units.iter().flat_map(Unit::outputs);
        let mut all = outputs.chain(self.copied.iter().cloned());
        match all.find(|path| !seen.insert(path.clone())) {
            None => Ok(()),
            Some(path) => Err(Error::Usage(format!(
                "{}: two files of the result would be called {}; move one of the files \
                 that they are made from",
                input.location(),
                path.display()
            ))),
        }
    }

    /// Checks that unpacking finds these checkpoints in the result and does not take
    /// any other file for a checkpoint.
    fn check_found(&self, input: &Shards) -> Result<()> {
        let own = self.units.first().filter(|_| !input.files().is_empty());
        if let Some(own) = own {
            let is_top = |path: &PathBuf| path.parent() == Some(Path::new(""));
            if let Location::Path(root) = input.location() {
                let restores = |path: &Path| is_packed_original(&root.join(path));
                if self.copied.iter().any(|path| restores(path)) {
                    return Err(self.mistakable(input, restores));
                }
            }
            let top = own.outputs().chain(self.copied.iter().cloned());
            let top = top.filter(is_top);
            let top: Vec<String> = top
                .filter_map(|path| path.to_str().map(Into::into))
                .collect();
            let expected = match &own.index {
                Some(index) => Choice::Index(&index.name),
                None => Choice::File(&own.names[0]),
            };
            if choice::choose_whole(&top, PACKED) != Ok(Some(expected)) {
                return Err(self.mistakable(input, |path| is_top(&path.to_path_buf())));
            }
        }
        let below = |path: &Path| own.is_none() || path.parent() != Some(Path::new(""));
        match self
            .copied
            .iter()
            .any(|path| below(path) && is_packed(path))
        {
            true => Err(self.mistakable(input, below)),
            false => Ok(()),
        }
    }

    fn mistakable(&self, input: &Shards, is_meant: impl Fn(&Path) -> bool) -> Error {
        let strays = self
            .copied
            .iter()
            .filter(|path| is_meant(path) && is_packed(path));
        let strays: Vec<String> = strays.map(|path| path.display().to_string()).collect();
        Error::Usage(format!(
            "{}: the folder contains packed files besides the checkpoint ({}), and the two could \
             not be told apart afterwards; move those elsewhere",
            input.location(),
            strays.join(", "),
        ))
    }

    /// Returns the report about the files of the folder apart from the shards.
    pub(super) fn into_report(
        self,
        copied_bytes: u64,
        missing_tensors: Vec<String>,
    ) -> FolderReport {
        let index = self.units.first().and_then(|unit| unit.index.as_ref());
        FolderReport {
            index: index.map(|index| index.name.clone()),
            copied: self.copied,
            copied_bytes,
            not_packed: self.not_packed,
            missing_tensors,
            left_out: self.left_out,
        }
    }

    /// Creates the subfolders for the files of the result.
    pub(super) fn make_folders(&self, input: &Shards, folder: &mut OutputFolder) -> Result<()> {
        folder.like(input.location());
        let made = self.folders.iter();
        let mut made = made.map(|path| folder.make(path, &mode_of(input, path)));
        made.try_for_each(|made| made)
    }

    /// Writes all files except the shards. Returns the total length of the copied files
    /// in bytes.
    pub(super) fn write_others(&self, input: &Shards, folder: &OutputFolder) -> Result<u64> {
        let mut copied_bytes = 0;
        for name in &self.copied {
            match (input.location(), &self.config) {
                (location, Some(text)) => {
                    let config = location.sibling(CONFIG);
                    folder.write(name, text.as_slice(), &mode_at(config.as_ref()))?;
                    copied_bytes += text.len() as u64;
                }
                (Location::Path(path), None) => {
                    let path = path.join(name);
                    let file = regular::open(&path).map_err(Error::file("open", &path))?;
                    copied_bytes += file.metadata().map_or(0, |metadata| metadata.len());
                    folder.write(name, file, &Mode::of(&path))?;
                }
                _ => {}
            }
        }
        for unit in &self.units {
            if let Some(index) = &unit.index {
                let mode = mode_at(unit.shards.index().map(|index| &index.location));
                folder.write(unit.folder.join(&index.name), index.text.as_slice(), &mode)?;
            }
        }
        Ok(copied_bytes)
    }
}

/// Returns the name of the result if `shards` are one model file of a format other than
/// safetensors, or one packed file that restores one (docs/formats/zstn-virtual-header.md
/// 1). `to` is the kind of the results for other files.
fn original_name(shards: &Shards, to: FileKind) -> Option<String> {
    let ([file], None) = (shards.files(), shards.index()) else {
        return None;
    };
    if to != FileKind::Safetensors {
        return packed_name(&file.name).filter(|_| has_other_extension(&file.name));
    }
    match &file.location {
        Location::Path(path) => {
            let name = file.name.strip_suffix(".zstn")?;
            let is_name = !matches!(name, "" | "." | "..");
            (is_name && is_packed_original(path)).then(|| name.into())
        }
        // The content of an address is not read for its name.
        _ => restored_name(&file.name).filter(|name| has_other_extension(name)),
    }
}

/// Returns the permissions of the folder at `path` in the input.
fn mode_of(input: &Shards, path: &Path) -> Mode {
    match input.location() {
        Location::Path(root) => Mode::of(&root.join(path)),
        _ => Mode::default(),
    }
}

/// Returns the permissions of a local file, or the defaults for another location.
fn mode_at(location: Option<&Location>) -> Mode {
    match location {
        Some(Location::Path(path)) => Mode::of(path),
        _ => Mode::default(),
    }
}

/// Returns whether a file is named like a packed file.
fn is_packed(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| {
        let mut kinds = PACKED.iter();
        kinds.any(|kind| name.contains(&format!(".{}", kind.extension())))
    })
}

/// Returns the file of `others` that corresponds to each of `shards`: the file with the
/// same name except for the extension, or the only file if both sides have one. `role`
/// names the others in error messages.
fn counterparts<'a>(shards: &Shards, others: &'a Shards, role: &str) -> Result<Vec<&'a Shard>> {
    if let ([_], [other]) = (shards.files(), others.files()) {
        return Ok(vec![other]);
    }
    let mut by_stem: BTreeMap<&str, &Shard> = BTreeMap::new();
    for shard in others.files() {
        by_stem.insert(shard.stem(), shard);
    }
    let found: Result<Vec<&Shard>> = shards
        .files()
        .iter()
        .map(|shard| {
            by_stem.remove(shard.stem()).ok_or_else(|| {
                Error::Usage(format!(
                    "{} has no counterpart to {}; the {role} must be cut into the same shards",
                    others.location(),
                    shard.name
                ))
            })
        })
        .collect();
    let found = found?;
    match by_stem.into_values().next() {
        None => Ok(found),
        Some(more) => Err(Error::Usage(format!(
            "{} has {}, for which there is no counterpart; the {role} must be cut into the same \
             shards",
            others.location(),
            more.name
        ))),
    }
}
