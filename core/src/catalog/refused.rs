//! Tensors that cannot be read, and why.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::{Error, sort};

/// Tensors that cannot be read, by name, in any order.
pub(crate) type Refusals = Vec<(String, Error)>;

/// Names of tensors that cannot be read, each with its error. It is made of the
/// same maps as a catalog, so that it takes no code of its own.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refused {
    by_name: BTreeMap<String, usize>,
    errors: Vec<Error>,
}

impl Refused {
    /// Takes names with their errors; of a repeated name the last one counts.
    pub(crate) fn new(all: Refusals) -> Self {
        let names = all.iter().map(|(name, _)| name.clone());
        Self {
            by_name: sort::map(names.zip(0..)),
            errors: all.into_iter().map(|(_, error)| error).collect(),
        }
    }

    /// Returns why the tensor called `name` cannot be read, if it is here.
    pub(crate) fn get(&self, name: &str) -> Option<&Error> {
        self.by_name.get(name).map(|&number| &self.errors[number])
    }

    /// Returns all of them, sorted by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Error)> {
        let numbers = self.by_name.iter();
        numbers.map(|(name, &number)| (name.as_str(), &self.errors[number]))
    }
}
