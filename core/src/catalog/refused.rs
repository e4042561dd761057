//! The tensors of a file that cannot be read, and the reasons.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::{Error, sort};

/// Names of unreadable tensors with their errors, in any order.
pub(crate) type Refusals = Vec<(String, Error)>;

/// The unreadable tensors by name. It uses the same types of map as a catalog,
/// so that no further generic code is compiled.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refused {
    by_name: BTreeMap<String, usize>,
    errors: Vec<Error>,
}

impl Refused {
    /// Collects names with their errors. For a repeated name, the last error
    /// wins.
    pub(crate) fn new(all: Refusals) -> Self {
        let names = all.iter().map(|(name, _)| name.clone());
        Self {
            by_name: sort::map(names.zip(0..)),
            errors: all.into_iter().map(|(_, error)| error).collect(),
        }
    }

    /// Returns the error of the tensor called `name`, or `None` if it is not
    /// among the unreadable ones.
    pub(crate) fn get(&self, name: &str) -> Option<&Error> {
        self.by_name.get(name).map(|&number| &self.errors[number])
    }

    /// Returns all names and errors, sorted by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Error)> {
        let numbers = self.by_name.iter();
        numbers.map(|(name, &number)| (name.as_str(), &self.errors[number]))
    }
}
