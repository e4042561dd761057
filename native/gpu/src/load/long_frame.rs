//! Frames that are longer than a buffer. Several threads read parts of one frame, and the
//! thread that reads the last part decodes it.

use std::mem;
use std::slice;
use std::sync::{Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use zstn_core::bytes::buffer;

use super::batch::Batch;
use super::divide::frame;
use super::worker::{Load, part_of};
use crate::{Device, Error, Queue, Result};

/// A frame that is read in parts.
pub(super) struct LongFrame<M> {
    /// The index of the tensor's place.
    place: usize,
    len_bytes: u64,
    /// The length of all parts but the last one.
    part_bytes: u64,
    state: Mutex<State<M>>,
}

/// Memory of the device that decoded frames have left. Allocating and freeing memory makes
/// a GPU wait for all of its work.
pub(super) struct Spares<M>(Mutex<Vec<Spare<M>>>);

struct Spare<M> {
    memory: M,
    len_bytes: u64,
}

impl<M> Default for Spares<M> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<M> Spares<M> {
    /// Takes the shortest memory of at least `len_bytes` bytes, or allocates new memory in
    /// the place of a shorter one. There are never more of them than frames at the same
    /// time.
    fn take<D: Device<Memory = M>>(&self, device: &D, len_bytes: u64) -> Result<Spare<M>> {
        let allocate = || {
            Ok(Spare {
                memory: device.allocate(len_bytes)?,
                len_bytes,
            })
        };
        let mut spares = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fitting = spares.iter().enumerate();
        let fitting = fitting.filter(|(_, spare)| spare.len_bytes >= len_bytes);
        if let Some((number, _)) = fitting.min_by_key(|(_, spare)| spare.len_bytes) {
            return Ok(spares.swap_remove(number));
        }
        drop(spares.pop());
        match allocate() {
            Err(Error::DeviceMemory { .. }) if !spares.is_empty() => {
                spares.clear();
                allocate()
            }
            allocated => allocated,
        }
    }

    fn put(&self, spare: Spare<M>) {
        let mut spares = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        spares.push(spare);
    }
}

enum State<M> {
    /// No part has been read.
    Unopened,
    Open(Parts<M>),
    /// The frame has been decoded, or is decoded by the CPU.
    Closed,
}

/// The parts of a frame. Together, they are one block of memory on the host, whose parts
/// different threads write to.
struct Parts<M> {
    /// Memory of the device for the whole frame.
    source: Spare<M>,
    /// Parts that no thread has taken.
    empty: Vec<Option<BytesMut>>,
    /// Parts that have been read, and copied to the device.
    filled: Vec<Option<BytesMut>>,
    /// Number of parts that are not filled.
    left: usize,
}

impl<M> LongFrame<M> {
    pub fn new(place: usize, len_bytes: u64, part_bytes: u64) -> Self {
        Self {
            place,
            len_bytes,
            part_bytes: part_bytes.max(1),
            state: Mutex::new(State::Unopened),
        }
    }

    /// Returns the number of parts.
    pub fn parts(&self) -> usize {
        let parts = self.len_bytes.div_ceil(self.part_bytes);
        usize::try_from(parts).unwrap_or(usize::MAX)
    }

    /// Returns empty parts.
    fn open(&self, source: Spare<M>) -> Result<Parts<M>> {
        let mut rest = BytesMut::from(Bytes::from(buffer(self.len_bytes)?));
        let parts = (0..self.parts()).map(|_| {
            let len = usize::try_from(self.part_bytes).unwrap_or(usize::MAX);
            Some(rest.split_to(len.min(rest.len())))
        });
        let empty: Vec<_> = parts.collect();
        Ok(Parts {
            source,
            filled: empty.iter().map(|_| None).collect(),
            left: empty.len(),
            empty,
        })
    }
}

impl<D: Device> Load<'_, D> {
    /// Reads a part of a frame and copies it to the device. If it is the last one, decodes
    /// the frame. If the device has too little memory for the frame, the thread with the
    /// first part decodes it by the CPU.
    pub fn load_part(
        &self,
        queue: &mut D::Queue,
        long: &LongFrame<D::Memory>,
        number: usize,
    ) -> Result<()> {
        let Some((memory, mut bytes)) = self.take_part(queue, long, number)? else {
            return Ok(());
        };
        let Some(part) = frame(self.reader, self.place(long.place)?.number) else {
            return Err(Error::Usage("a long frame is no frame".into()));
        };
        let at = number as u64 * long.part_bytes;
        let pinned = part_of(queue.buffer()?, bytes.len() as u64)?;
        let start = part.stored.start + at;
        let range = start..start + bytes.len() as u64;
        self.read(part.file, slice::from_ref(&range), pinned)?;
        bytes.copy_from_slice(pinned);
        queue.copy(0..bytes.len(), &memory, at)?;
        // Another queue may decode the frame.
        queue.wait()?;
        let Some((source, stored)) = long.put(number, bytes) else {
            return Ok(());
        };
        let mut batch = Batch::default();
        self.plan(&mut batch, long.place, part, &stored, 0)?;
        self.decode_host_segments(&mut batch, &stored)?;
        self.finish(queue, &source.memory, &batch, &(long.place..long.place + 1))?;
        self.spares.put(source);
        Ok(())
    }

    /// Returns the memory of the device for a frame, and one of its parts to fill; `None`
    /// if the CPU decodes the frame.
    fn take_part(
        &self,
        queue: &mut D::Queue,
        long: &LongFrame<D::Memory>,
        number: usize,
    ) -> Result<Option<(D::Memory, BytesMut)>> {
        let mut state = long.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, State::Unopened) {
            match self.spares.take(self.device, long.len_bytes) {
                Ok(source) => *state = State::Open(long.open(source)?),
                Err(Error::DeviceMemory { .. }) => {
                    *state = State::Closed;
                    drop(state);
                    self.decode_by_cpu(queue, long.place)?;
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
        let State::Open(parts) = &mut *state else {
            return Ok(None);
        };
        let part = parts.empty.get_mut(number).and_then(Option::take);
        Ok(part.map(|part| (parts.source.memory.clone(), part)))
    }
}

impl<M> LongFrame<M> {
    /// Puts a filled part back. If this was the last part, returns the memory of the
    /// device, and the frame on the host.
    fn put(&self, number: usize, part: BytesMut) -> Option<(Spare<M>, BytesMut)> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State::Open(parts) = &mut *state else {
            return None;
        };
        *parts.filled.get_mut(number)? = Some(part);
        parts.left = parts.left.saturating_sub(1);
        if parts.left > 0 {
            return None;
        }
        let State::Open(parts) = mem::replace(&mut *state, State::Closed) else {
            return None;
        };
        // The parts are adjacent, so joining them copies nothing.
        let frame = parts
            .filled
            .into_iter()
            .flatten()
            .reduce(|mut whole, part| {
                whole.unsplit(part);
                whole
            })?;
        Some((parts.source, frame))
    }
}
