//! The packing pipeline: reads and codes the tensors of a file on all threads, hashes the
//! original on a thread of its own, and writes the records in order, in bounded memory.
//!
//! A tensor holds its share of the memory until its record has been written and its bytes
//! have been hashed. How many tensors are processed at the same time has no influence on
//! the output.

use std::sync::Arc;

use zstn_core::container::VERSION_OFFSET_BYTES;
use zstn_core::container::safetensors::HeaderTensor;
use zstn_core::frame::Edition;

use super::aliases::Aliases;
use super::arrivals::{Arrivals, Arrived, Expected};
use super::hashing::{FileHash, Hashing, Piece, hash_during};
use super::tensor_data::Data;
use crate::buffers::Buffer;
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

    /// The hash of the original.
    type Hash: FileHash;

    /// Returns the offset at which the next record begins.
    fn position(&self) -> u64;

    /// Returns the version that the records so far require of the file.
    fn version(&self) -> u8;

    /// Takes the hash to which the original's data have to be added; `None` if the list
    /// needs no such hash.
    fn take_hash(&mut self) -> Option<Self::Hash>;

    /// Sets the hash of all of the original's data.
    fn set_hash(&mut self, hash: Self::Hash);

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
    /// The latest version that records may require, if that can be another one than the
    /// version in the prefix.
    pub(crate) latest_version: Option<u8>,
}

/// A tensor of the file, and how it is stored.
struct Item {
    number: usize,
    form: Form,
    /// The bytes of the tensor, if they have arrived; otherwise they are read.
    bytes: Option<Arc<Buffer<'static>>>,
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
                let write = |hashing: &Hashing<'a, L::Hash>| {
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
        hashing: Option<&Hashing<'a, L::Hash>>,
    ) -> Result<()> {
        // The version is part of the prefix, but depends on the records.
        let mut version = Version {
            latest: self.latest_version,
            written: list.version(),
        };
        if version.latest.is_some() {
            output.hold();
        }
        output.write_final(prefix)?;
        let max_bytes = self.job.memory() / C::MEMORY_SHARES;
        let largest = self.tensors.iter().map(len_bytes).max().unwrap_or(0);
        let budget = Budget::for_threads(self.job, largest, max_bytes);
        let arrivals = self.arrivals(aliases, budget, max_bytes);
        let items: Vec<_> = (0..self.tensors.len())
            .map(|number| {
                let (form, cost_bytes) = match len_bytes(&self.tensors[number]) {
                    _ if aliases.of_tensor(number).is_some() => (Form::Coded, 0),
                    len_bytes if len_bytes > max_bytes => (Form::Large, u64::MAX),
                    len_bytes => (Form::Coded, len_bytes),
                };
                ((number, form), cost_bytes)
            })
            .collect();
        let begin = |(number, form): (usize, Form)| {
            let span = &self.tensors[number].span;
            let mut bytes = None;
            match &arrivals {
                Some(arrivals) => {
                    let arrived = arrivals.take(number)?;
                    let digest = match arrived {
                        Arrived::Bytes(arrived, digest) => {
                            bytes = Some(arrived);
                            digest
                        }
                        Arrived::Stored if aliases.need_digest(number) => {
                            Some(self.data.digest(span)?)
                        }
                        Arrived::Stored => None,
                    };
                    if let Some(digest) = digest {
                        aliases.add(number, span.end - span.start, digest);
                    }
                }
                None => self.data.will_need(span),
            }
            let form = aliases.of_tensor(number).map_or(form, Form::Alias);
            Ok(Item {
                number,
                form,
                bytes,
            })
        };
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
            let is_last = item.number + 1 == self.tensors.len();
            version.settle(list, output, is_last)?;
            if let Some(hashing) = hashing {
                hashing.wait_for(self.job, self.data, item.number)?;
            }
            let number = item.number;
            drop(item);
            if let Some(arrivals) = &arrivals {
                arrivals.release(number);
            }
            Ok(())
        };
        let work = || {
            in_order(self.job, items, budget, begin, code, write)?;
            self.data.check_end()
        };
        match &arrivals {
            Some(arrivals) => arrivals.fetch_during(work),
            None => work(),
        }
    }

    /// Returns the tensors that will arrive, or `None` if the file can be read at any
    /// offset.
    fn arrivals(&self, aliases: &Aliases, budget: Budget, max_bytes: u64) -> Option<Arrivals<'a>> {
        let expected = self.tensors.iter().enumerate().map(|(number, tensor)| {
            let len_bytes = len_bytes(tensor);
            Expected {
                len_bytes,
                is_large: len_bytes > max_bytes,
                has_digest: aliases.need_digest(number),
            }
        });
        let arriving = self.data.arriving?;
        let expected = expected.collect();
        Some(Arrivals::new(
            self.job,
            arriving,
            expected,
            budget.max_bytes(),
        ))
    }

    /// Reads and codes a tensor, unless it is an alias or large, and supplies its bytes to
    /// the hash.
    fn code<H: FileHash>(
        &self,
        item: &Item,
        hashing: Option<&Hashing<'a, H>>,
    ) -> Result<Option<Coded<C::Entry>>> {
        let tensor = &self.tensors[item.number];
        let supply = |piece| {
            if let Some(hashing) = hashing {
                hashing.supply(item.number, piece);
            }
        };
        let is_coded = matches!(item.form, Form::Coded);
        let bytes: Option<Arc<Buffer<'a>>> = match &item.bytes {
            Some(bytes) => Some(Arc::clone(bytes)),
            None if is_coded => Some(Arc::new(self.data.read(&tensor.span)?.into())),
            None => None,
        };
        let Some(bytes) = bytes else {
            supply(Piece::Span(tensor.span.clone()));
            return Ok(None);
        };
        supply(Piece::Bytes(Arc::clone(&bytes)));
        if !is_coded {
            return Ok(None);
        }
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
    /// The latest version that records may require; `None` if the version is final.
    latest: Option<u8>,
    written: u8,
}

impl Version {
    /// Overwrites the version once the records of `list`, which have all been written,
    /// require the latest one, or after the last record if they require another one than
    /// the one written.
    fn settle(&mut self, list: &impl RecordList, output: &mut Output, is_last: bool) -> Result<()> {
        let version = list.version();
        let is_final = is_last || self.latest == Some(version);
        if self.latest.is_none() || !is_final || version == self.written {
            return Ok(());
        }
        self.latest = None;
        output.revise(version, VERSION_OFFSET_BYTES, list.position())
    }
}

fn len_bytes(tensor: &HeaderTensor) -> u64 {
    tensor.span.end - tensor.span.start
}
