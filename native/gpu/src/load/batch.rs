//! Decodes packed tensors whose frames fit into a buffer together.

use std::borrow::Cow;
use std::ops::Range;

use zstn::zstn_core::model::StoredPart;
use zstn_core::bytes;
use zstn_core::frame::plan::{DevicePlan, Placement};

use super::divide::frame;
use super::worker::{Load, part_of};
use crate::{Device, Error, Output, Queue, Result};

/// Tensors that are decoded together.
#[derive(Default)]
pub(super) struct Batch {
    plan: DevicePlan,
    /// The decoded host segments of the plan.
    host: Vec<Vec<u8>>,
    /// True if a host segment is damaged.
    is_damaged: bool,
    /// Places of tensors that the plan does not cover, and their bytes, which the CPU has
    /// decoded unless it has to read them again.
    by_cpu: Vec<(usize, Option<Vec<u8>>)>,
}

impl<D: Device> Load<'_, D> {
    /// Decodes the tensors of `places`, whose frames fit into a buffer together.
    pub fn decode_batch(&self, queue: &mut D::Queue, places: &Range<usize>) -> Result<()> {
        let source = match queue.source() {
            Err(Error::DeviceMemory { .. }) => {
                return places
                    .clone()
                    .try_for_each(|place| self.decode_by_cpu(queue, place));
            }
            source => source?,
        };
        let parts = places.clone().map(|index| {
            let part = frame(self.reader, self.place(index)?.number);
            part.ok_or_else(|| Error::Usage(format!("the tensor {index} has no frame")))
        });
        let parts = parts.collect::<Result<Vec<_>>>()?;
        let len_bytes = parts.iter().map(|part| part.len_bytes()).sum();
        let buffer = part_of(queue.buffer()?, len_bytes)?;
        let mut batch = Batch::default();
        let mut at = 0;
        let mut next = places.start;
        for parts in parts.chunk_by(|one, two| one.file == two.file) {
            let Some(first) = parts.first() else { continue };
            // The frames of adjacent tensors are read at once.
            let ranges = parts.chunk_by(|one, two| one.stored.end == two.stored.start);
            let ranges = ranges.filter_map(|run| {
                let (first, last) = (run.first()?, run.last()?);
                Some(first.stored.start..last.stored.end)
            });
            // A tensor that equals the base's tensor has no bytes of its own.
            let ranges = ranges.filter(|range| !range.is_empty());
            let len_bytes = parts.iter().map(|part| part.len_bytes()).sum();
            let stored = part_of(buffer.get_mut(at..).unwrap_or_default(), len_bytes)?;
            self.read(first.file, &ranges.collect::<Vec<_>>(), stored)?;
            let mut start = 0;
            for part in parts {
                let frame = bytes::part(stored, start..start + part.len_bytes());
                self.plan(&mut batch, next, part, frame, at as u64 + start)?;
                start += part.len_bytes();
                next += 1;
            }
            at += stored.len();
        }
        self.decode_host_segments(&mut batch, buffer)?;
        queue.copy(0..at, &source, 0)?;
        self.finish(queue, &source, &batch, places)
    }

    /// Adds a tensor to a batch. Its `stored` bytes are at `at` of the source.
    pub fn plan(
        &self,
        batch: &mut Batch,
        index: usize,
        part: &StoredPart,
        stored: &[u8],
        at: u64,
    ) -> Result<()> {
        let place = self.place(index)?;
        let file = self.reader.model().files().get(part.file);
        let file = file.ok_or_else(|| Error::Usage(format!("there is no file {}", part.file)))?;
        let (engine, output) = (self.reader.engine(), place.planned.clone());
        let plan = &mut batch.plan;
        // For a tensor that is refused here, the reader returns the error.
        let decoded = match file.add_to_plan(engine, part.number, stored, at, output, plan) {
            Ok(Placement::Device) => return Ok(()),
            Ok(Placement::Cpu(_)) => self.decode_stored(place.number, stored),
            Err(_) => None,
        };
        batch.by_cpu.push((index, decoded));
        Ok(())
    }

    /// Decodes a tensor from its stored bytes, and from the base's tensor of the same name if
    /// it is a record of a delta. Returns `None` if the reader refuses one of them.
    fn decode_stored(&self, number: usize, stored: &[u8]) -> Option<Vec<u8>> {
        let model = self.reader.model();
        let tensor = model.tensor(number).ok()?;
        let base = match (tensor.base, self.reader.base()) {
            (Some(_), Some(base)) => Some(base.read(&tensor.name).ok()?.bytes),
            _ => None,
        };
        let decoded = model.decode(self.reader.engine(), number, &[stored], base.as_deref());
        decoded.ok().map(Cow::into_owned)
    }

    /// Decodes the host segments of a plan.
    pub fn decode_host_segments(&self, batch: &mut Batch, source: &[u8]) -> Result<()> {
        for host in batch.plan.host_segments() {
            let range = host.source..host.source.saturating_add(host.source_len);
            let mut out = bytes::buffer(host.len)?;
            let coded = bytes::part(source, range);
            if host.decode(self.reader.engine(), coded, &mut out).is_err() {
                batch.is_damaged = true;
                break;
            }
            batch.host.push(out);
        }
        Ok(())
    }

    /// Decodes the tensors of a batch, whose frames have been copied to `source`. If the
    /// device finds damage, the CPU reads and decodes all of them. The result is then an
    /// error of the reader, or the tensors that a reader returns. The CPU also decodes them
    /// if the device has too little memory.
    pub fn finish(
        &self,
        queue: &mut D::Queue,
        source: &D::Memory,
        batch: &Batch,
        places: &Range<usize>,
    ) -> Result<()> {
        let is_planned = batch.by_cpu.len() < places.len();
        let is_decoded = is_planned && !batch.is_damaged && {
            let outputs = places.clone().map(|index| Ok(self.place(index)?.output()));
            let outputs = outputs.collect::<Result<Vec<Output<'_, _>>>>()?;
            match queue.decode(&batch.plan, &batch.host, source, &outputs) {
                Ok(damage) => damage.is_none(),
                Err(Error::DeviceMemory { .. }) => false,
                Err(error) => return Err(error),
            }
        };
        for (index, decoded) in &batch.by_cpu {
            match decoded {
                Some(decoded) => self.copy_decoded(queue, self.place(*index)?, decoded)?,
                None => self.decode_by_cpu(queue, *index)?,
            }
        }
        if is_decoded {
            return Ok(());
        }
        // The indices are ascending.
        let is_of_plan = |index: &usize| {
            let by_cpu = batch
                .by_cpu
                .binary_search_by_key(index, |(place, _)| *place);
            by_cpu.is_err()
        };
        let mut of_plan = places.clone().filter(is_of_plan);
        of_plan.try_for_each(|index| self.decode_by_cpu(queue, index))
    }
}
