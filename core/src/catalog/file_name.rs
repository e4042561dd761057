//! The names of checkpoint files: names of shard indices, and how packing
//! changes a name (docs/formats/sharded.md 4). `tests/names.json` contains
//! examples that the tests of all languages run.

use alloc::format;
use alloc::string::String;

use super::FileKind;

/// The name of a shard index. It may contain a variant such as `fp16` before or
/// after the word `index`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexName<'a> {
    stem: &'a str,
    kind: FileKind,
    ending: &'a str,
}

impl<'a> IndexName<'a> {
    /// Parses the name or the path of an index: `STEM.KIND.index.json`,
    /// `STEM.KIND.index.VARIANT.json` or `STEM.KIND.VARIANT.index.json`, where
    /// the variant has no dot. Returns `None` for any other name.
    #[must_use]
    pub fn parse(name: &'a str) -> Option<Self> {
        let text = name.strip_suffix(".json")?;
        let text = match text.strip_suffix(".index") {
            Some(before) if kind_at_end(before).is_some() => before,
            Some(before) => without_variant(before)?,
            None => without_variant(text)?.strip_suffix(".index")?,
        };
        let (stem, kind) = kind_at_end(text)?;
        Some(Self {
            stem,
            kind,
            ending: &name[text.len()..],
        })
    }

    /// Returns the format of the shards that the index lists.
    #[must_use]
    pub fn kind(&self) -> FileKind {
        self.kind
    }

    /// Returns the part of the name before the format: `model` in
    /// `model.safetensors.index.json`.
    #[must_use]
    pub fn stem(&self) -> &'a str {
        self.stem
    }

    /// Returns whether the name has a variant before or after the word `index`.
    #[must_use]
    pub fn has_variant(&self) -> bool {
        self.ending != ".index.json"
    }

    /// Returns the name of the index once its shards have been converted to the
    /// format `to`.
    #[must_use]
    pub fn renamed(&self, to: FileKind) -> String {
        format!("{}.{}{}", self.stem, to.extension(), self.ending)
    }
}

/// Converts the name of a file or index from the format `from` to the format
/// `to`: `model.safetensors` becomes `model.zstn`. Returns `None` if the name
/// is not of the format `from`.
#[must_use]
pub fn renamed(name: &str, from: FileKind, to: FileKind) -> Option<String> {
    if let Some((stem, kind)) = kind_at_end(name) {
        return (kind == from).then(|| format!("{stem}.{}", to.extension()));
    }
    let index = IndexName::parse(name)?;
    (index.kind() == from).then(|| index.renamed(to))
}

/// Returns the format that the name of a file or of a shard index states.
#[must_use]
pub fn kind_of_name(name: &str) -> Option<FileKind> {
    let of_index = || Some(IndexName::parse(name)?.kind());
    kind_at_end(name).map(|(_, kind)| kind).or_else(of_index)
}

/// Splits a file name into its stem and its format; `None` without a known
/// extension.
fn kind_at_end(name: &str) -> Option<(&str, FileKind)> {
    let (stem, extension) = name.rsplit_once('.')?;
    let mut kinds = FileKind::FILES.iter();
    let kind = kinds.find(|kind| kind.extension() == extension)?;
    let has_name = !stem.is_empty() && !stem.ends_with('/');
    has_name.then_some((stem, *kind))
}

/// Removes a variant from the end of a name. A variant has no dot and no slash.
fn without_variant(name: &str) -> Option<&str> {
    let (before, variant) = name.rsplit_once('.')?;
    (!variant.is_empty() && !variant.contains('/')).then_some(before)
}
