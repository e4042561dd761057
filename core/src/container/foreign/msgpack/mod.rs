//! Arrays in msgpack, as Flax writes (docs/formats/msgpack.md): nested maps
//! whose values are extensions of msgpack. [`MsgpackWalk`] visits them once, and
//! skips the values of arrays, so that it needs only windows of the file.

mod array;
mod value;
mod walk;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

pub use super::window::{Walk, Window};
pub use array::MsgpackArray;
pub use walk::MsgpackWalk;

use super::names::Names;
use crate::{Error, Result, Rule};

/// The contents of a file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MsgpackFile {
    /// The arrays that can be read, with their names, in the order of the file.
    pub arrays: Vec<(String, MsgpackArray)>,
    /// The names of the other arrays, with the reason for each.
    pub refused: Vec<(String, Error)>,
    /// Numbers, truth values and texts by their names, as text.
    pub metadata: BTreeMap<String, String>,
}

impl MsgpackWalk {
    /// Returns the contents of the file after its end was reached. Arrays whose
    /// names are equal cannot be read.
    ///
    /// # Errors
    /// [`Limit`](crate::ErrorKind::Limit) if the names are too long.
    pub fn finish(self) -> Result<MsgpackFile> {
        let mut names = Names::new(&self.scopes, Rule::MsgpackName);
        let mut named = Vec::new();
        for found in self.found {
            let name = names.join(found.scope, Some(&found.key), found.at)?;
            named.push((name, found.at, found.array));
        }
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (name, ..) in &named {
            *counts.entry(name).or_default() += 1;
        }
        let repeated = named.iter().map(|(name, ..)| counts[name.as_str()] > 1);
        let repeated: Vec<bool> = repeated.collect();
        let mut file = MsgpackFile {
            arrays: Vec::new(),
            refused: Vec::new(),
            metadata: self.metadata,
        };
        for ((name, at, array), is_repeated) in named.into_iter().zip(repeated) {
            let array = match is_repeated {
                false => array,
                true => {
                    let detail = "another array of the file has the same name";
                    Err(Error::malformed(Rule::MsgpackName, detail).at(at))
                }
            };
            match array {
                Ok(array) => file.arrays.push((name, array)),
                Err(error) => {
                    let error = error.tensor(&name);
                    file.refused.push((name, error));
                }
            }
        }
        Ok(file)
    }
}
