//! The chain of a delta: the checkpoints that have to be read to restore it.

use std::{fmt, slice};

use serde_json::{Value, json};
use zstn::Reader;
use zstn::internals::MAX_BASES;

use super::super::size;
use super::stored;

/// The delta, its base, the base of this base, and so on, as far as they are given.
pub struct Chain {
    links: Vec<Link>,
    /// True if no base is missing.
    is_complete: bool,
}

/// A checkpoint of a chain.
struct Link {
    name: String,
    kind: &'static str,
    packed_bytes: u64,
    original_bytes: u64,
}

impl Chain {
    /// Returns the chain of the delta `reader` and the bases that were given, or `None` if
    /// no base is needed.
    pub fn of(reader: &Reader) -> Option<Self> {
        reader.model().needs_base().then_some(())?;
        let readers = links(reader);
        let mut all = readers.iter();
        let is_complete = all.all(|one| one.base().is_some() || !one.model().needs_base());
        Some(Self {
            links: readers.into_iter().map(Link::of).collect(),
            is_complete,
        })
    }

    fn len_bytes(&self) -> u64 {
        let lens = self.links.iter().map(|link| link.packed_bytes);
        lens.fold(0, u64::saturating_add)
    }

    /// Returns the length of each checkpoint and its name, in words.
    pub fn reads(&self) -> impl Iterator<Item = String> {
        let links = self.links.iter();
        links.map(|link| format!("{} of {}", size::bytes(link.packed_bytes), link.name))
    }

    /// Adds the keys about the chain to a description. They are `null` if no base is
    /// needed.
    pub fn add_to(chain: Option<&Self>, json: &mut Value) {
        json["chain_checkpoints"] = chain.map(|chain| chain.links.len()).into();
        json["chain_complete"] = chain.map(|chain| chain.is_complete).into();
        json["chain_bytes"] = chain.map(Self::len_bytes).into();
        json["chain"] = chain.map_or(Value::Null, |chain| {
            let links = chain.links.iter();
            links.map(Link::json).collect()
        });
    }
}

/// Returns a checkpoint, its base or the checkpoints from which its base is computed, their
/// own bases, and so on.
fn links(reader: &Reader) -> Vec<&Reader> {
    let mut all = vec![reader];
    if let Some(base) = reader.base().map(stored) {
        let bases = match base.merged_from() {
            [] => slice::from_ref(base),
            sources => sources,
        };
        all.extend(bases.iter().map(stored).flat_map(links));
    }
    all
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, bytes) = (self.links.len(), size::bytes(self.len_bytes()));
        let most = MAX_BASES + 1;
        match self.is_complete {
            true => write!(
                f,
                "{count} checkpoints of at most {most}, {bytes}, are read to restore it"
            ),
            false => write!(
                f,
                "at least {} checkpoints of at most {most}; {bytes} without the base that is \
                 not given (--base)",
                count + 1
            ),
        }
    }
}

impl Link {
    fn of(reader: &Reader) -> Self {
        let model = reader.model();
        Self {
            name: reader.name().to_owned(),
            kind: model.kind().name(),
            packed_bytes: model.len_bytes(),
            original_bytes: size::original_bytes(model, None),
        }
    }

    fn json(&self) -> Value {
        json!({
            "input": self.name,
            "kind": self.kind,
            "packed_bytes": self.packed_bytes,
            "original_bytes": self.original_bytes,
        })
    }
}
