//! The packing pipeline: reads the tensors of a file, codes them on all threads, hashes
//! the original and writes the records in order, in bounded memory.
//!
//! A file is processed batch by batch. While a batch is coded, it is hashed, the records
//! of the batch before are written, and the next batch is fetched. The batches have no
//! influence on the output.

use std::borrow::Cow;
use std::ops::Range;

use zstn_core::container::VERSION_OFFSET_BYTES;
use zstn_core::container::safetensors::HeaderTensor;
use zstn_core::engine::Engine as _;
use zstn_core::frame::Edition;

use super::aliases::Aliases;
use super::data::Data;
use crate::{Job, Output, Progress as _, Result, finished};

/// Codes tensors as records of one format: as frames, or as deltas from a base.
pub(crate) trait RecordCoder: Sync {
    /// The entry for a record in the list of the packed file.
    type Entry: Send;

    /// A batch may take one share of the allowed memory, in bytes of original data.
    const MEMORY_SHARES: u64;

    /// Codes a tensor from its bytes.
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

    /// Returns whether [`RecordList::hash`] has to be called.
    fn needs_original(&self) -> bool;

    /// Adds the next bytes of the original's data to its digest.
    fn hash(&mut self, bytes: &[u8]);

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

impl<C: RecordCoder> Pipeline<'_, C> {
    /// Writes the `prefix` of the packed file, then the records of all tensors, which it
    /// adds to `list`.
    pub(crate) fn run<L: RecordList<Entry = C::Entry>>(
        &self,
        prefix: &[u8],
        aliases: &mut Aliases,
        list: &mut L,
        output: &mut Output,
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
        let lens: Vec<u64> = self.tensors.iter().map(len_bytes).collect();
        let max_bytes = self.job.memory() / C::MEMORY_SHARES;
        let batch_bytes = enough_bytes(&lens, self.job.engine.threads(), max_bytes);
        let batches = cut(&lens, aliases.targets(), batch_bytes);
        let end_of = |batch: &Batch| self.tensors[batch.tensors.end - 1].span.end;
        // The records of the previous batch, which are already in the list.
        let mut pending: Vec<Vec<u8>> = Vec::new();
        for (number, batch) in batches.iter().enumerate() {
            let end = end_of(batch);
            let next_end = batches.get(number + 1).map_or(end, end_of);
            self.data.fetch_until(end)?;
            let numbers = batch.tensors.clone();
            aliases.look_at(&self.job.engine, &self.data, self.tensors, numbers)?;
            let distinct: Vec<usize> = batch
                .tensors
                .clone()
                .filter(|&number| aliases.of_tensor(number).is_none())
                .collect();
            let read = match batch.large {
                true => Vec::new(),
                false => self.read(&distinct)?,
            };
            self.data.will_need(&(end..next_end));
            let (coded, written) = self.job.engine.join(
                || self.code(&distinct, &read),
                || {
                    if list.needs_original() {
                        self.hash(batch, &distinct, &read, list)?;
                    }
                    write_all(output, &pending)?;
                    self.data.fetch_until(next_end)
                },
            );
            written?;
            version.settle(list, output)?;
            drop(read);
            pending = Vec::new();
            let mut coded = coded?.into_iter();
            for number in batch.tensors.clone() {
                let tensor = &self.tensors[number];
                if let Some(target) = aliases.of_tensor(number) {
                    self.report_alias(tensor, target);
                    list.add_alias(tensor, target)?;
                } else if batch.large {
                    let position = list.position();
                    let record = self.coder.write_large(tensor, position, output)?;
                    list.add(tensor, record);
                } else {
                    let coded = coded.next().expect("a record for every tensor coded");
                    let record = Record {
                        len_bytes: coded.bytes.len() as u64,
                        edition: coded.edition,
                        entry: coded.entry,
                    };
                    pending.push(coded.bytes);
                    list.add(tensor, record);
                }
            }
            if batch.large {
                output.settle()?;
            }
            self.data.free_until(end);
        }
        self.data.check_end()?;
        write_all(output, &pending)?;
        version.settle(list, output)
    }

    /// Reads the tensors with these numbers.
    fn read(&self, numbers: &[usize]) -> Result<Vec<Cow<'_, [u8]>>> {
        let read = |number: usize| self.data.read(&self.tensors[number].span);
        let read = self.job.engine.map(numbers.to_vec(), read);
        read.into_iter().collect()
    }

    /// Codes the tensors with these numbers, whose bytes are `read`. If the batch is one
    /// large tensor, `read` is empty and nothing is coded.
    fn code(&self, numbers: &[usize], read: &[Cow<'_, [u8]>]) -> Result<Vec<Coded<C::Entry>>> {
        let jobs = numbers.iter().zip(read).collect();
        let coded = self.job.engine.map(jobs, |(&number, bytes): (_, &Cow<_>)| {
            let tensor = &self.tensors[number];
            let coded = self.coder.code(tensor, bytes)?;
            self.job.advance(bytes.len() as u64);
            Ok(coded)
        });
        coded.into_iter().collect()
    }

    /// Hashes the tensors of a batch in order.
    fn hash(
        &self,
        batch: &Batch,
        distinct: &[usize],
        read: &[Cow<'_, [u8]>],
        list: &mut impl RecordList,
    ) -> Result<()> {
        let mut read = distinct.iter().zip(read).peekable();
        for number in batch.tensors.clone() {
            match read.next_if(|(distinct, _)| **distinct == number) {
                Some((_, bytes)) => self.job.feed_bytes(bytes, |piece| list.hash(piece))?,
                // The bytes of aliases and large tensors are not in memory.
                None => {
                    let span = &self.tensors[number].span;
                    self.data.feed(span, &mut |piece| list.hash(piece))?;
                }
            }
        }
        Ok(())
    }

    fn report_alias(&self, tensor: &HeaderTensor, target: usize) {
        if self.job.wants_tensors() {
            let storage = finished::alias(&self.tensors[target].name);
            self.job
                .tensor(&finished::FinishedTensor::new(tensor, storage, 0));
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

fn write_all(output: &mut Output, records: &[Vec<u8>]) -> Result<()> {
    let mut records = records.iter();
    records.try_for_each(|record| output.write_final(record))
}

fn len_bytes(tensor: &HeaderTensor) -> u64 {
    tensor.span.end - tensor.span.start
}

/// Consecutive tensors that are processed at the same time.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    /// The numbers of the tensors.
    pub(crate) tensors: Range<usize>,
    /// True for a single tensor that does not fit into memory and is coded block by
    /// block.
    pub(crate) large: bool,
}

/// The minimum size of a batch, in bytes: enough small tensors to keep all threads
/// busy.
const MIN_BYTES: u64 = 8 << 20;
/// The maximum number of tensors in a batch: enough to keep all threads busy, however
/// small they are.
const MAX_TENSORS: usize = 512;

/// Returns the size of a batch for tensors of these lengths, in bytes: one tensor for
/// every thread, or many small ones, but at most `max_bytes`. Larger batches would take
/// more memory without being faster.
fn enough_bytes(lens_bytes: &[u64], threads: usize, max_bytes: u64) -> u64 {
    let largest = lens_bytes.iter().copied().max().unwrap_or(0);
    let one_each = largest.saturating_mul(threads as u64);
    one_each.max(MIN_BYTES).min(max_bytes)
}

/// Divides tensors of these lengths into batches. Aliases take no memory.
pub(crate) fn cut(lens_bytes: &[u64], aliases: &[Option<usize>], batch_bytes: u64) -> Vec<Batch> {
    let mut batches = Vec::new();
    let mut start = 0;
    let mut held = 0;
    for (number, &len) in lens_bytes.iter().enumerate() {
        let cost = if aliases[number].is_some() { 0 } else { len };
        let large = cost > batch_bytes;
        let is_full = held + cost > batch_bytes || number - start == MAX_TENSORS;
        if (large || is_full) && start < number {
            batches.push(Batch {
                tensors: start..number,
                large: false,
            });
            start = number;
            held = 0;
        }
        held += cost;
        if large {
            batches.push(Batch {
                tensors: number..number + 1,
                large: true,
            });
            start = number + 1;
            held = 0;
        }
    }
    if start < lens_bytes.len() {
        batches.push(Batch {
            tensors: start..lens_bytes.len(),
            large: false,
        });
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tensor_is_in_one_batch_and_large_ones_stand_alone() {
        let lens = [5, 5, 30, 1, 9, 40, 2, 0, 100];
        let mut aliases = vec![None; lens.len()];
        aliases[5] = Some(2);
        let batches = cut(&lens, &aliases, 12);
        let numbers: Vec<usize> = batches.iter().flat_map(|b| b.tensors.clone()).collect();
        assert_eq!(numbers, (0..lens.len()).collect::<Vec<_>>());
        let large: Vec<usize> = batches
            .iter()
            .filter(|b| b.large)
            .map(|b| b.tensors.start)
            .collect();
        assert_eq!(large, [2, 8]);
        for batch in &batches {
            let cost: u64 = batch
                .tensors
                .clone()
                .filter(|&t| aliases[t].is_none())
                .map(|t| lens[t])
                .sum();
            assert!(batch.large || cost <= 12, "{batch:?}");
        }
    }

    #[test]
    fn a_batch_has_a_tensor_for_every_thread_if_they_fit() {
        assert_eq!(enough_bytes(&[1 << 20, 30 << 20], 2, 1 << 30), 60 << 20);
        assert_eq!(enough_bytes(&[1 << 20, 30 << 20], 2, 20 << 20), 20 << 20);
        assert_eq!(enough_bytes(&[4096; 9], 2, 1 << 30), MIN_BYTES);
        assert_eq!(enough_bytes(&[], 2, 1 << 30), MIN_BYTES);
    }

    #[test]
    fn many_small_tensors_are_several_batches() {
        let batches = cut(&[1; 1300], &[None; 1300], 1 << 20);
        let counts: Vec<usize> = batches.iter().map(|batch| batch.tensors.len()).collect();
        assert_eq!(counts, [512, 512, 276]);
    }

    #[test]
    fn nothing_makes_no_batches() {
        assert!(cut(&[], &[], 100).is_empty());
    }
}
