//! Lists the tensors in the value that a pickle describes
//! (docs/formats/pytorch.md 2.3).

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::calls::unsigned;
use super::layout::{Extent, Layout};
use super::machine::{BYTES_PER_ENTRY, Machine};
use super::value::{Object, Opaque, Tensor, Value};
use super::{Checkpoint, ListedTensor, StoredStorage, element, plain_text};
use crate::dtype::Dtype;
use crate::limits::{
    DIMENSIONS, NAME_LEN_BYTES, PICKLE_DEPTH, PYTORCH_METADATA_ENTRIES, PYTORCH_TENSORS,
};
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

struct Listing<'a> {
    machine: Machine<'a>,
    is_big_endian: bool,
    out: Checkpoint,
    /// The numbers of storages by key.
    storages: BTreeMap<String, usize>,
    /// The name of the value that is being visited.
    path: String,
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

    fn listed(&mut self, tensor: &Tensor) -> Result<ListedTensor> {
        self.check_marks(tensor.marks)?;
        let Some(Object::Storage(storage)) = self.machine.object(tensor.storage) else {
            return Err(Error::unsupported("it has no storage"));
        };
        let storage = (**storage).clone();
        let class = self.machine.global(storage.class);
        let class = class.ok_or_else(|| Error::unsupported("its storage has no class"))?;
        let of_class = element::of_class(class)?;
        let dtype = match tensor.dtype {
            Some(dtype) => match self.machine.global(dtype) {
                Some(global) => element::of_name(global)?,
                None => return Err(Error::unsupported("its dtype is not known")),
            },
            None => of_class.ok_or_else(|| Error::unsupported("its storage has no dtype"))?,
        };
        let extent = |detail| Error::malformed(Rule::PyTorchExtent, detail);
        let shape = self.sizes(tensor.size)?;
        let strides = self.sizes(tensor.stride)?;
        if shape.len() != strides.len() {
            return Err(extent("its numbers of dimensions and of strides differ"));
        }
        let offset = unsigned(tensor.offset).ok_or_else(|| extent("its offset is negative"))?;
        let storage_width = of_class.map_or(1, width);
        let too_large = || {
            let detail = "the storage has more bytes than 63 bits can count";
            Error::malformed(Rule::PyTorchStorage, detail)
        };
        let len_bytes = |count: u64| {
            let len_bytes = count.checked_mul(storage_width);
            len_bytes.filter(|len_bytes| i64::try_from(*len_bytes).is_ok())
        };
        let whole_len_bytes = len_bytes(storage.count).ok_or_else(too_large)?;
        let view = match storage.view {
            None => 0..whole_len_bytes,
            Some((first, count)) => {
                let start = len_bytes(first).ok_or_else(too_large)?;
                let end = len_bytes(count).and_then(|len_bytes| start.checked_add(len_bytes));
                let end = end.filter(|end| *end <= whole_len_bytes);
                start..end.ok_or_else(|| extent("a view leaves its storage"))?
            }
        };
        let place = Extent::new(
            &shape,
            &strides,
            offset,
            width(dtype),
            view.end - view.start,
        )?;
        let number = self.storage(storage.key, whole_len_bytes)?;
        Ok(ListedTensor {
            name: self.path.clone(),
            dtype,
            shape,
            storage: number,
            range: view.start + place.range.start..view.start + place.range.end,
            layout: Layout::new(dtype, self.is_big_endian, place.strides),
        })
    }

    /// Fails if a tensor has a mark by which its values differ from the stored ones.
    fn check_marks(&mut self, marks: Value) -> Result<()> {
        let marks = match self.machine.object(marks) {
            Some(Object::Dict(marks)) => marks.iter(),
            _ if marks == Value::None => return Ok(()),
            _ => return Err(Error::unsupported("its marks are not a dict")),
        };
        let len = marks.len();
        let mut set = marks.filter(|(_, value)| *value != Value::Bool(false));
        let found = set.find_map(|(key, _)| match self.machine.text(*key) {
            Some("conj") => Some("conjugated (`conj`). Save the result of its `resolve_conj()`"),
            Some("neg") => Some("negated (`neg`). Save the result of its `resolve_neg()`"),
            _ => None,
        });
        self.machine.count(len)?;
        found.map_or(Ok(()), |found| {
            let detail = format!("its stored values have yet to be {found}");
            Err(Error::unsupported(detail))
        })
    }

    /// Returns the number of the storage called by the text `key`.
    fn storage(&mut self, key: Value, len_bytes: u64) -> Result<usize> {
        let key_len_bytes = self.machine.text(key).map_or(0, str::len);
        self.machine.count(key_len_bytes / BYTES_PER_ENTRY)?;
        let key = self.machine.text(key).unwrap_or_default();
        let storages = &mut self.out.storages;
        if let Some(&number) = self.storages.get(key) {
            if storages
                .get(number)
                .is_some_and(|storage| storage.len_bytes != len_bytes)
            {
                let detail = "the file states two lengths for its storage";
                return Err(Error::malformed(Rule::PyTorchStorage, detail));
            }
            return Ok(number);
        }
        storages.push(StoredStorage {
            key: key.into(),
            len_bytes,
        });
        self.storages.insert(key.into(), storages.len() - 1);
        Ok(storages.len() - 1)
    }

    /// Returns the sizes or strides of a tensor.
    fn sizes(&mut self, value: Value) -> Result<Vec<u64>> {
        let extent = |detail| Error::malformed(Rule::PyTorchExtent, detail);
        let sizes = self.machine.sequence(value);
        let sizes = sizes.ok_or_else(|| extent("its shape or its strides are not a tuple"))?;
        if sizes.len() > DIMENSIONS {
            return Err(Error::dimensions());
        }
        let sizes = sizes.iter().map(|size| unsigned(*size));
        let sizes: Option<Vec<u64>> = sizes.collect();
        self.machine.count(sizes.as_ref().map_or(0, Vec::len))?;
        sizes.ok_or_else(|| extent("its shape or its strides have a negative number"))
    }
}

fn width(dtype: Dtype) -> u64 {
    dtype.bits() / 8
}
