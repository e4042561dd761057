//! A model as one virtual safetensors file: the head of that file, and the
//! mapping from its bytes to tensors. Servers use it to answer ranges of the
//! file to clients that only read safetensors.

use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use super::Model;
use crate::container::safetensors;
use crate::{Error, Result, bytes, sort};

/// The layout of the virtual file.
#[derive(Debug, Clone)]
pub struct Unpacked {
    head: Vec<u8>,
    is_original: bool,
    /// The numbers of the tensors that have bytes, in data order.
    order: Vec<usize>,
    /// The offset in the file at which each of these tensors begins, and the
    /// end of the last one.
    begins: Vec<u64>,
}

/// A range of the virtual file, all of it in the head or in one tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A range of [`Unpacked::head`].
    Head(Range<usize>),
    /// A range of a tensor.
    Tensor {
        /// The number of the tensor in [`Model::tensors`].
        number: usize,
        /// The range in the decoded bytes of the tensor.
        bytes: Range<u64>,
    },
}

impl Unpacked {
    /// Returns the first bytes of the file: the length of the header, and the
    /// header.
    #[must_use]
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// Returns whether the file is, byte for byte, the safetensors file that
    /// the model is or was packed from. Otherwise the header is written anew.
    #[must_use]
    pub fn is_original(&self) -> bool {
        self.is_original
    }

    /// Returns the length of the file in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.begins.last().copied().unwrap_or_default()
    }

    /// Returns the layout of the data alone, without the head.
    #[must_use]
    pub fn without_head(mut self) -> Self {
        let data_start = self.head.len() as u64;
        self.head = Vec::new();
        self.is_original = false;
        for begin in &mut self.begins {
            *begin = begin.saturating_sub(data_start);
        }
        self
    }

    /// Returns the numbers of the tensors that have bytes, in data order.
    #[cfg(feature = "virtual-headers")]
    pub(super) fn order(&self) -> &[usize] {
        &self.order
    }

    /// Returns the index in [`Unpacked::order`] of the tensor that contains an offset of
    /// the file, or the number of tensors for an offset at or after the end.
    #[cfg(feature = "virtual-headers")]
    pub(super) fn entry_at(&self, offset_bytes: u64) -> usize {
        let after = self.begins.partition_point(|&begin| begin <= offset_bytes);
        after.saturating_sub(1)
    }

    /// Returns the range in the file of the tensor at this index in [`Unpacked::order`],
    /// which is empty if there is none.
    #[cfg(feature = "virtual-headers")]
    pub(super) fn entry_span(&self, entry: usize) -> Range<u64> {
        match self.begins.get(entry..).unwrap_or_default() {
            [begin, end, ..] => *begin..*end,
            _ => 0..0,
        }
    }

    /// Returns the pieces that make up the bytes `range`, in order. A range
    /// that exceeds the file is clipped.
    pub fn pieces(&self, range: Range<u64>) -> impl Iterator<Item = Piece> {
        let head_len = self.head.len() as u64;
        let head = (range.start < head_len && range.start < range.end)
            .then(|| Piece::Head(bytes::index(range.start)..bytes::index(range.end.min(head_len))));
        let first = self.begins.partition_point(|&begin| begin <= range.start);
        let first = first.saturating_sub(1);
        let tensors = self.order.iter().zip(self.begins.windows(2)).skip(first);
        let tensors = tensors
            .map(move |(&number, begins)| {
                let [begin, end] = [begins[0], begins[1]];
                let bytes =
                    range.start.clamp(begin, end) - begin..range.end.min(end).max(begin) - begin;
                (number, bytes)
            })
            .take_while(|(_, bytes)| !bytes.is_empty())
            .map(|(number, bytes)| Piece::Tensor { number, bytes });
        head.into_iter().chain(tensors)
    }
}

impl Model {
    /// Returns this model as one safetensors file. For a single file that is or
    /// was packed from safetensors, this is the original file, and so it is for a
    /// file of [`FileCatalog::entries`](crate::catalog::FileCatalog::entries) that was
    /// packed from another format. Several files,
    /// and files that never were safetensors, become a file with the tensors in
    /// the order of [`Model::tensors`] and a header in the spelling of the
    /// official writer.
    ///
    /// # Errors
    /// If some tensor of the model cannot be read, or cannot be stored in
    /// safetensors.
    pub fn unpacked(&self) -> Result<Unpacked> {
        self.check_restorable()?;
        match &self.files[..] {
            [file] if !self.is_dense => match file.original_header() {
                Some(header) => {
                    let head = [&(header.len() as u64).to_le_bytes(), header].concat();
                    Ok(self.original(head))
                }
                #[cfg(feature = "virtual-headers")]
                None if file.are_entries_listed() => Ok(self.original(Vec::new())),
                None => self.written(0..self.tensors.len()),
            },
            _ => self.written(0..self.tensors.len()),
        }
    }

    /// Returns the files of this model as one safetensors file, with the tensors in
    /// ascending order of their names. It is the base of deltas against a model in several
    /// files, and does not depend on how the model is sharded
    /// (docs/formats/zstn-delta.md 8).
    ///
    /// # Errors
    /// The errors of [`Model::unpacked`].
    pub fn joined(&self) -> Result<Unpacked> {
        self.check_restorable()?;
        self.written(self.by_name.values().copied())
    }

    /// Refuses a model with tensors that cannot be read.
    fn check_restorable(&self) -> Result<()> {
        match self.refused().next() {
            None => Ok(()),
            Some((name, refusal)) => Err(Error::unsupported(format!(
                "this model cannot be restored as a safetensors file, since a tensor cannot be \
                 read: {refusal}"
            ))
            .tensor(name)),
        }
    }

    /// Returns the original file, which has the bytes `head` before its data.
    fn original(&self, head: Vec<u8>) -> Unpacked {
        let span = |number: usize| {
            let part = &self.tensors[number].parts[0];
            self.files[part.file].tensors()[part.number].span.clone()
        };
        let starts = (0..self.tensors.len()).map(|number| (span(number).start, 0));
        let mut order = sort::by_key(starts);
        order.retain(|&number| !span(number).is_empty());
        // Opening the file has checked that the spans leave no gap.
        let data_start = head.len() as u64;
        let lens = order.iter().map(|&number| {
            let span = span(number);
            span.end - span.start
        });
        let begins = begins(data_start, lens);
        Unpacked {
            head,
            is_original: true,
            order,
            begins,
        }
    }

    /// Returns a new file with the tensors `numbers`, in this order.
    fn written(&self, numbers: impl Iterator<Item = usize> + Clone) -> Result<Unpacked> {
        let mut end = 0u64;
        let tensors = numbers.clone().map(|number| {
            let tensor = &self.tensors[number];
            let start = end;
            end = start.checked_add(tensor.len_bytes()).ok_or_else(|| {
                Error::limit("the tensors have more bytes than 64 bits can count")
                    .tensor(&tensor.name)
            })?;
            Ok(safetensors::HeaderTensor {
                name: tensor.name.clone(),
                dtype: tensor.dtype,
                shape: tensor.shape.clone(),
                span: start..end,
            })
        });
        let tensors = tensors.collect::<Result<Vec<_>>>()?;
        let head = safetensors::head(&self.metadata, &tensors)?;
        let order: Vec<usize> = numbers
            .filter(|&number| self.tensors[number].len_bytes() > 0)
            .collect();
        let lens = order.iter().map(|&number| self.tensors[number].len_bytes());
        let begins = begins(head.len() as u64, lens);
        Ok(Unpacked {
            head,
            is_original: false,
            order,
            begins,
        })
    }
}

fn begins(data_start: u64, lens: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut end = data_start;
    let mut begins = Vec::from([end]);
    begins.extend(lens.map(|len| {
        end = end.saturating_add(len);
        end
    }));
    begins
}
