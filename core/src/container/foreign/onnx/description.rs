//! The description of a model: its producer, versions and operators, as text
//! (docs/formats/onnx.md 6).

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The greatest number of operators that are shown.
const SHOWN_OPERATORS: usize = 64;

/// The greatest number of operators whose nodes are counted.
const COUNTED_OPERATORS: usize = 4096;

/// The fields of the model that are texts, by number.
const TEXTS: [(u64, &str); 4] = [
    (2, "producer_name"),
    (3, "producer_version"),
    (4, "domain"),
    (6, "doc_string"),
];

/// The fields of the model that are numbers, by number.
const NUMBERS: [(u64, &str); 2] = [(1, "ir_version"), (5, "model_version")];

/// The description of a model, as far as it has been read.
#[derive(Debug, Clone, Default)]
pub(super) struct Description {
    fields: BTreeMap<&'static str, String>,
    properties: BTreeMap<Vec<u8>, Vec<u8>>,
    operator_sets: BTreeMap<Vec<u8>, u64>,
    operators: BTreeMap<Vec<u8>, u64>,
    nodes: u64,
    functions: u64,
}

impl Description {
    /// Returns whether the field `number` of a model is a text that is shown.
    pub fn is_text(number: u64) -> bool {
        TEXTS.iter().any(|(text, _)| *text == number)
    }

    pub fn set_text(&mut self, number: u64, text: &[u8]) {
        let found = TEXTS.iter().find(|(field, _)| *field == number);
        if let Some((_, key)) = found.filter(|_| !text.is_empty()) {
            self.fields.insert(key, shown(text));
        }
    }

    pub fn set_number(&mut self, number: u64, value: u64) {
        if let Some((_, key)) = NUMBERS.iter().find(|(field, _)| *field == number) {
            self.fields.insert(key, value.cast_signed().to_string());
        }
    }

    pub fn add_node(&mut self) {
        self.nodes += 1;
    }

    /// Returns the number of the next function.
    pub fn next_function(&mut self) -> u64 {
        self.functions += 1;
        self.functions - 1
    }

    /// Counts a node by its operator.
    pub fn add_operator(&mut self, name: &[u8]) {
        let is_full = self.operators.len() >= COUNTED_OPERATORS;
        match self.operators.get_mut(name) {
            Some(count) => *count += 1,
            None if !is_full => {
                self.operators.insert(name.to_vec(), 1);
            }
            None => {}
        }
    }

    pub fn add_property(&mut self, key: &[u8], value: &[u8]) {
        self.properties.insert(key.to_vec(), value.to_vec());
    }

    pub fn add_operators(&mut self, domain: &[u8], version: u64) {
        self.operator_sets.insert(domain.to_vec(), version);
    }

    /// Returns all entries as text. An entry of `metadata_props` does not
    /// replace a field of the same name.
    pub fn entries(self) -> Vec<(String, String)> {
        let properties = self.properties.iter();
        let properties = properties.map(|(key, value)| (shown(key), shown(value)));
        let mut all: BTreeMap<String, String> = properties.collect();
        let fields = self.fields.into_iter();
        all.extend(fields.map(|(key, value)| (key.to_string(), value)));
        let sets = self.operator_sets.iter().map(|(domain, version)| {
            let domain = if domain.is_empty() {
                b"ai.onnx"
            } else {
                &domain[..]
            };
            format!("{} {}", shown(domain), version.cast_signed())
        });
        let sets = sets.collect::<Vec<_>>().join(", ");
        let mut operators: Vec<_> = self.operators.iter().collect();
        operators.sort_by(|(one, n), (other, m)| m.cmp(n).then(one.cmp(other)));
        let left_out = operators.len().saturating_sub(SHOWN_OPERATORS);
        operators.truncate(SHOWN_OPERATORS);
        let counts = operators.iter();
        let counts = counts.map(|(name, count)| format!("{} {count}", shown(name)));
        let mut counts = counts.collect::<Vec<_>>().join(", ");
        if left_out > 0 {
            counts.push_str(&format!(" and {left_out} more"));
        }
        let own = [
            ("opset_import", sets),
            ("operators", counts),
            ("nodes", self.nodes.to_string()),
        ];
        let own = own.into_iter().filter(|(_, text)| !text.is_empty());
        all.extend(own.map(|(key, text)| (key.to_string(), text)));
        all.into_iter().collect()
    }
}

/// Returns a text whose bytes need not be UTF-8.
fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}
