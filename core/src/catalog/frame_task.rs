//! The data required to decode the frame of one tensor of a ZSTN file, without
//! the file's catalog. A program that has parsed and checked the head of the
//! file by itself, like the npm package, writes the bytes of a task and needs
//! only this part of the library.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::FileCatalog;
use super::format::AnyContents;
use super::range_plan::{RangePlan, check_inside};
use crate::bytes::{self, Cursor};
use crate::container::zstn::CheckedFrame;
use crate::container::zstn::integrity::Integrity;
use crate::container::zstn::rows::{FrameTable, PlaneSize};
use crate::engine::Engine;
use crate::frame::Edition;
#[cfg(feature = "plan")]
use crate::frame::plan::{DevicePlan, PlacedFrame, Placement};
use crate::{Error, Result};

/// The number of each edition in the bytes of a task. An edition that such files do
/// not have is written as the last one, which allows the same frames.
const EDITIONS: &[u8] = &[0, 1];

/// The task of decoding one tensor, or some of its bytes, from the stored bytes
/// of its frame. The digest of the decoded bytes is not compared.
///
/// Its encoding is not a file format. All integers are little-endian: the
/// length of the decoded tensor, the offset and the length of its frame in the
/// file, the offset of its block table, and the checksum of the frame, each as
/// a `u64`; a byte that is 1 if there is a checksum; a byte that is 1 for the
/// extended edition, otherwise 0; and the name of the tensor.
#[derive(Debug, Clone)]
pub struct FrameTask {
    name: String,
    len_bytes: u64,
    stored: Range<u64>,
    table_start: u64,
    edition: Edition,
    checksum: Option<Integrity>,
}

impl FrameTask {
    /// Reads a task from its encoding.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for bytes that are not a
    /// task.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Self::read(bytes).map_err(|_| Error::invalid_input("these bytes are not a task"))
    }

    fn read(bytes: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes);
        let mut number = || cursor.u64("a task");
        let [len_bytes, start, stored_len, table_start, checksum] =
            [number()?, number()?, number()?, number()?, number()?];
        let has_checksum = cursor.u8("a task")? != 0;
        let edition = match cursor.u8("a task")? {
            0 => Edition::Plain,
            _ => Edition::Extended,
        };
        let name = cursor.take(cursor.remaining() as u64, "a task")?;
        Ok(Self {
            name: core::str::from_utf8(name).unwrap_or_default().into(),
            len_bytes,
            stored: start..start.saturating_add(stored_len),
            table_start,
            edition,
            checksum: has_checksum.then(|| Integrity::of_checksum(checksum)),
        })
    }

    /// Returns the encoding of the task.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let checksum = self.checksum.as_ref();
        let checksum = checksum.and_then(|all| all.frame_checksum(0));
        let numbers = [
            self.len_bytes,
            self.stored.start,
            self.stored_len_bytes(),
            self.table_start,
            checksum.unwrap_or_default(),
        ];
        let mut bytes = numbers.map(u64::to_le_bytes).concat();
        bytes.push(u8::from(checksum.is_some()));
        bytes.push(self.edition.number(EDITIONS));
        bytes.extend_from_slice(self.name.as_bytes());
        bytes
    }

    /// Decodes the tensor from the `stored` bytes of its frame, and compares
    /// them with their checksum. Offsets in errors are relative to the start of
    /// the file.
    ///
    /// # Errors
    /// The errors of [`FileCatalog::decode`].
    pub fn decode<E: Engine>(&self, engine: &E, stored: &[u8]) -> Result<Vec<u8>> {
        self.check_len(stored)?;
        let expected = self.checksum.as_ref().map(|checksum| (checksum, 0));
        let decode = || -> Result<Vec<u8>> {
            let frame = CheckedFrame::parse(stored, self.len_bytes, self.edition, expected)?;
            let mut out = bytes::buffer(self.len_bytes)?;
            frame.decode(engine, &mut out)?;
            Ok(out)
        };
        decode().map_err(|error| self.in_file(error))
    }

    /// Plans how to read the bytes `span` of the tensor. `table` contains its
    /// block table.
    ///
    /// # Errors
    /// The errors of [`FileCatalog::plan`].
    pub fn plan(&self, table: &[u8], span: Range<u64>) -> Result<RangePlan> {
        check_inside(&self.name, self.len_bytes, &span)?;
        let table = self.table(table)?;
        Ok(RangePlan::of_frame(self.stored.start, &table, span))
    }

    /// Decodes the bytes `span` of the tensor from the bytes of the ranges that
    /// [`FrameTask::plan`] states. Every block is compared with its checksum.
    ///
    /// # Errors
    /// The errors of [`FrameTask::plan`] and [`RangePlan::decode`].
    pub fn decode_part<E: Engine>(
        &self,
        engine: &E,
        table: &[u8],
        span: Range<u64>,
        fetched: &[&[u8]],
    ) -> Result<Vec<u8>> {
        let decoded = self.plan(table, span)?.decode(engine, fetched, None);
        decoded.map_err(|error| error.tensor(&self.name))
    }

    /// Returns the stored size of each plane of the tensor, from its block table.
    ///
    /// # Errors
    /// The rule that a damaged table breaks.
    pub fn plane_sizes(&self, table: &[u8]) -> Result<Vec<PlaneSize>> {
        Ok(self.table(table)?.plane_sizes())
    }

    /// Adds the tensor to `plan`, which must be empty. Its `stored` bytes are at
    /// the offset `source` of the device's source, and the tensor is the device's
    /// output. The stored bytes are compared with their checksum.
    ///
    /// # Errors
    /// The errors of [`FileCatalog::add_to_plan`].
    #[cfg(feature = "plan")]
    pub fn add_to_plan<E: Engine>(
        &self,
        engine: &E,
        stored: &[u8],
        source: u64,
        plan: &mut DevicePlan,
    ) -> Result<Placement> {
        self.check_len(stored)?;
        let checked = match &self.checksum {
            Some(checksum) => checksum.check_stored(0, stored),
            None => Ok(()),
        };
        let placed = PlacedFrame {
            bytes: stored,
            source,
            output: 0..self.len_bytes,
            edition: self.edition,
        };
        checked
            .and_then(|()| plan.add(engine, &placed))
            .map_err(|error| self.in_file(error))
    }

    fn table(&self, bytes: &[u8]) -> Result<FrameTable> {
        FrameTable::parse(bytes, self.stored_len_bytes(), self.len_bytes, self.edition)
            .map_err(|error| error.within(self.table_start).tensor(&self.name))
    }

    fn stored_len_bytes(&self) -> u64 {
        self.stored.end - self.stored.start
    }

    fn check_len(&self, stored: &[u8]) -> Result<()> {
        if stored.len() as u64 == self.stored_len_bytes() {
            return Ok(());
        }
        let detail = "these are not the tensor's stored bytes";
        Err(Error::invalid_input(detail).tensor(&self.name))
    }

    fn in_file(&self, error: Error) -> Error {
        error.within(self.stored.start).tensor(&self.name)
    }
}

impl FileCatalog {
    /// Returns the task of decoding tensor `number`; `None` if the tensor is not
    /// the content of one frame of a ZSTN file, or if the digest of its decoded
    /// bytes has to be compared.
    #[must_use]
    pub fn frame_task(&self, number: usize) -> Option<FrameTask> {
        let AnyContents::Zstn(contents) = &self.contents else {
            return None;
        };
        let tensor = self.tensors.get(number)?;
        let integrity = contents.integrity.as_ref();
        if !contents.is_whole(number) || integrity.is_some_and(Integrity::wants_digests) {
            return None;
        }
        let (entry, _) = contents.entry(tensor, number);
        let checksum = integrity.and_then(|all| all.frame_checksum(entry));
        let table = integrity.and_then(|all| all.table(entry));
        Some(FrameTask {
            name: tensor.name.clone(),
            len_bytes: tensor.len_bytes(),
            stored: tensor.stored.clone(),
            table_start: table.map_or(0, |table| table.start),
            edition: contents.edition,
            checksum: checksum.map(Integrity::of_checksum),
        })
    }
}
