//! The names of checkpoint files: names of shard indices and of GGUF files of one
//! model, and how packing changes a name (docs/formats/sharded.md 4). `tests/names.json` contains
//! examples that the tests of all languages run.
//!
//! The case of an extension does not matter where a name only states a format. Names of
//! safetensors files and of their indices are converted only if they are in lower case,
//! because their packed names do not keep the spelling.

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

/// The name of one of several GGUF files that contain a model,
/// `STEM-00001-of-00003.gguf`, or the name of its packed file
/// (docs/formats/gguf.md 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GgufSetName<'a> {
    stem: &'a str,
    number: u32,
    count: u32,
    ending: &'a str,
}

impl<'a> GgufSetName<'a> {
    /// Parses the name or the path of a file. Returns `None` for any other name.
    #[must_use]
    pub fn parse(name: &'a str) -> Option<Self> {
        let whole = name.strip_suffix(".zstn").unwrap_or(name);
        let (numbered, extension) = whole.rsplit_once('.')?;
        if !is_extension(extension, FileKind::Gguf) {
            return None;
        }
        let (before, count) = numbered.rsplit_once("-of-")?;
        let (stem, number) = before.rsplit_once('-')?;
        let (number, count) = (five_digits(number)?, five_digits(count)?);
        let has_name = !stem.is_empty() && !stem.ends_with('/');
        (has_name && (1..=count).contains(&number)).then_some(Self {
            stem,
            number,
            count,
            ending: name.get(numbered.len()..)?,
        })
    }

    /// Returns the number of the file, from 1.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the number of files.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns whether this is the first of several files, by which a model is opened.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.number == 1 && self.count > 1
    }

    /// Returns the name of the first file.
    #[must_use]
    pub fn first(&self) -> String {
        self.of_number(1)
    }

    /// Returns the names of all files but this one, in order.
    pub fn others(self) -> impl Iterator<Item = String> + use<'a> {
        let numbers = (1..=self.count).filter(move |number| *number != self.number);
        numbers.map(move |number| self.of_number(number))
    }

    fn of_number(&self, number: u32) -> String {
        let Self {
            stem,
            count,
            ending,
            ..
        } = self;
        format!("{stem}-{number:05}-of-{count:05}{ending}")
    }
}

fn five_digits(text: &str) -> Option<u32> {
    let is_number = text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
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

/// The extensions of files that are packed with a virtual header, for names whose file
/// is not read.
const OTHER_EXTENSIONS: &[&str] = &[
    "bin", "ckpt", "gauss", "gguf", "h5", "keras", "msgpack", "nemo", "npy", "npz", "onnx", "pt",
    "pth", "tflite", "zt",
];

/// Returns the name of the packed file of the file called `name`: `model.zstn` for
/// `model.safetensors`, and `model.gguf.zstn` for `model.gguf`
/// (docs/formats/zstn-virtual-header.md 1). Returns `None` for other extensions.
#[must_use]
pub fn packed_name(name: &str) -> Option<String> {
    match has_other_extension(name) {
        true => Some(format!("{name}.{}", FileKind::Zstn.extension())),
        false => renamed(name, FileKind::Safetensors, FileKind::Zstn),
    }
}

/// Returns the name of the file that the packed file called `name` restores, the inverse
/// of [`packed_name`]. Returns `None` for other names.
#[must_use]
pub fn restored_name(name: &str) -> Option<String> {
    let whole = name
        .strip_suffix(".zstn")
        .filter(|name| has_other_extension(name));
    match whole {
        Some(whole) => Some(whole.into()),
        None => renamed(name, FileKind::Zstn, FileKind::Safetensors),
    }
}

/// Returns whether a file called `name` is packed with a virtual header, if its content
/// is what the extension states: `model.gguf`, but neither `model.safetensors` nor
/// `config.json`.
#[must_use]
pub fn has_other_extension(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(stem, extension)| {
        let has_name = !stem.is_empty() && !stem.ends_with('/');
        let mut others = OTHER_EXTENSIONS.iter();
        has_name && others.any(|other| extension.eq_ignore_ascii_case(other))
    })
}

/// Returns whether the name of a file has the extension of the format `kind`, in any
/// case.
#[must_use]
pub fn has_extension(name: &str, kind: FileKind) -> bool {
    name.rsplit_once('.').is_some_and(|(stem, extension)| {
        let has_name = !stem.is_empty() && !stem.ends_with('/');
        has_name && is_extension(extension, kind)
    })
}

fn is_extension(extension: &str, kind: FileKind) -> bool {
    extension.eq_ignore_ascii_case(kind.extension())
}

/// Returns the format that the name of a file or of a shard index states.
#[must_use]
pub fn kind_of_name(name: &str) -> Option<FileKind> {
    let of_index = || Some(IndexName::parse(name)?.kind());
    let mut kinds = FileKind::FILES.iter().copied();
    let of_file = kinds.find(|kind| has_extension(name, *kind));
    of_file.or_else(of_index)
}

/// Splits a file name into its stem and its format; `None` without a known
/// extension in lower case.
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

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn files_of_one_gguf_model_name_each_other() {
        let name = GgufSetName::parse("a/m-of-x-00002-of-00003.gguf.zstn").expect("a name");
        assert_eq!(
            (name.number(), name.count(), name.is_first()),
            (2, 3, false)
        );
        assert_eq!(name.first(), "a/m-of-x-00001-of-00003.gguf.zstn");
        let loud = GgufSetName::parse("M-00002-of-00002.GGUF").expect("a name");
        assert_eq!(loud.first(), "M-00001-of-00002.GGUF");
        let others: Vec<String> = name.others().collect();
        assert_eq!(others, [name.first(), name.of_number(3)]);
        for other in [
            "m.gguf",
            "m-00001-of-00002.safetensors",
            "m-00003-of-00002.gguf",
            "m-00000-of-00002.gguf",
            "m-1-of-2.gguf",
            "m-+0001-of-00002.gguf",
            "a/-00001-of-00002.gguf",
            "-00001-of-00002.gguf",
        ] {
            assert_eq!(GgufSetName::parse(other), None, "{other}");
        }
        let only = GgufSetName::parse("m-00001-of-00001.gguf").expect("a name");
        assert!(!only.is_first());
    }

    #[test]
    fn packed_names_are_reversed() {
        for (name, packed) in [
            ("a/model.safetensors", "a/model.zstn"),
            ("model.safetensors.index.json", "model.zstn.index.json"),
            ("a.b/model.gguf", "a.b/model.gguf.zstn"),
            ("x.npy", "x.npy.zstn"),
            ("MODEL.GGUF", "MODEL.GGUF.zstn"),
            ("a/Model.Pt", "a/Model.Pt.zstn"),
        ] {
            assert_eq!(packed_name(name).as_deref(), Some(packed));
            assert_eq!(restored_name(packed).as_deref(), Some(name));
        }
        assert_eq!(packed_name("a/.gguf"), None);
        assert_eq!(packed_name("README.md"), None);
        // The packed name would not keep the spelling.
        assert_eq!(packed_name("MODEL.SAFETENSORS"), None);
        assert_eq!(
            kind_of_name("MODEL.SAFETENSORS"),
            Some(FileKind::Safetensors)
        );
        assert_eq!(
            restored_name("v1.2.zstn").as_deref(),
            Some("v1.2.safetensors")
        );
    }
}
