//! Names of tensors inside nested parts of a file: the names of these parts are
//! joined by `/` (docs/formats/onnx.md 5, docs/formats/msgpack.md 2).

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::limits::JOINED_NAMES_LEN_BYTES;
use crate::{Error, Result, Rule};

/// A part of a file that contains tensors, such as a node of a graph, or a map.
#[derive(Debug, Clone)]
pub(in crate::container::foreign) struct Scope {
    /// The number of the scope that contains this one.
    pub parent: usize,
    pub name: ScopeName,
}

#[derive(Debug, Clone)]
pub(in crate::container::foreign) enum ScopeName {
    /// The whole file, which adds nothing to names.
    Root,
    Text(Vec<u8>),
    /// The number of a part that has no name.
    Number(u64),
}

impl Scope {
    pub fn root() -> Self {
        Self {
            parent: 0,
            name: ScopeName::Root,
        }
    }
}

/// Builds the names of tensors.
pub(in crate::container::foreign) struct Names<'a> {
    scopes: &'a [Scope],
    /// The rule that names which are not UTF-8 break.
    rule: Rule,
    /// The total length of all names so far.
    len_bytes: usize,
}

impl<'a> Names<'a> {
    pub fn new(scopes: &'a [Scope], rule: Rule) -> Self {
        Self {
            scopes,
            rule,
            len_bytes: 0,
        }
    }

    /// Continues after names of `len_bytes` in total.
    pub fn after(mut self, len_bytes: usize) -> Self {
        self.len_bytes = len_bytes;
        self
    }

    /// Returns the total length of all names so far.
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Returns the name of a tensor in `scope`, whose own name is `last` if it
    /// has one.
    ///
    /// # Errors
    /// The rule for a name that is not UTF-8, and [`Limit`](crate::ErrorKind::Limit) if all names together are longer than
    /// [`JOINED_NAMES_LEN_BYTES`].
    pub fn join(&mut self, scope: usize, last: Option<&ScopeName>, at: u64) -> Result<String> {
        let scopes = self.scopes;
        let mut parts = Vec::new();
        let mut scope = scope;
        let mut next = last.or_else(|| scopes.get(scope).map(|found| &found.name));
        if last.is_none() {
            scope = scopes.get(scope).map_or(0, |found| found.parent);
        }
        while let Some(name) = next {
            match name {
                ScopeName::Root => break,
                ScopeName::Text(text) => parts.push(self.text(text, at)?),
                ScopeName::Number(number) => parts.push(number.to_string()),
            }
            let found = scopes.get(scope);
            next = found.map(|found| &found.name);
            scope = found.map_or(0, |found| found.parent);
        }
        parts.reverse();
        Ok(parts.join("/"))
    }

    fn text(&mut self, text: &[u8], at: u64) -> Result<String> {
        self.len_bytes = self.len_bytes.saturating_add(text.len());
        if self.len_bytes > JOINED_NAMES_LEN_BYTES {
            let detail = format!(
                "the names of all tensors have more than {JOINED_NAMES_LEN_BYTES} bytes, the most \
                 that are read"
            );
            return Err(Error::limit(detail).at(at));
        }
        let text = core::str::from_utf8(text);
        let text = text
            .map_err(|_| Error::malformed(self.rule, "the name of a tensor is not UTF-8").at(at));
        text.map(Into::into)
    }
}
