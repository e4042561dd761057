//! Writes messages of Protocol Buffers, for ONNX models that no writer makes.
#![allow(missing_docs)]

/// A message that is being written.
#[derive(Debug, Clone, Default)]
pub struct Message(pub Vec<u8>);

impl Message {
    pub fn new() -> Self {
        Self::default()
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.0.push(number.to_le_bytes()[0]);
    }

    /// Adds a number of variable length.
    pub fn number(mut self, field: u64, number: u64) -> Self {
        self.varint(field << 3);
        self.varint(number);
        self
    }

    /// Adds a number of four bytes.
    pub fn fixed(mut self, field: u64, bytes: [u8; 4]) -> Self {
        self.varint(field << 3 | 5);
        self.0.extend(bytes);
        self
    }

    /// Adds bytes, a text or a message.
    pub fn bytes(mut self, field: u64, bytes: impl AsRef<[u8]>) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.as_ref().len() as u64);
        self.0.extend(bytes.as_ref());
        self
    }

    /// Adds numbers of variable length in one field.
    pub fn packed(self, field: u64, numbers: &[u64]) -> Self {
        let mut packed = Self::new();
        for number in numbers {
            packed.varint(*number);
        }
        self.bytes(field, packed)
    }
}

impl AsRef<[u8]> for Message {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Begins a tensor of this name, type and shape.
pub fn tensor(name: &str, data_type: u64, shape: &[u64]) -> Message {
    let mut tensor = Message::new();
    for size in shape {
        tensor = tensor.number(1, *size);
    }
    tensor.number(2, data_type).bytes(8, name)
}

/// Returns a tensor with values in another file.
pub fn external(name: &str, data_type: u64, shape: &[u64], keys: &[(&str, &str)]) -> Message {
    let tensor = keys
        .iter()
        .fold(tensor(name, data_type, shape), |tensor, (key, value)| {
            tensor.bytes(13, Message::new().bytes(1, key).bytes(2, value))
        });
    tensor.number(14, 1)
}

/// Returns a node with this name, operator and attributes.
pub fn node(name: &str, operator: &str, attributes: &[Message]) -> Message {
    let node = Message::new().bytes(3, name).bytes(4, operator);
    attributes
        .iter()
        .fold(node, |node, attribute| node.bytes(5, attribute))
}

/// Returns a model with a graph of these nodes and initializers.
pub fn model(nodes: &[Message], tensors: &[Message]) -> Vec<u8> {
    Message::new()
        .number(1, 8)
        .bytes(7, graph(nodes, tensors))
        .0
}

pub fn graph(nodes: &[Message], tensors: &[Message]) -> Message {
    let graph = nodes
        .iter()
        .fold(Message::new(), |graph, node| graph.bytes(1, node));
    tensors
        .iter()
        .fold(graph.bytes(2, "g"), |graph, tensor| graph.bytes(5, tensor))
}
