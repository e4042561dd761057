//! Checks a tensor of a pickle, and finds its elements in its storage
//! (docs/formats/pytorch.md 3).

use alloc::format;
use alloc::vec::Vec;

use super::calls::unsigned;
use super::layout::{Extent, Layout};
use super::listing::Listing;
use super::machine::BYTES_PER_ENTRY;
use super::value::{Object, Tensor, Value};
use super::{ListedTensor, StoredStorage, element};
use crate::dtype::Dtype;
use crate::limits::DIMENSIONS;
use crate::{Error, Result, Rule};

impl Listing<'_> {
    /// Returns the tensor that is being visited with the place of its elements.
    ///
    /// # Errors
    /// The reason why it cannot be read.
    pub(super) fn listed(&mut self, tensor: &Tensor) -> Result<ListedTensor> {
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
