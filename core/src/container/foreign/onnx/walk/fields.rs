//! The fields of the messages in an ONNX model (docs/formats/onnx.md 2): each function
//! interprets a field of the innermost message, and returns the message that it begins.

use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use super::super::description::Description;
use super::super::protobuf::{Field, FieldValue, Numbers, text};
use super::{EntryRole, Message, OnnxWalk, sparse};
use crate::Error;
use crate::container::foreign::names::ScopeName;
use crate::container::foreign::window::{Read, Window};
use crate::limits::{DIMENSIONS, NAME_LEN_BYTES, TEXT_LEN_BYTES};

impl OnnxWalk {
    /// Reads the name of a node, an attribute or a function.
    pub(super) fn name_scope(&mut self, window: &Window, scope: usize, field: &Field) -> Read<()> {
        if let FieldValue::Bytes(range) = &field.value
            && !range.is_empty()
        {
            let name = self.name(window, range)?;
            self.scopes[scope].name = ScopeName::Text(name.to_vec());
        }
        Ok(())
    }

    fn name<'a>(&self, window: &Window<'a>, range: &Range<u64>) -> Read<&'a [u8]> {
        let most_bytes = NAME_LEN_BYTES as u64;
        if range.end - range.start > most_bytes {
            let detail = format!("a name has more than {most_bytes} bytes, the most that are read");
            return Err(Error::limit(detail).at(self.at).into());
        }
        text(window, self.at, range, most_bytes)
    }

    pub(super) fn model_field(&mut self, window: &Window, field: &Field) -> Read<Option<Message>> {
        let mut entered = None;
        match (field.number, &field.value) {
            (7, FieldValue::Bytes(_)) => {
                self.has_graph = true;
                entered = self.graph(0, 0)?;
            }
            (8, FieldValue::Bytes(_)) => entered = Some(entry(EntryRole::OperatorSet)),
            (14, FieldValue::Bytes(_)) => entered = Some(entry(EntryRole::Metadata)),
            (20, FieldValue::Bytes(_)) => {
                let scope = self.scope(0, ScopeName::Text(b"training_info".to_vec()));
                let found_before = self.found.len();
                entered = Some(Message::Training {
                    scope,
                    found_before,
                });
            }
            (25, FieldValue::Bytes(_)) => {
                let number = self.description.next_function();
                let scope = self.scope(0, ScopeName::Number(number));
                entered = Some(Message::Graph {
                    scope,
                    nodes: 0,
                    depth: 1,
                    is_function: true,
                    found_before: Some(self.found.len()),
                });
            }
            (number, FieldValue::Bytes(range)) if Description::is_text(number) => {
                let value = text(window, self.at, range, TEXT_LEN_BYTES)?;
                self.description.set_text(number, value);
            }
            (number, FieldValue::Number(value)) => self.description.set_number(number, *value),
            _ => {}
        }
        Ok(entered)
    }

    pub(super) fn node_field(&mut self, window: &Window, field: &Field) -> Read<Option<Message>> {
        let Some(&Message::Node {
            scope,
            attributes,
            depth,
            ..
        }) = self.stack.last().map(|frame| &frame.message)
        else {
            return Ok(None);
        };
        match (field.number, &field.value) {
            (3, _) => self.name_scope(window, scope, field)?,
            (4, FieldValue::Bytes(range)) => {
                let name = self.name(window, range)?;
                self.description.add_operator(name);
            }
            (5, FieldValue::Bytes(_)) => {
                let child = self.scope(scope, ScopeName::Number(attributes));
                if let Some(Message::Node { attributes, .. }) = self.top() {
                    *attributes += 1;
                }
                return Ok(Some(Message::Attribute {
                    scope: child,
                    items: 0,
                    depth,
                    found_before: self.found.len(),
                }));
            }
            _ => {}
        }
        Ok(None)
    }

    pub(super) fn attribute_field(
        &mut self,
        window: &Window,
        field: &Field,
    ) -> Read<Option<Message>> {
        let Some(&Message::Attribute {
            scope,
            items,
            depth,
            ..
        }) = self.stack.last().map(|frame| &frame.message)
        else {
            return Ok(None);
        };
        if field.number == 1 {
            self.name_scope(window, scope, field)?;
            return Ok(None);
        }
        let (FieldValue::Bytes(_), 5 | 6 | 10 | 11 | 22 | 23) = (&field.value, field.number) else {
            return Ok(None);
        };
        // Lists of tensors or graphs are numbered.
        let scope = match field.number {
            10 | 11 | 23 => {
                if let Some(Message::Attribute { items, .. }) = self.top() {
                    *items += 1;
                }
                self.scope(scope, ScopeName::Number(items))
            }
            _ => scope,
        };
        Ok(match field.number {
            5 | 10 => self.tensor(field, scope, true),
            6 => self.graph(scope, depth)?,
            11 => {
                let before = self.found.len();
                let mut graph = self.graph(scope, depth)?;
                if let Some(Message::Graph { found_before, .. }) = &mut graph {
                    *found_before = Some(before);
                }
                graph
            }
            _ => Some(sparse(scope, true)),
        })
    }

    pub(super) fn tensor_field(&mut self, window: &Window, field: &Field) -> Read<Option<Message>> {
        let at = self.at;
        let name = match (field.number, &field.value) {
            (8, FieldValue::Bytes(range)) => Some(self.name(window, range)?.to_vec()),
            _ => None,
        };
        // Shapes of more dimensions are refused, so their rest is not read.
        let dimensions_bytes = 10 * (DIMENSIONS as u64 + 1);
        let packed = match (field.number, &field.value) {
            (1, FieldValue::Bytes(range)) => {
                Some((text(window, at, range, dimensions_bytes)?, range.clone()))
            }
            _ => None,
        };
        let Some(Message::Tensor { draft, .. }) = self.top() else {
            return Ok(None);
        };
        match (field.number, &field.value) {
            (1, FieldValue::Number(size)) => draft.add_dimension(*size),
            (2, FieldValue::Number(number)) => draft.data_type = *number,
            (3, FieldValue::Bytes(_)) => draft.has_segment = true,
            (6, FieldValue::Bytes(_)) => draft.add_texts(),
            (9, FieldValue::Bytes(range)) => draft.add_raw(range.clone()),
            (13, FieldValue::Bytes(_)) => return Ok(Some(entry(EntryRole::External))),
            (14, FieldValue::Number(number)) => draft.is_external = *number == 1,
            (number, FieldValue::Number(_)) => draft.add_numbers(number, 1, Some(None)),
            (number, FieldValue::Fixed(_, range)) => {
                let len_bytes = range.end - range.start;
                draft.add_numbers(number, len_bytes, Some(Some(len_bytes)));
            }
            (number, FieldValue::Bytes(range)) => {
                draft.add_packed(number, range);
            }
        }
        if name.is_some() {
            draft.name = name;
        }
        if let Some((packed, range)) = packed {
            let is_cut = (packed.len() as u64) < range.end - range.start;
            let mut numbers = Numbers::new(packed, range.start);
            while !numbers.is_empty() {
                match numbers.next() {
                    Ok(size) => draft.add_dimension(size),
                    // The rest of a number that was cut.
                    Err(_) if is_cut => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(None)
    }

    pub(super) fn entry_field(&mut self, window: &Window, field: &Field) -> Read<Option<Message>> {
        let bytes = match &field.value {
            FieldValue::Bytes(range) => Some(text(window, self.at, range, TEXT_LEN_BYTES)?),
            _ => None,
        };
        let Some(Message::Entry {
            key,
            value,
            version,
            ..
        }) = self.top()
        else {
            return Ok(None);
        };
        match (field.number, bytes, &field.value) {
            (1, Some(bytes), _) => *key = bytes.to_vec(),
            (2, Some(bytes), _) => *value = bytes.to_vec(),
            (2, None, FieldValue::Number(number)) => *version = *number,
            _ => {}
        }
        Ok(None)
    }
}

fn entry(role: EntryRole) -> Message {
    Message::Entry {
        key: Vec::new(),
        value: Vec::new(),
        version: 0,
        role,
    }
}
