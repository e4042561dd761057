//! The bases of a row, as a tree: every base may be a delta with bases of its own.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use zstn::internals::MAX_BASES;

use super::Row;
use super::plan::{is_digest, packed_name};

/// The bases of a delta: one, or the several sources of a merge. A container has none. The
/// whole tree has at most four bases.
///
/// In JSON, one base is a list of its key and the keys of its own bases, `["a", "b"]`. Several
/// sources are a list of such lists, `[["a", "b"], ["c"]]`, and may follow a key too:
/// `["d", ["a", "b"], ["c"]]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Value>", into = "Vec<Value>")]
pub struct Bases(Vec<Base>);

/// A base, with its own bases if it is a delta itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    key: String,
    bases: Bases,
}

impl Bases {
    /// Returns whether there is no base.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the base, or the sources, without their own bases.
    #[must_use]
    pub fn nearest(&self) -> &[Base] {
        &self.0
    }

    /// Returns every base, followed by its own bases. This is the order in which files are
    /// passed for packing and restoring. A base of several bases occurs several times.
    #[must_use]
    pub fn all(&self) -> Vec<&Base> {
        let each = self.0.iter();
        each.flat_map(|base| [vec![base], base.bases.all()].concat())
            .collect()
    }
}

impl FromIterator<Base> for Bases {
    fn from_iter<I: IntoIterator<Item = Base>>(bases: I) -> Self {
        Self(bases.into_iter().collect())
    }
}

impl Base {
    /// Returns the packed file with this key as a base, which has `bases` itself.
    #[must_use]
    pub fn new(key: &str, bases: Bases) -> Self {
        let key = key.into();
        Self { key, bases }
    }

    /// Returns the key of the packed file.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the base's own bases.
    #[must_use]
    pub fn bases(&self) -> &Bases {
        &self.bases
    }

    /// Returns the name of the packed file.
    #[must_use]
    pub fn packed_name(&self) -> String {
        packed_name(&self.key, !self.bases.is_empty())
    }
}

impl TryFrom<Vec<Value>> for Bases {
    type Error = String;

    fn try_from(items: Vec<Value>) -> Result<Self, String> {
        parse(&items, &mut 0)
    }
}

impl From<Bases> for Vec<Value> {
    fn from(Bases(mut bases): Bases) -> Self {
        let list = |base: Base| [vec![Value::String(base.key)], base.bases.into()].concat();
        match bases.len() {
            1 => bases.pop().map(list).unwrap_or_default(),
            _ => bases
                .into_iter()
                .map(|base| Value::Array(list(base)))
                .collect(),
        }
    }
}

/// Parses a list. `count` is the number of keys before it.
fn parse(items: &[Value], count: &mut usize) -> Result<Bases, String> {
    let base = |items: &[Value], count: &mut usize| {
        let Some((Value::String(key), rest)) = items.split_first() else {
            return Err(malformed());
        };
        *count += 1;
        if *count > MAX_BASES || !is_digest(key) {
            return Err(malformed());
        }
        Ok(Base::new(key, parse(rest, count)?))
    };
    match items {
        [] => Ok(Bases::default()),
        [Value::String(_), ..] => Ok(Bases(vec![base(items, count)?])),
        _ => items
            .iter()
            .map(|item| match item {
                Value::Array(items) => base(items, count),
                _ => Err(malformed()),
            })
            .collect(),
    }
}

fn malformed() -> String {
    format!(
        "bases has to be a list of at most {MAX_BASES} keys, or a list of such lists for the \
         sources of a merge"
    )
}

/// The bases of all keys in plans. A key that has the same bases in every place cannot be a
/// base of itself.
#[derive(Debug, Default)]
pub(crate) struct KnownBases(HashMap<String, Bases>);

impl KnownBases {
    /// Adds a row. Returns the reason for refusing it if a key has other bases in it than in
    /// a row before.
    pub(crate) fn add(&mut self, row: &Row) -> Result<(), String> {
        self.add_key(&row.key, &row.bases)?;
        let mut all = row.bases.all().into_iter();
        all.try_for_each(|base| self.add_key(&base.key, &base.bases))
    }

    fn add_key(&mut self, key: &str, bases: &Bases) -> Result<(), String> {
        match self.0.get(key) {
            Some(known) if known != bases => Err(format!(
                "{key} has other bases here than before; make the plan again"
            )),
            Some(_) => Ok(()),
            None => {
                self.0.insert(key.into(), bases.clone());
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use zstn_core::frame::select::Effort;

    use super::super::key_against;
    use super::*;

    fn read(json: &str) -> Bases {
        let bases: Bases = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&bases).unwrap(), json);
        bases
    }

    fn names(bases: &Bases) -> Vec<String> {
        bases.all().into_iter().map(Base::packed_name).collect()
    }

    #[test]
    fn bases_are_a_chain_or_a_tree() {
        let [a, b, c] = ["a", "b", "c"].map(|digit| digit.repeat(64));
        let chain = read(&format!(r#"["{a}","{b}"]"#));
        assert_eq!(names(&chain), [format!("{a}.z4dm"), format!("{b}.zstn")]);
        let merge = read(&format!(r#"[["{a}","{c}"],["{b}","{c}"]]"#));
        let [first, second] = [&a, &b].map(|key| format!("{key}.z4dm"));
        let last = format!("{c}.zstn");
        assert_eq!(names(&merge), [first, last.clone(), second, last]);

        // The same files in another tree are bases of another delta.
        let trees = [
            format!(r#"["{c}",["{a}"],["{b}"]]"#),
            format!(r#"[["{c}"],["{a}"],["{b}"]]"#),
            format!(r#"[["{c}","{a}"],["{b}"]]"#),
            format!(r#"["{c}","{a}","{b}"]"#),
        ];
        let key = |tree: &String| {
            let sha256 = "0".repeat(64);
            key_against(("a.safetensors", &sha256), Effort::Balanced, &read(tree))
        };
        let keys: std::collections::HashSet<String> = trees.iter().map(key).collect();
        assert_eq!(keys.len(), trees.len());
    }
}
