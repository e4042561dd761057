//! Finds the tensors of a model in one pass over its messages
//! (docs/formats/onnx.md 1, 2 and 5). Values are skipped by their length.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use super::description::Description;
use super::protobuf::{Field, FieldValue, read_field, refuse};
use super::tensor::Draft;
use crate::container::foreign::names::{Scope, ScopeName};
use crate::container::foreign::window::{Read, Stop, Walk, Window};
use crate::limits::{ONNX_GRAPHS, ONNX_TENSORS};
use crate::{Error, Result, Rule};

mod fields;

/// A tensor in the model, before its name is known.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// The number of the scope that it belongs to.
    pub scope: usize,
    /// The reason why the tensor cannot be read, if the walk has found one.
    pub refusal: Option<Error>,
    pub draft: Box<Draft>,
    /// True if the tensor has the name of its scope, since it is the value of an
    /// attribute.
    pub is_scope: bool,
}

/// A message that the walk is inside of.
#[derive(Debug, Clone)]
struct Frame {
    message: Message,
    /// The offset of its end in the file.
    end: u64,
}

#[derive(Debug, Clone)]
enum Message {
    Model,
    /// The graphs for training.
    Training {
        scope: usize,
        found_before: usize,
    },
    /// A graph, or a function, which has nodes too.
    Graph {
        scope: usize,
        nodes: u64,
        /// The number of graphs that it is in, including itself.
        depth: usize,
        is_function: bool,
        /// The number of tensors found before it, if it has a scope of its own.
        found_before: Option<usize>,
    },
    Node {
        scope: usize,
        attributes: u64,
        depth: usize,
        found_before: usize,
    },
    Attribute {
        scope: usize,
        items: u64,
        depth: usize,
        found_before: usize,
    },
    Tensor {
        draft: Box<Draft>,
        role: TensorRole,
    },
    /// A sparse tensor. Its name is the name of its values.
    Sparse {
        scope: usize,
        is_scope: bool,
        values: Box<Draft>,
    },
    Entry {
        key: Vec<u8>,
        value: Vec<u8>,
        version: u64,
        role: EntryRole,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TensorRole {
    Listed { scope: usize, is_scope: bool },
    SparseValues,
    SparseOther,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryRole {
    /// An entry of `metadata_props`.
    Metadata,
    /// An entry of `opset_import`.
    OperatorSet,
    /// An entry of `external_data`.
    External,
}

/// A pass over the messages of a model.
#[derive(Debug, Clone, Default)]
pub struct OnnxWalk {
    at: u64,
    is_begun: bool,
    stack: Vec<Frame>,
    pub(super) has_graph: bool,
    pub(super) scopes: Vec<Scope>,
    pub(super) found: Vec<Found>,
    pub(super) description: Description,
}

impl Walk for OnnxWalk {
    fn position(&self) -> u64 {
        self.at
    }

    fn walk(&mut self, window: &Window) -> Result<Option<Range<u64>>> {
        if !self.is_begun {
            self.is_begun = true;
            self.scopes.push(Scope::root());
            self.stack.push(Frame {
                message: Message::Model,
                end: window.file_len_bytes(),
            });
        }
        loop {
            let Some(frame) = self.stack.last() else {
                return Ok(None);
            };
            if frame.end <= self.at {
                self.leave()?;
                continue;
            }
            match self.step(window, frame.end) {
                Ok(()) => {}
                Err(Stop::Needs(range)) => return Ok(Some(range)),
                Err(Stop::Refused(error)) => return Err(error),
            }
        }
    }
}

impl OnnxWalk {
    /// Reads the next field of the innermost message. The state only changes
    /// once all bytes that the field requires have been read.
    fn step(&mut self, window: &Window, end: u64) -> Read<()> {
        let field = read_field(window, self.at, end)?;
        let entered = match self.stack.last().map(|frame| &frame.message) {
            Some(Message::Model) => self.model_field(window, &field)?,
            Some(&Message::Training { scope, .. }) => match field.number {
                1 | 2 => self.graph(scope, 0)?,
                _ => None,
            },
            Some(&Message::Graph {
                scope,
                nodes,
                depth,
                is_function,
                ..
            }) => match (field.number, is_function) {
                (1, false) | (7, true) => {
                    let child = self.scope(scope, ScopeName::Number(nodes));
                    if let Some(Message::Graph { nodes, .. }) = self.top() {
                        *nodes += 1;
                    }
                    self.description.add_node();
                    Some(Message::Node {
                        scope: child,
                        attributes: 0,
                        depth,
                        found_before: self.found.len(),
                    })
                }
                (5, false) => self.tensor(&field, scope, false),
                (15, false) => Some(sparse(scope, false)),
                (1, true) => {
                    self.name_scope(window, scope, &field)?;
                    None
                }
                _ => None,
            },
            Some(Message::Node { .. }) => self.node_field(window, &field)?,
            Some(Message::Attribute { .. }) => self.attribute_field(window, &field)?,
            Some(Message::Tensor { .. }) => self.tensor_field(window, &field)?,
            Some(Message::Sparse { .. }) => match field.number {
                1 => self.part(&field, TensorRole::SparseValues),
                2 => self.part(&field, TensorRole::SparseOther),
                _ => None,
            },
            Some(Message::Entry { .. }) => self.entry_field(window, &field)?,
            None => None,
        };
        match (entered, &field.value) {
            (Some(message), FieldValue::Bytes(range)) => {
                self.stack.push(Frame {
                    message,
                    end: range.end,
                });
                self.at = range.start;
            }
            _ => self.at = field.end,
        }
        Ok(())
    }

    fn top(&mut self) -> Option<&mut Message> {
        self.stack.last_mut().map(|frame| &mut frame.message)
    }

    fn scope(&mut self, parent: usize, name: ScopeName) -> usize {
        self.scopes.push(Scope { parent, name });
        self.scopes.len() - 1
    }

    /// Returns the message of a graph in `depth` others, or notes that it is
    /// too deep.
    fn graph(&mut self, scope: usize, depth: usize) -> Result<Option<Message>> {
        if depth == ONNX_GRAPHS {
            let detail = format!(
                "this graph is inside {ONNX_GRAPHS} others, the most that are read, so its \
                 tensors are not listed"
            );
            let refusal = Error::malformed(Rule::OnnxDepth, detail).at(self.at);
            self.add(Found {
                scope,
                refusal: Some(refusal),
                draft: Box::new(Draft::new(self.at..self.at)),
                is_scope: true,
            })?;
            return Ok(None);
        }
        Ok(Some(Message::Graph {
            scope,
            nodes: 0,
            depth: depth + 1,
            is_function: false,
            found_before: None,
        }))
    }

    fn tensor(&self, field: &Field, scope: usize, is_scope: bool) -> Option<Message> {
        self.part(field, TensorRole::Listed { scope, is_scope })
    }

    fn part(&self, field: &Field, role: TensorRole) -> Option<Message> {
        let FieldValue::Bytes(range) = &field.value else {
            return None;
        };
        Some(Message::Tensor {
            draft: Box::new(Draft::new(range.clone())),
            role,
        })
    }

    /// Ends the innermost message.
    fn leave(&mut self) -> Result<()> {
        let Some(Frame { message, end }) = self.stack.pop() else {
            return Ok(());
        };
        if self.at > end {
            return Err(refuse("a field passes the end of its message", self.at));
        }
        match message {
            Message::Model
            | Message::Graph {
                found_before: None, ..
            } => {}
            Message::Graph {
                scope,
                found_before: Some(found_before),
                ..
            }
            | Message::Training {
                scope,
                found_before,
            }
            | Message::Node {
                scope,
                found_before,
                ..
            }
            | Message::Attribute {
                scope,
                found_before,
                ..
            } => {
                // Names without tensors are not needed.
                if self.found.len() == found_before {
                    self.scopes.truncate(scope);
                }
            }
            Message::Tensor { draft, role } => match role {
                TensorRole::Listed { scope, is_scope } => {
                    self.add(Found {
                        scope,
                        refusal: None,
                        draft,
                        is_scope,
                    })?;
                }
                TensorRole::SparseValues => {
                    if let Some(Message::Sparse { values, .. }) = self.top() {
                        *values = draft;
                    }
                }
                TensorRole::SparseOther => {}
            },
            Message::Sparse {
                scope,
                is_scope,
                values,
            } => {
                let detail = "it is a sparse tensor of ONNX, which is not read";
                self.add(Found {
                    scope,
                    refusal: Some(Error::unsupported(detail)),
                    draft: values,
                    is_scope,
                })?;
            }
            Message::Entry {
                key,
                value,
                version,
                role,
            } => match (role, self.top()) {
                (EntryRole::Metadata, _) => self.description.add_property(&key, &value),
                (EntryRole::OperatorSet, _) => self.description.add_operators(&key, version),
                (EntryRole::External, Some(Message::Tensor { draft, .. })) => {
                    draft.external.add(&key, value);
                }
                (EntryRole::External, _) => {}
            },
        }
        Ok(())
    }

    fn add(&mut self, found: Found) -> Result<()> {
        if !found.is_scope && found.draft.name.as_ref().is_none_or(Vec::is_empty) {
            let detail = "a tensor of a graph has no name";
            return Err(Error::malformed(Rule::OnnxName, detail).at(found.draft.range.start));
        }
        if self.found.len() >= ONNX_TENSORS {
            let detail = format!("the model has more than {ONNX_TENSORS} tensors, the most listed");
            return Err(Error::limit(detail).at(self.at));
        }
        self.found.push(found);
        Ok(())
    }
}

fn sparse(scope: usize, is_scope: bool) -> Message {
    Message::Sparse {
        scope,
        is_scope,
        values: Box::new(Draft::new(0..0)),
    }
}
