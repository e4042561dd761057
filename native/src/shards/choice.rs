//! Chooses the files of a folder that are its checkpoint.

use std::collections::HashSet;

use zstn_core::catalog::{FileKind, GgufSetName, IndexName, has_extension, has_other_extension};
use zstn_core::container::safetensors::{KERAS_INDEX_SUFFIX, SHARD_INDEX_SUFFIX};

/// The file kinds that can be packed.
pub const PLAIN: &[FileKind] = &[FileKind::Safetensors];

/// The file kinds that packing produces: containers and deltas.
pub const PACKED: &[FileKind] = &[FileKind::Zstn, FileKind::Delta];

/// The file kinds that a delta can be made against: a plain file, and files that
/// restore a plain file.
pub const BASES: &[FileKind] = &[FileKind::Safetensors, FileKind::Zstn, FileKind::Delta];

/// The name that transformers gives to a checkpoint in PyTorch's format, and the end of
/// the names of indices of such files. Other names that end in `.bin` state no format.
const PYTORCH_MODEL: &str = "pytorch_model.bin";
const PYTORCH_INDEX_SUFFIX: &str = ".bin.index.json";

/// The file from which the checkpoint of a folder is opened.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Choice<'a> {
    /// An index of shards.
    Index(&'a str),
    /// A checkpoint in one file.
    File(&'a str),
}

/// Chooses a checkpoint among the names of a folder's files: the index of the first
/// kind that has one. Without any index, chooses from the files of the first kind that
/// has files: `model.KIND`, or the only file of that kind. An index with a variant in
/// its name, such as `fp16` after the word `index`, is chosen only if there is no other
/// index of its kind and no `model.KIND`. Returns `None` if no file is of these kinds.
///
/// Packed files of other formats, such as `model.gguf.zstn`, are chosen like the files
/// that they restore, unless those are in the folder. The first of several GGUF files of
/// a model represents all of them.
///
/// # Errors
/// A message for the user if there are several candidates.
pub(super) fn choose<'a>(
    names: &'a [String],
    kinds: &[FileKind],
) -> Result<Option<Choice<'a>>, String> {
    let all: HashSet<&str> = names.iter().map(String::as_str).collect();
    let (mut originals, mut others) = (Vec::new(), Vec::new());
    // The names of restored files that are not in the folder, and those of their packed files.
    let mut restored = Vec::new();
    let is_further = |name: &str| {
        let name = GgufSetName::parse(name).filter(|name| name.number() > 1);
        name.is_some_and(|name| all.contains(name.first().as_str()))
    };
    let reads_gguf = kinds.contains(&FileKind::Gguf);
    for name in names {
        if reads_gguf && is_further(name) {
            continue;
        }
        let ending = format!(".{}", FileKind::Zstn.extension());
        let of_original = name.strip_suffix(&ending);
        match of_original.filter(|name| has_other_extension(name)) {
            Some(original) => {
                originals.push(name.as_str());
                if !all.contains(original) {
                    restored.push((original, name.as_str()));
                }
            }
            None => others.push(name.as_str()),
        }
    }
    let (first, rest): (Vec<FileKind>, Vec<FileKind>) =
        kinds.iter().partition(|kind| BASES.contains(kind));
    if let Some(choice) = choose_among(&others, &first)? {
        return Ok(Some(choice));
    }
    let shown = restored.iter().map(|(original, _)| *original);
    let shown: Vec<&str> = others.iter().copied().chain(shown).collect();
    match choose_among(&shown, &rest)? {
        Some(Choice::File(chosen)) if !others.contains(&chosen) => {
            let found = restored.iter().find(|(original, _)| *original == chosen);
            Ok(found.map(|(_, packed)| Choice::File(packed)))
        }
        None => choose_among(&originals, kinds),
        found => Ok(found),
    }
}

fn choose_among<'a>(names: &[&'a str], kinds: &[FileKind]) -> Result<Option<Choice<'a>>, String> {
    let ending = |suffix: String| -> Vec<&'a str> {
        let names = names.iter().copied();
        names.filter(|name| name.ends_with(&suffix)).collect()
    };
    for kind in kinds {
        let mut found = indices(names.iter().copied(), *kind);
        let model = format!("model.{}", kind.extension());
        if found.iter().any(|(_, index)| !index.has_variant()) || names.contains(&&*model) {
            found.retain(|(_, index)| !index.has_variant());
        }
        let mut found: Vec<&str> = found.into_iter().map(|(name, _)| name).collect();
        match kind {
            FileKind::PyTorch => found.extend(ending(PYTORCH_INDEX_SUFFIX.into())),
            FileKind::Hdf5 => {
                let mut indices = ending(KERAS_INDEX_SUFFIX.into());
                indices.retain(|index| names.contains(&&*first_keras_shard(index)));
                found.extend(indices);
            }
            _ => {}
        }
        match &found[..] {
            [] => {}
            [index] => return Ok(Some(Choice::Index(index))),
            several => {
                return Err(format!(
                    "the folder contains several indices of shards ({}); name the one you mean",
                    several.join(", ")
                ));
            }
        }
    }
    for format in kinds {
        let kind = format.extension();
        let mut files = match BASES.contains(format) {
            true => ending(format!(".{kind}")),
            false => {
                let names = names.iter().copied();
                names.filter(|name| has_extension(name, *format)).collect()
            }
        };
        if *format == FileKind::PyTorch && files.is_empty() {
            files.extend(names.iter().filter(|name| **name == PYTORCH_MODEL));
        }
        let model = format!("model.{kind}");
        if let Some(model) = files.iter().find(|name| name.eq_ignore_ascii_case(&model)) {
            return Ok(Some(Choice::File(model)));
        }
        match &files[..] {
            [] => {}
            [file] => return Ok(Some(Choice::File(file))),
            several => {
                let index = match BASES.contains(format) {
                    true => format!(", or add the .{kind}{SHARD_INDEX_SUFFIX} that came with them"),
                    false => String::new(),
                };
                return Err(format!(
                    "the folder contains {} .{kind} files and no index that says how they belong \
                     together; name the file you mean{index}",
                    several.len()
                ));
            }
        }
    }
    Ok(None)
}

/// Returns the name of the first file that an index of Keras lists.
fn first_keras_shard(index: &str) -> String {
    let stem = index.strip_suffix(KERAS_INDEX_SUFFIX).unwrap_or(index);
    format!("{stem}_00000.weights.h5")
}

/// Chooses like [`choose`], for work on the whole folder, among files that are or restore
/// safetensors files. An index with a variant, or several indices, are refused: the work
/// then covers all files of the folder.
pub(super) fn choose_whole<'a>(
    names: &'a [String],
    kinds: &[FileKind],
) -> Result<Option<Choice<'a>>, String> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut found = kinds
        .iter()
        .map(|kind| indices(names.iter().copied(), *kind));
    match found.find(|indices| !indices.is_empty()).as_deref() {
        Some([(_, index)]) if !index.has_variant() => choose_among(&names, kinds),
        Some(_) => Err("the folder contains several checkpoints".into()),
        None => choose_among(&names, kinds),
    }
}

/// Returns the names of the shard indices of this kind, with their parsed names.
pub(super) fn indices<'a>(
    names: impl IntoIterator<Item = &'a str>,
    kind: FileKind,
) -> Vec<(&'a str, IndexName<'a>)> {
    let indices = names.into_iter().filter_map(|name| {
        let index = IndexName::parse(name)?;
        (index.kind() == kind).then_some((name, index))
    });
    indices.collect()
}

/// Returns the message for a folder without any file of these kinds.
pub(super) fn none_of(kinds: &[FileKind]) -> String {
    let mut endings: Vec<String> = Vec::new();
    for kind in kinds {
        let ending = format!(".{}", kind.extension());
        if !endings.contains(&ending) {
            endings.push(ending);
        }
    }
    let others = match kinds == PLAIN {
        true => " and no model file of another format",
        false => "",
    };
    format!(
        "the folder contains no {} file{others}",
        endings.join(" or ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_index_comes_first_then_the_model_then_the_only_file() {
        let folder = names(&[
            "consolidated.safetensors",
            "model-1.safetensors",
            "model.safetensors.index.json",
            "model.zstn",
        ]);
        assert_eq!(
            choose(&folder, PLAIN),
            Ok(Some(Choice::Index("model.safetensors.index.json")))
        );
        assert_eq!(
            choose(&folder, &[FileKind::Zstn]),
            Ok(Some(Choice::File("model.zstn")))
        );
        let folder = names(&["adapter.safetensors", "model.safetensors"]);
        assert_eq!(
            choose(&folder, PLAIN),
            Ok(Some(Choice::File("model.safetensors")))
        );
        let folder = names(&["m.zstn.index.fp16.json", "m.zstn.index.json"]);
        assert_eq!(
            choose(&folder, PACKED),
            Ok(Some(Choice::Index("m.zstn.index.json")))
        );
        let folder = names(&["m.zstn.index.fp16.json", "model.zstn"]);
        assert_eq!(
            choose(&folder, PACKED),
            Ok(Some(Choice::File("model.zstn")))
        );
        assert!(choose_whole(&folder, PACKED).is_err());
        let folder = names(&["config.json", "w.z4dm"]);
        assert_eq!(choose(&folder, PACKED), Ok(Some(Choice::File("w.z4dm"))));
    }

    #[test]
    fn packed_files_of_other_formats_come_last() {
        let folder = names(&["a.zstn", "model.gguf.zstn", "x.npy.zstn", "y.bin.zstn"]);
        for (last, expected) in [(4, "a.zstn"), (0, "model.gguf.zstn")] {
            let folder = match last {
                0 => &folder[1..],
                last => &folder[..last],
            };
            let chosen = choose(folder, FileKind::FILES);
            assert_eq!(chosen, Ok(Some(Choice::File(expected))));
        }
        let chosen = choose(&folder[3..], FileKind::FILES);
        assert_eq!(chosen, Ok(Some(Choice::File("y.bin.zstn"))));
        let folder = names(&["copied.gguf", "model.gguf.zstn", "x.npy.zstn"]);
        let chosen = choose(&folder, FileKind::FILES);
        assert_eq!(chosen, Ok(Some(Choice::File("model.gguf.zstn"))));
        assert!(choose(&folder[1..], PACKED).is_err());
    }

    #[test]
    fn the_first_of_several_gguf_files_represents_them() {
        let folder = names(&[
            "m-00001-of-00002.gguf",
            "m-00002-of-00002.gguf",
            "n-00002-of-00002.gguf",
        ]);
        let first = Ok(Some(Choice::File("m-00001-of-00002.gguf")));
        assert_eq!(choose(&folder[..2], FileKind::FILES), first);
        assert!(choose(&folder, FileKind::FILES).is_err());
        assert!(choose(&folder[1..], FileKind::FILES).is_err());
        let packed = names(&["m-00001-of-00002.gguf.zstn", "m-00002-of-00002.gguf.zstn"]);
        let first = Ok(Some(Choice::File("m-00001-of-00002.gguf.zstn")));
        assert_eq!(choose(&packed, FileKind::FILES), first);
        assert!(choose(&packed, PACKED).is_err());
    }

    #[test]
    fn a_pytorch_checkpoint_is_found_by_its_usual_names() {
        let folder = names(&[
            "optimizer.bin",
            "pytorch_model-00001-of-00002.bin",
            "pytorch_model.bin.index.json",
        ]);
        let index = Ok(Some(Choice::Index("pytorch_model.bin.index.json")));
        assert_eq!(choose(&folder, FileKind::FILES), index);
        assert_eq!(choose(&folder[..2], FileKind::FILES), Ok(None));
        let folder = names(&["not_pytorch_model.bin", "pytorch_model.bin"]);
        let file = Ok(Some(Choice::File("pytorch_model.bin")));
        assert_eq!(choose(&folder, FileKind::FILES), file);
    }

    #[test]
    fn an_index_of_keras_comes_before_its_files() {
        let folder = names(&["m.weights.json", "m_00000.weights.h5", "m_00001.weights.h5"]);
        let index = Ok(Some(Choice::Index("m.weights.json")));
        assert_eq!(choose(&folder, FileKind::FILES), index);
        assert!(choose(&folder[1..], FileKind::FILES).is_err());
        let folder = names(&["model.h5", "other.weights.json"]);
        let file = Ok(Some(Choice::File("model.h5")));
        assert_eq!(choose(&folder, FileKind::FILES), file);
    }

    #[test]
    fn a_folder_without_any_is_none() {
        let folder = names(&["config.json", "a.safetensors"]);
        assert_eq!(choose(&folder, PACKED), Ok(None));
        let sentence = none_of(PACKED);
        assert_eq!(sentence, "the folder contains no .zstn or .z4dm file");
    }

    #[test]
    fn what_is_not_clear_is_refused() {
        for (folder, sentence) in [
            (&["a.zstn", "b.zstn"][..], "2 .zstn files"),
            (
                &["a.zstn.index.json", "b.zstn.index.json"],
                "several indices",
            ),
            (
                &["a.zstn.index.fp16.json", "a.zstn.index.bf16.json"],
                "several indices",
            ),
        ] {
            let refusal = choose(&names(folder), PACKED).unwrap_err();
            assert!(refusal.contains(sentence), "{refusal}");
        }
    }
}
