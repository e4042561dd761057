//! ONNX models (docs/formats/onnx.md): the tensors in their graphs, with values
//! in the file or in other files of its folder.
//!
//! A model is a message of Protocol Buffers: fields of nested messages, each
//! with its length. [`OnnxWalk`] visits them once and skips the values, so that
//! it needs only windows of the file. [`OnnxWalk::finish`] returns the tensors.

mod description;
mod element_type;
mod external;
mod protobuf;
mod tensor;
mod typed;
mod walk;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

pub use super::narrow::NarrowType;
pub use super::window::{Walk, Window};
pub use element_type::OnnxType;
pub use external::ExternalData;
pub use tensor::{OnnxPlace, OnnxTensor};
pub use walk::OnnxWalk;

use super::names::{Names, ScopeName};
use crate::{Error, Result, Rule};

/// The contents of a model.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OnnxModel {
    /// The tensors that can be read, in the order of the file.
    pub tensors: Vec<OnnxTensor>,
    /// The names of the other tensors, with the reason for each.
    pub refused: Vec<(String, Error)>,
    /// The producer, versions, operators and metadata, as text.
    pub metadata: Vec<(String, String)>,
}

impl OnnxWalk {
    /// Returns the contents of the model after the end of the file was reached.
    ///
    /// # Errors
    /// [`Rule::OnnxGraph`] for a file without a graph, and [`Rule::OnnxName`]
    /// for names that are not UTF-8, or that two tensors of the main graph
    /// share.
    pub fn finish(self) -> Result<OnnxModel> {
        if !self.has_graph {
            let detail = "the file has no graph, so it is not an ONNX model";
            return Err(Error::malformed(Rule::OnnxGraph, detail).at(0));
        }
        let mut names = Names::new(&self.scopes, Rule::OnnxName);
        let mut named = Vec::new();
        for found in self.found {
            let own = found.draft.name.as_ref().filter(|_| !found.is_scope);
            let own = own.map(|name| ScopeName::Text(name.clone()));
            let at = found.draft.range.start;
            let name = names.join(found.scope, own.as_ref(), at)?;
            named.push((name, found));
        }
        // For each name, the number of all tensors and of initializers of the main
        // graph.
        let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for (name, found) in &named {
            let (all, main) = counts.entry(name).or_default();
            *all += 1;
            *main += usize::from(found.scope == 0 && !found.is_scope);
            if *main > 1 {
                let detail = "the graph has two tensors of this name";
                let error = Error::malformed(Rule::OnnxName, detail);
                return Err(error.at(found.draft.range.start).tensor(name));
            }
        }
        let is_repeated = |name: &String| counts.get(name.as_str()).is_some_and(|n| n.0 > 1);
        let repeated: Vec<bool> = named.iter().map(|(name, _)| is_repeated(name)).collect();
        let mut model = OnnxModel {
            tensors: Vec::new(),
            refused: Vec::new(),
            metadata: self.description.entries(),
        };
        for ((name, found), is_repeated) in named.into_iter().zip(repeated) {
            let checked = match (found.refusal, is_repeated) {
                (Some(refusal), _) => Err(refusal.tensor(&name)),
                (None, true) => {
                    let detail = "another tensor of the model has the same name";
                    let error = Error::malformed(Rule::OnnxName, detail);
                    Err(error.at(found.draft.range.start).tensor(&name))
                }
                (None, false) => found.draft.finish(name.clone()),
            };
            match checked {
                Ok(tensor) => model.tensors.push(tensor),
                Err(error) => model.refused.push((name, error)),
            }
        }
        Ok(model)
    }
}

/// Decodes values that are numbers in the fields of a tensor's message
/// (docs/formats/onnx.md 4) to `count` little-endian elements.
///
/// # Errors
/// [`Rule::OnnxValue`] for a number that is no element of the type, and
/// [`Rule::OnnxLength`] for another number of elements.
pub fn decode_typed(message: &[u8], element: OnnxType, count: u64) -> Result<Vec<u8>> {
    typed::decode(message, element, count)
}
