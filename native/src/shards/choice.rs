//! Choosing the files of a folder that are its checkpoint.

use zstn_core::catalog::Kind;
use zstn_core::container::safetensors::SHARD_INDEX_SUFFIX;

/// The kind that is packed.
pub const PLAIN: &[Kind] = &[Kind::Safetensors];

/// The kinds that packing makes: containers and deltas.
pub const PACKED: &[Kind] = &[Kind::Zstn, Kind::Delta];

/// The kinds that a delta can be made against: a plain file, and what restores
/// one.
pub const BASES: &[Kind] = &[Kind::Safetensors, Kind::Zstn, Kind::Delta];

/// The file that leads to the checkpoint.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Choice<'a> {
    /// An index of shards.
    Index(&'a str),
    /// A checkpoint in one file.
    File(&'a str),
}

/// Chooses among the names of a folder's files by the extensions that count,
/// the first that is there: an index, else `model.KIND`, else the only file of
/// the kind. Returns `None` if no file is of these kinds. The error says what to
/// do.
pub(super) fn choose<'a>(
    names: &'a [String],
    kinds: &[Kind],
) -> Result<Option<Choice<'a>>, String> {
    let ending = |suffix: String| -> Vec<&'a str> {
        let names = names.iter().map(String::as_str);
        names.filter(|name| name.ends_with(&suffix)).collect()
    };
    for kind in kinds.iter().map(|kind| kind.extension()) {
        match &ending(format!(".{kind}{SHARD_INDEX_SUFFIX}"))[..] {
            [] => {}
            [index] => return Ok(Some(Choice::Index(index))),
            several => {
                return Err(format!(
                    "the folder holds several indices of shards ({}); name the one you mean",
                    several.join(", ")
                ));
            }
        }
    }
    for kind in kinds.iter().map(|kind| kind.extension()) {
        let files = ending(format!(".{kind}"));
        if let Some(model) = files.iter().find(|name| **name == format!("model.{kind}")) {
            return Ok(Some(Choice::File(model)));
        }
        match &files[..] {
            [] => {}
            [file] => return Ok(Some(Choice::File(file))),
            several => {
                return Err(format!(
                    "the folder holds {} .{kind} files and no index that says how they belong \
                     together; name the file you mean, or add the .{kind}{SHARD_INDEX_SUFFIX} that \
                     came with them",
                    several.len()
                ));
            }
        }
    }
    Ok(None)
}

/// Returns the sentence about a folder without a file of these kinds.
pub(super) fn none_of(kinds: &[Kind]) -> String {
    let mut endings: Vec<String> = Vec::new();
    for kind in kinds {
        let ending = format!(".{}", kind.extension());
        if !endings.contains(&ending) {
            endings.push(ending);
        }
    }
    format!("the folder holds no {} file", endings.join(" or "))
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
            choose(&folder, &[Kind::Zstn]),
            Ok(Some(Choice::File("model.zstn")))
        );
        let folder = names(&["adapter.safetensors", "model.safetensors"]);
        assert_eq!(
            choose(&folder, PLAIN),
            Ok(Some(Choice::File("model.safetensors")))
        );
        let folder = names(&["config.json", "w.z4dm"]);
        assert_eq!(choose(&folder, PACKED), Ok(Some(Choice::File("w.z4dm"))));
    }

    #[test]
    fn a_folder_without_any_is_none() {
        let folder = names(&["config.json", "a.safetensors"]);
        assert_eq!(choose(&folder, PACKED), Ok(None));
        let sentence = none_of(PACKED);
        assert_eq!(sentence, "the folder holds no .zstn or .z4dm file");
    }

    #[test]
    fn what_is_not_clear_is_refused() {
        for (folder, sentence) in [
            (&["a.zstn", "b.zstn"][..], "2 .zstn files"),
            (
                &["a.zstn.index.json", "b.zstn.index.json"],
                "several indices",
            ),
        ] {
            let refusal = choose(&names(folder), PACKED).unwrap_err();
            assert!(refusal.contains(sentence), "{refusal}");
        }
    }
}
