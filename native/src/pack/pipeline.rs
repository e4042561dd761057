//! The packing pipeline: reads and codes the tensors of a file on all threads, hashes the
//! original on a thread of its own, and writes the records in order, in bounded memory.
//!
//! A tensor holds its share of the memory until its record has been written and its bytes
//! have been hashed. How many tensors are processed at the same time has no influence on
//! the output.

use std::sync::Arc;

use zstn_core::container::VERSION_OFFSET_BYTES;
use zstn_core::container::safetensors::HeaderTensor;
use zstn_core::container::zstn::integrity::OriginalHash;
use zstn_core::frame::Edition;

use super::aliases::Aliases;
use super::hashing::{Hashing, Piece, hash_during};
use super::tensor_data::Data;
use crate::ordered::{Budget, in_order};
use crate::{Job, Output, Progress as _, Result, finished_tensor};

/// Codes tensors as records of one format: as frames, or as deltas from a base.
pub(crate) trait RecordCoder: Sync {
    /// The description of a record in the list at the end of the packed file.
    type Entry: Send;

    /// The number of equal shares of the allowed memory. The original bytes of the
    /// tensors that are processed at the same time may take one of these shares.
    const MEMORY_SHARES: u64;

    /// Codes a tensor whose bytes are in memory.
    fn code(&self, tensor: &HeaderTensor, bytes: &[u8]) -> Result<Coded<Self::Entry>>;

    /// Codes a tensor that does not fit into memory, and writes its record to the offset
    /// `position` of the output, where the output ends.
    fn write_large(
        &self,
        tensor: &HeaderTensor,
        position: u64,
        output: &mut Output,
    ) -> Result<Record<Self::Entry>>;
}

/// The list of records at the end of a packed file, and the digest of the original.
pub(crate) trait RecordList: Send {
    type Entry;

    /// Returns the offset at which the next record begins.
    fn position(&self) -> u64;

    /// Returns the version that the records so far require of the file.
    fn version(&self) -> u8;

    /// Takes the hash to which the original's data have to be added; `None` if the list
    /// needs no such hash.
    fn take_hash(&mut self) -> Option<OriginalHash>;

    /// Sets the hash of all of the original's data.
    fn set_hash(&mut self, hash: OriginalHash);

    /// Adds the record that begins at [`RecordList::position`].
    fn add(&mut self, tensor: &HeaderTensor, record: Record<Self::Entry>);

    /// Adds a tensor that has the same bytes as the earlier tensor `target`.
    fn add_alias(&mut self, tensor: &HeaderTensor, target: usize) -> Result<()>;
}

/// A record in memory.
pub(crate) struct Coded<E> {
    pub(crate) bytes: Vec<u8>,
    /// The edition that a file with this record must have.
    pub(crate) edition: Edition,
    pub(crate) entry: E,
}

/// A record of a packed file.
pub(crate) struct Record<E> {
    pub(crate) len_bytes: u64,
    /// The edition that a file with this record must have.
    pub(crate) edition: Edition,
    pub(crate) entry: E,
}

/// The pipeline for one file.
pub(crate) struct Pipeline<'a, C> {
    pub(crate) job: &'a Job<'a>,
    pub(crate) data: Data<'a>,
    /// The tensors of the file, in the order of their records.
    pub(crate) tensors: &'a [HeaderTensor],
    pub(crate) coder: &'a C,
    /// True if records may require another version than the one in the prefix.
    pub(crate) is_version_open: bool,
}

/// A tensor of the file, and how it is stored.
struct Item {
    number: usize,
    form: Form,
}

#[derive(Clone, Copy)]
enum Form {
    Coded,
    /// A tensor that is coded block by block, because it does not fit into memory.
    Large,
    /// A reference to the earlier tensor with this number.
    Alias(usize),
}

impl<'a, C: RecordCoder> Pipeline<'a, C> {
    /// Writes the `prefix` of the packed file, then the records of all tensors, which it
    /// adds to `list`.
    pub(crate) fn run<L: RecordList<Entry = C::Entry>>(
        &self,
        prefix: &[u8],
        aliases: &mut Aliases,
        list: &mut L,
        output: &mut Output,
    ) -> Result<()> {
        let len_bytes = self.tensors.iter().map(len_bytes).sum();
        match list.take_hash() {
            None => self.write(prefix, aliases, list, output, None),
            Some(hash) => {
                let write = |hashing: &Hashing<'a>| {
                    self.write(prefix, aliases, list, output, Some(hashing))
                };
                let hash = hash_during(self.job, self.data, len_bytes, hash, write)?;
                list.set_hash(hash);
                Ok(())
            }
        }
    }

    fn write<L: RecordList<Entry = C::Entry>>(
        &self,
        prefix: &[u8],
        aliases: &mut Aliases,
        list: &mut L,
        output: &mut Output,
        hashing: Option<&Hashing<'a>>,
    ) -> Result<()> {
        // The version is part of the prefix, but depends on the records.
        let mut version = Version {
            is_open: self.is_version_open,
            written: list.version(),
        };
        if version.is_open {
            output.hold();
        }
        output.write_final(prefix)?;
        let max_bytes = self.job.memory() / C::MEMORY_SHARES;
        let largest = self.tensors.iter().map(len_bytes).max().unwrap_or(0);
        let budget = Budget::for_threads(self.job, largest, max_bytes);
        let items = (0..self.tensors.len()).map(|number| {
            let span = &self.tensors[number].span;
            self.data.fetch_until(span.end)?;
            aliases.look_at(&self.data, self.tensors, number)?;
            let len_bytes = len_bytes(&self.tensors[number]);
            let (form, cost_bytes) = match aliases.of_tensor(number) {
                Some(target) => (Form::Alias(target), 0),
                None if len_bytes > max_bytes => (Form::Large, u64::MAX),
                None => (Form::Coded, len_bytes),
            };
            self.data.will_need(span);
            Ok((Item { number, form }, cost_bytes))
        });
        let code = |item: &Item| self.code(item, hashing);
        let write = |item: Item, coded: Option<Coded<C::Entry>>| {
            let tensor = &self.tensors[item.number];
            match (item.form, coded) {
                (Form::Alias(target), _) => {
                    self.report_alias(tensor, target);
                    list.add_alias(tensor, target)?;
                }
                (_, Some(coded)) => {
                    let record = Record {
                        len_bytes: coded.bytes.len() as u64,
                        edition: coded.edition,
                        entry: coded.entry,
                    };
                    list.add(tensor, record);
                    output.write_final(&coded.bytes)?;
                }
                (_, None) => {
                    let position = list.position();
                    let record = self.coder.write_large(tensor, position, output)?;
                    list.add(tensor, record);
                    output.settle()?;
                }
            }
            version.settle(list, output)?;
            if let Some(hashing) = hashing {
                hashing.wait_for(self.job, self.data, item.number)?;
            }
            self.data.free_until(tensor.span.end);
            Ok(())
        };
        in_order(self.job, items, budget, code, write)?;
        self.data.check_end()
    }

    /// Reads and codes a tensor, unless it is an alias or large, and supplies its bytes to
    /// the hash.
    fn code(&self, item: &Item, hashing: Option<&Hashing<'a>>) -> Result<Option<Coded<C::Entry>>> {
        let tensor = &self.tensors[item.number];
        let supply = |piece| {
            if let Some(hashing) = hashing {
                hashing.supply(item.number, piece);
            }
        };
        if !matches!(item.form, Form::Coded) {
            supply(Piece::Span(tensor.span.clone()));
            return Ok(None);
        }
        let bytes = Arc::new(self.data.read(&tensor.span)?);
        supply(Piece::Bytes(Arc::clone(&bytes)));
        let coded = self.coder.code(tensor, &bytes)?;
        self.job.advance(bytes.len() as u64);
        Ok(Some(coded))
    }

    fn report_alias(&self, tensor: &HeaderTensor, target: usize) {
        if self.job.wants_tensors() {
            let storage = finished_tensor::alias(&self.tensors[target].name);
            self.job
                .tensor(&finished_tensor::FinishedTensor::new(tensor, storage, 0));
        }
    }
}

/// The version in the prefix of a file that is being written.
struct Version {
    /// True while the version may still change.
    is_open: bool,
    written: u8,
}

impl Version {
    /// Overwrites the version once the records of `list`, which have all been written,
    /// require another one.
    fn settle(&mut self, list: &impl RecordList, output: &mut Output) -> Result<()> {
        let version = list.version();
        if !self.is_open || version == self.written {
            return Ok(());
        }
        self.is_open = false;
        output.revise(version, VERSION_OFFSET_BYTES, list.position())
    }
}

fn len_bytes(tensor: &HeaderTensor) -> u64 {
    tensor.span.end - tensor.span.start
}
