//! Lists the tensors in the value that a pickle describes
//! (docs/formats/pytorch.md 2.3).

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::machine::{BYTES_PER_ENTRY, Machine};
use super::value::{Object, Opaque, Tensor, Value};
use super::{Checkpoint, element, plain_text};
use crate::limits::{NAME_LEN_BYTES, PICKLE_DEPTH, PYTORCH_METADATA_ENTRIES, PYTORCH_TENSORS};
use crate::{Error, Result, Rule};

/// A tensor counts as this many entries, and one more for each dimension. The pickle may
/// have few bytes for it: a reference to a tensor that is listed before.
const ENTRIES_PER_TENSOR: usize = 24;

/// Classes whose objects contain no tensors.
const KNOWN: [&str; 2] = ["torch.device", "torch.serialization._get_layout"];

/// Lists the tensors of `root`. Elements are stored with the most significant byte first
/// if `is_big_endian`.
///
/// # Errors
/// The first error if no tensor can be read, and [`Rule::PyTorchPickle`] if there is no
/// tensor, but an object of a class that is not known.
pub(super) fn list(machine: Machine, root: Value, is_big_endian: bool) -> Result<Checkpoint> {
    let mut listing = Listing {
        machine,
        is_big_endian,
        out: Checkpoint::default(),
        storages: BTreeMap::new(),
        path: String::new(),
        open: Vec::new(),
        left_out: None,
    };
    listing.visit(root)?;
    let Listing {
        mut out, left_out, ..
    } = listing;
    out.refuse_repeated_names();
    if !out.tensors.is_empty() {
        return Ok(out);
    }
    if let Some((name, error)) = out.refused.into_iter().next() {
        return Err(error.tensor(&name));
    }
    match left_out {
        Some(detail) => Err(Error::malformed(Rule::PyTorchPickle, detail)),
        None => Ok(Checkpoint {
            refused: Vec::new(),
            ..out
        }),
    }
}

/// A pickle whose tensors are being listed.
pub(super) struct Listing<'a> {
    pub(super) machine: Machine<'a>,
    pub(super) is_big_endian: bool,
    pub(super) out: Checkpoint,
    /// The numbers of storages by key.
    pub(super) storages: BTreeMap<String, usize>,
    /// The name of the value that is being visited.
    pub(super) path: String,
    /// The containers that are being visited.
    open: Vec<Value>,
    /// A description of the first object whose content is not known.
    left_out: Option<String>,
}

impl Checkpoint {
    /// Moves tensors whose names occur more than once to the refused ones.
    fn refuse_repeated_names(&mut self) {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let names = self.tensors.iter().map(|tensor| tensor.name.as_str());
        for name in names.chain(self.refused.iter().map(|(name, _)| name.as_str())) {
            *counts.entry(name).or_default() += 1;
        }
        counts.retain(|_, count| *count > 1);
        if counts.is_empty() {
            return;
        }
        let repeated: Vec<String> = counts.into_keys().map(String::from).collect();
        let is_repeated = |name: &String| repeated.binary_search(name).is_ok();
        self.tensors.retain(|tensor| !is_repeated(&tensor.name));
        self.refused.retain(|(name, _)| !is_repeated(name));
        for name in repeated {
            let detail = "several tensors of the file have this name";
            let error = Error::malformed(Rule::PyTorchName, detail);
            self.refused.push((name, error));
        }
    }
}

impl Listing<'_> {
    /// Adds the value that is being visited to the tensors that cannot be read. It counts
    /// as much as a tensor and the message of `error`.
    fn refuse(&mut self, error: Error) -> Result<()> {
        let message = error.to_string().len() / BYTES_PER_ENTRY;
        self.machine.count(ENTRIES_PER_TENSOR + message)?;
        self.out.refused.push((self.path.clone(), error));
        Ok(())
    }

    /// Visits the value `value` of the entry `key` of the current container.
    fn visit_entry(&mut self, key: &str, value: Value) -> Result<()> {
        let len = self.path.len();
        if len + 1 + key.len() > NAME_LEN_BYTES {
            return self.refuse_name(key, value);
        }
        if !self.path.is_empty() && !key.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(key);
        self.machine.count(1 + self.path.len() / BYTES_PER_ENTRY)?;
        self.visit(value)?;
        self.path.truncate(len);
        Ok(())
    }

    /// Refuses the value of an entry whose name is too long, under the beginning of its
    /// name. A value that is no tensor and contains none is left out.
    fn refuse_name(&mut self, key: &str, value: Value) -> Result<()> {
        self.machine.count(1 + key.len() / BYTES_PER_ENTRY)?;
        if plain_text::is_plain(&self.machine, value) {
            return Ok(());
        }
        let name: String = self.path.chars().chain(key.chars()).take(100).collect();
        let whole = core::mem::replace(&mut self.path, format!("{name}…"));
        let detail = format!("its name has over {NAME_LEN_BYTES} bytes");
        let refused = self.refuse(Error::limit(detail));
        self.path = whole;
        refused
    }

    fn visit(&mut self, value: Value) -> Result<()> {
        if plain_text::is_plain(&self.machine, value) {
            return self.add_metadata(value);
        }
        if self.open.contains(&value) {
            let detail = "the file contains no tensors, but an object that contains itself";
            self.left_out.get_or_insert_with(|| detail.into());
            return Ok(());
        }
        if self.open.len() == PICKLE_DEPTH {
            let detail = format!("its contents are nested more than {PICKLE_DEPTH} levels deep");
            return self.refuse(Error::limit(detail));
        }
        self.open.push(value);
        self.visit_object(value)?;
        self.open.pop();
        Ok(())
    }

    fn visit_object(&mut self, value: Value) -> Result<()> {
        match self.machine.object(value) {
            Some(Object::Tensor(tensor)) => {
                let tensor = (**tensor).clone();
                self.add_tensor(&tensor)
            }
            Some(Object::Dict(entries)) => {
                let entries = entries.clone();
                self.visit_entries(&entries)
            }
            Some(Object::List(items) | Object::Tuple(items) | Object::Set(items)) => {
                let items = items.clone();
                self.machine.count(items.len())?;
                if items
                    .iter()
                    .all(|item| plain_text::is_plain(&self.machine, *item))
                {
                    return self.add_metadata(value);
                }
                for (number, item) in items.iter().enumerate() {
                    self.visit_entry(&number.to_string(), *item)?;
                }
                Ok(())
            }
            Some(Object::Opaque(opaque)) => {
                let opaque = (**opaque).clone();
                self.visit_opaque(value, &opaque)
            }
            Some(Object::Storage(_)) => {
                let detail = "this is a storage, whose shape is not known";
                self.refuse(Error::unsupported(detail))
            }
            _ => Ok(()),
        }
    }

    fn visit_entries(&mut self, entries: &[(Value, Value)]) -> Result<()> {
        self.machine.count(entries.len())?;
        for (key, value) in entries {
            // A long key that many dicts share is copied for each of them.
            let key_len_bytes = self.machine.text(*key).map_or(0, str::len);
            self.machine
                .count(key_len_bytes.saturating_sub(NAME_LEN_BYTES) / BYTES_PER_ENTRY)?;
            let key = plain_text::text(&self.machine, *key);
            self.visit_entry(&key, *value)?;
        }
        Ok(())
    }

    /// Visits an object of a class that is not known: its attributes, its entries and
    /// the arguments with which it is built.
    fn visit_opaque(&mut self, value: Value, opaque: &Opaque) -> Result<()> {
        self.machine.count(opaque.items.len())?;
        let global = self.machine.global(opaque.callable);
        let name = global.map_or_else(|| "an unknown class".into(), element::full_name);
        if name.starts_with("torch._utils._rebuild") {
            let detail = format!("it is built by `{name}`, which is not supported");
            self.refuse(Error::unsupported(detail))?;
            return self.visit_sparse(opaque);
        }
        self.add_metadata(value)?;
        if !KNOWN.contains(&&*name) {
            self.left_out.get_or_insert_with(|| {
                format!(
                    "the file contains no tensors, but an object of `{name}`. It is not \
                     created, since pickles are read without running their code"
                )
            });
        }
        self.visit_attributes(opaque.state)?;
        self.visit_entries(&opaque.items)?;
        let arguments = self.machine.sequence(opaque.arguments);
        let arguments = arguments.unwrap_or_default().to_vec();
        self.machine.count(arguments.len())?;
        for (number, argument) in arguments.iter().enumerate() {
            if !plain_text::is_plain(&self.machine, *argument) {
                self.visit_entry(&number.to_string(), *argument)?;
            }
        }
        Ok(())
    }

    /// Visits the state of an object: a dict of attributes, or a pair of two.
    fn visit_attributes(&mut self, state: Value) -> Result<()> {
        if let Some(&[first, second]) = self.machine.sequence(state) {
            let is_dict = |value| matches!(self.machine.object(value), Some(Object::Dict(_)));
            if [first, second].into_iter().any(is_dict) {
                for half in [first, second] {
                    if half != Value::None {
                        self.visit(half)?;
                    }
                }
                return Ok(());
            }
        }
        match state {
            Value::None => Ok(()),
            state => self.visit(state),
        }
    }

    /// Visits the tensors of which a sparse tensor consists.
    fn visit_sparse(&mut self, opaque: &Opaque) -> Result<()> {
        let parts = match self.machine.sequence(opaque.arguments) {
            Some([_, parts, ..]) => self.machine.sequence(*parts).unwrap_or_default(),
            _ => &[],
        };
        let is_tensor =
            |part: &&Value| matches!(self.machine.object(**part), Some(Object::Tensor(_)));
        let tensors: Vec<Value> = parts
            .iter()
            .take(4)
            .take_while(is_tensor)
            .copied()
            .collect();
        let names: &[&str] = match tensors.len() {
            2 => &["indices", "values"],
            3 => &["compressed_indices", "plain_indices", "values"],
            _ => &[],
        };
        for (name, tensor) in names.iter().zip(tensors) {
            self.visit_entry(name, tensor)?;
        }
        Ok(())
    }

    /// Adds the text of a value, under its name. Further entries are left out if there
    /// are too many.
    fn add_metadata(&mut self, value: Value) -> Result<()> {
        if self.out.metadata.len() >= PYTORCH_METADATA_ENTRIES {
            return Ok(());
        }
        let text = plain_text::text(&self.machine, value);
        self.machine.count(1 + text.len() / BYTES_PER_ENTRY)?;
        self.out.metadata.insert(self.path.clone(), text);
        Ok(())
    }

    fn add_tensor(&mut self, tensor: &Tensor) -> Result<()> {
        if self.out.tensors.len() >= PYTORCH_TENSORS {
            let detail = format!("the file has over {PYTORCH_TENSORS} tensors");
            return Err(Error::limit(detail));
        }
        match self.listed(tensor) {
            Ok(tensor) => {
                self.machine.count(ENTRIES_PER_TENSOR)?;
                self.out.tensors.push(tensor);
                Ok(())
            }
            Err(error) => self.refuse(error),
        }
    }
}
