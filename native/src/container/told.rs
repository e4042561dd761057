//! Reports decoded tensors to the progress.

use std::collections::HashMap;

use super::{Container, Part};
use crate::finished::{self, Listed};
use crate::{Progress, Result};

/// Reports the decoded tensors of a container.
pub(super) struct Finished<'a> {
    container: &'a Container<'a>,
    progress: &'a dyn Progress,
    listed: Listed,
    /// The numbers of the alias records, by the number of the record that they refer
    /// to.
    aliases: HashMap<usize, Vec<usize>>,
}

impl<'a> Finished<'a> {
    /// Returns `None` if the progress does not want to receive tensors.
    pub(super) fn new(
        container: &'a Container<'a>,
        progress: &'a dyn Progress,
    ) -> Result<Option<Self>> {
        let tail = container.tail.as_ref();
        let Some(tail) = tail.filter(|_| progress.wants_tensors()) else {
            return Ok(None);
        };
        let mut aliases: HashMap<usize, Vec<usize>> = HashMap::new();
        for number in 0..tail.index.records().len() {
            let owner = tail.index.frame(number).0;
            if owner != number {
                aliases.entry(owner).or_default().push(number);
            }
        }
        let listed = Listed::of(&container.header()?, container.prefix.data_len_bytes);
        Ok(Some(Self {
            container,
            progress,
            listed,
            aliases,
        }))
    }

    /// Reports that the frame of `part`, which stores its tensor as `storage`
    /// describes, has been decoded, and reports all aliases of its tensor.
    pub(super) fn tell(&self, part: &Part, storage: String) {
        let Some(tail) = &self.container.tail else {
            return;
        };
        let records = tail.index.records();
        let len_bytes = part.len_bytes();
        let tell = |number: usize, storage: String, packed_bytes: u64| {
            let name = &records[number].name;
            let tensor = self.listed.finished(name, len_bytes, storage, packed_bytes);
            self.progress.tensor(&tensor);
        };
        tell(part.number, storage, part.place.end - part.place.start);
        for &number in self.aliases.get(&part.number).into_iter().flatten() {
            tell(number, finished::alias(&records[part.number].name), 0);
        }
    }
}
