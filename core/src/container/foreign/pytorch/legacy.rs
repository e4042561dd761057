//! PyTorch files from before version 1.6: five pickles, then the storages
//! (docs/formats/pytorch.md 4).

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::super::PYTORCH_MAGIC;
use super::Checkpoint;
use super::listing::list;
use super::machine::Machine;
use super::value::{Object, Value};
use crate::limits::PICKLE_LEN_BYTES;
use crate::{Error, Result, Rule};

/// The version of the format.
const PROTOCOL: i64 = 1001;

/// The length of the number of elements in front of each storage.
const COUNT_LEN_BYTES: u64 = 8;

/// What the beginning of a file contains.
pub(crate) enum ParsedLegacy {
    /// The tensors, and the place of each storage.
    Complete(Checkpoint, Vec<Range<u64>>),
    /// The pickles require the bytes up to this offset, or more.
    Needs(u64),
}

fn refuse(detail: impl Into<Cow<'static, str>>) -> Error {
    Error::malformed(Rule::PyTorchLegacy, detail)
}

/// Parses the pickles in `head`, the first bytes of a file of `file_len_bytes`.
///
/// # Errors
/// [`Rule::PyTorchLegacy`] if the pickles are not the specified ones, or the storages do
/// not fit the file.
pub(crate) fn parse(head: &[u8], file_len_bytes: u64) -> Result<ParsedLegacy> {
    let have = head.len() as u64;
    match pickles(head) {
        Ok(pickles) => {
            let (checkpoint, places) = pickles.places(head, file_len_bytes)?;
            Ok(ParsedLegacy::Complete(checkpoint, places))
        }
        Err(error) if error.rule() != Some(Rule::Truncated) => Err(error),
        Err(_) if have >= file_len_bytes => Err(refuse("the file ends inside its pickles")),
        Err(_) if have >= PICKLE_LEN_BYTES => {
            let detail = format!("the pickles of the file have over {PICKLE_LEN_BYTES} bytes");
            Err(Error::limit(detail))
        }
        // At least half as much again, so that a large pickle takes few requests.
        Err(_) => Ok(ParsedLegacy::Needs(
            (have + have / 2 + 1).min(file_len_bytes),
        )),
    }
}

struct Pickles {
    checkpoint: Checkpoint,
    /// The keys of all storages, in the order of the file.
    keys: Vec<String>,
    /// The lengths in bytes of the storages, and those of their elements, by key.
    storages: BTreeMap<String, (u64, u64)>,
    /// The offset of the first storage.
    end: u64,
}

fn pickles(head: &[u8]) -> Result<Pickles> {
    let mut at = PYTORCH_MAGIC.len() as u64;
    let mut next = || {
        let rest = head.get(crate::bytes::index(at)..).unwrap_or_default();
        let (machine, root, len_bytes) = Machine::run(rest).map_err(|error| error.within(at))?;
        at += len_bytes;
        Ok((machine, root))
    };
    let (_, version) = next()?;
    if version != Value::Int(PROTOCOL) {
        return Err(refuse("this version of PyTorch's file format is not known"));
    }
    let (system, root) = next()?;
    let Some(Object::Dict(entries)) = system.object(root) else {
        return Err(refuse("the description of the system is no dict"));
    };
    if entries.iter().any(|(key, value)| {
        system.text(*key) == Some("little_endian") && *value == Value::Bool(false)
    }) {
        let detail = "the file was written by a big-endian machine, which versions of PyTorch \
                      treat differently. Load it with PyTorch, and save it again";
        return Err(refuse(detail));
    }
    let (machine, root) = next()?;
    let (names, listed) = next()?;
    let keys = names.sequence(listed).map(|keys| {
        let keys = keys.iter().map(|key| names.text(*key).map(String::from));
        keys.collect::<Option<Vec<String>>>()
    });
    let keys = keys.flatten();
    let keys = keys.ok_or_else(|| refuse("the keys of the storages are not a list of text"))?;
    let storages = machine.storages()?;
    Ok(Pickles {
        checkpoint: list(machine, root, false)?,
        keys,
        storages,
        end: at,
    })
}

impl Pickles {
    /// Computes the places of the listed storages, and compares their numbers of
    /// elements with those in `head`.
    fn places(self, head: &[u8], file_len_bytes: u64) -> Result<(Checkpoint, Vec<Range<u64>>)> {
        let mut at = self.end;
        let mut places = BTreeMap::new();
        for key in &self.keys {
            let storage = self.storages.get(key);
            let storage = storage.ok_or_else(|| refuse("no tensor has a storage of the file"))?;
            let (len_bytes, width) = *storage;
            let start = at.saturating_add(COUNT_LEN_BYTES);
            let end = start.saturating_add(len_bytes);
            if end > file_len_bytes {
                return Err(refuse("the storages end after the end of the file").at(at));
            }
            let count = head.get(crate::bytes::index(at)..crate::bytes::index(start));
            let count = count.and_then(|bytes| bytes.first_chunk().copied());
            let count = count.map(u64::from_le_bytes);
            if count.is_some_and(|count| count.checked_mul(width) != Some(len_bytes)) {
                let detail = "a storage has another number of elements than its tensors state";
                return Err(refuse(detail).at(at));
            }
            if places.insert(key.as_str(), start..end).is_some() {
                return Err(refuse("two storages have one key").at(at));
            }
            at = end;
        }
        let listed = self.checkpoint.storages.iter().map(|storage| {
            let place = places.get(storage.key.as_str()).cloned();
            place.ok_or_else(|| refuse("the storage of a tensor is not in the file"))
        });
        let listed = listed.collect::<Result<Vec<_>>>()?;
        Ok((self.checkpoint, listed))
    }
}
