//! A device on the host. Its queues do nothing before a caller waits for them, and the
//! executor of this folder decodes its plans.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use zstn::CancelToken;
use zstn_core::frame::plan::DevicePlan;
use zstn_core::pure::Pure;
use zstn_gpu::{Device, Error, Output, Queue};

use super::executor::{Damage, execute};

#[derive(Default)]
pub struct Host {
    pub counts: Arc<Counts>,
    /// The longest block of memory that the device allocates, if there is a limit.
    pub longest: Option<u64>,
    /// True if there is no memory for lists and planes.
    pub is_full: bool,
    /// The most queues at the same time, if there is a limit.
    pub most_queues: Option<usize>,
    /// A token that is cancelled when a load waits for a queue.
    pub cancelled: Option<CancelToken>,
}

/// What the queues of a device have done.
#[derive(Default)]
pub struct Counts {
    /// Number of segments that the host has decoded.
    pub host_segments: AtomicUsize,
    /// Number of decoded plans.
    pub plans: AtomicUsize,
    /// Number of lattices in these plans.
    pub lattices: AtomicUsize,
    /// Number of tensors in these plans that are restored from their bases.
    pub restored: AtomicUsize,
    /// Number of queues that exist.
    pub queues: AtomicUsize,
    /// All blocks of memory, without the memory of queues.
    memories: Mutex<Vec<Weak<Mutex<Vec<u8>>>>>,
    /// The most of these blocks at the same time.
    pub most_memories: AtomicUsize,
}

pub type Memory = Arc<Mutex<Vec<u8>>>;

/// A queue whose copies happen when a caller waits for them, out of the buffer as it is
/// then.
pub struct HostQueue {
    ring: [Vec<u8>; 2],
    current: usize,
    copies: Vec<(usize, Range<usize>, Memory, usize)>,
    source: Option<Memory>,
    longest: Option<u64>,
    is_full: bool,
    counts: Arc<Counts>,
}

pub fn allocate(len_bytes: u64, longest: Option<u64>) -> zstn_gpu::Result<Memory> {
    match longest {
        Some(longest) if len_bytes > longest => Err(Error::DeviceMemory { len_bytes }),
        _ => Ok(Arc::new(Mutex::new(vec![0xAA; index(len_bytes)]))),
    }
}

pub fn index(value: u64) -> usize {
    usize::try_from(value).expect("a position in memory")
}

impl Device for Host {
    type Memory = Memory;
    type Queue = HostQueue;

    fn allocate(&self, len_bytes: u64) -> zstn_gpu::Result<Memory> {
        let memory = allocate(len_bytes, self.longest)?;
        let mut memories = self.counts.memories.lock().unwrap();
        memories.retain(|memory| memory.strong_count() > 0);
        memories.push(Arc::downgrade(&memory));
        let most = &self.counts.most_memories;
        most.fetch_max(memories.len(), Ordering::Relaxed);
        Ok(memory)
    }

    fn queue(
        &self,
        buffer_bytes: usize,
        patience: Duration,
    ) -> zstn_gpu::Result<Option<HostQueue>> {
        let most = self.most_queues.unwrap_or(usize::MAX);
        let add = |queues: usize| (queues < most).then_some(queues + 1);
        let (all, read) = (&self.counts.queues, Ordering::SeqCst);
        if all.fetch_update(read, read, add).is_err() {
            if !patience.is_zero() {
                self.cancelled.iter().for_each(CancelToken::cancel);
            }
            return Ok(None);
        }
        Ok(Some(HostQueue {
            ring: [vec![0; buffer_bytes], vec![0; buffer_bytes]],
            current: 0,
            copies: Vec::new(),
            source: None,
            longest: self.longest,
            is_full: self.is_full,
            counts: self.counts.clone(),
        }))
    }
}

impl Drop for HostQueue {
    fn drop(&mut self) {
        self.counts.queues.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Queue for HostQueue {
    type Memory = Memory;

    fn buffer(&mut self) -> zstn_gpu::Result<&mut [u8]> {
        self.current = 1 - self.current;
        let current = self.current;
        // A copy from the other buffer ends later.
        if self.copies.iter().any(|copy| copy.0 == current) {
            self.wait()?;
        }
        Ok(&mut self.ring[current])
    }

    fn copy(&mut self, part: Range<usize>, to: &Memory, at: u64) -> zstn_gpu::Result<()> {
        self.copies
            .push((self.current, part, to.clone(), index(at)));
        Ok(())
    }

    fn source(&mut self) -> zstn_gpu::Result<Memory> {
        if let Some(source) = &self.source {
            return Ok(source.clone());
        }
        let source = allocate(self.ring[0].len() as u64, self.longest)?;
        Ok(self.source.insert(source).clone())
    }

    fn decode(
        &mut self,
        plan: &DevicePlan,
        host: &[Vec<u8>],
        source: &Memory,
        outputs: &[Output<'_, Memory>],
    ) -> zstn_gpu::Result<Option<zstn_gpu::Damage>> {
        if self.is_full {
            return Err(Error::DeviceMemory { len_bytes: 1 });
        }
        self.wait()?;
        self.counts.plans.fetch_add(1, Ordering::Relaxed);
        let lattices = plan.lattices().len();
        self.counts.lattices.fetch_add(lattices, Ordering::Relaxed);
        let restored = plan.differences().len() + plan.xors().len();
        self.counts.restored.fetch_add(restored, Ordering::Relaxed);
        let lens = host.iter().map(|bytes| bytes.len() as u64);
        assert!(lens.eq(plan.host_segments().iter().map(|segment| segment.len)));
        self.counts
            .host_segments
            .fetch_add(host.len(), Ordering::Relaxed);
        let source = source.lock().unwrap();
        // The lock of the output is not held, since queues work at the same time.
        let mut decoded = vec![0; index(plan.output_len_bytes())];
        // The output contains the tensors of the base.
        for digest in plan.digests() {
            if digest.len > 0 {
                let (memory, at) = Output::find(outputs, digest.output, digest.len)?;
                let base = &memory.lock().unwrap()[index(at)..][..index(digest.len)];
                decoded[index(digest.output)..][..base.len()].copy_from_slice(base);
            }
        }
        let damage = match execute(&Pure, plan, &source, &mut decoded) {
            Ok(()) => None,
            Err((damage, _)) => {
                let (kind, number) = match damage {
                    Damage::Segment(number) => (0, number),
                    Damage::Tensor(number) => (1, number),
                    Damage::Block(number) => (2, number),
                    Damage::Digest(number) => (3, number),
                };
                let mut report = [u32::MAX; 4];
                report[kind] = u32::try_from(number).unwrap();
                Some(report)
            }
        };
        let differences = plan.differences().iter().map(|tensor| {
            let len = tensor.elements * u64::from(tensor.item_bytes);
            tensor.output..tensor.output + len
        });
        let joined = plan.tensors().iter().map(|tensor| {
            let len = tensor.elements * u64::from(tensor.item_bytes);
            tensor.output..tensor.output + len
        });
        let is_output = zstn_core::frame::plan::Space::Output as u32;
        let planes = plan
            .planes()
            .iter()
            .filter(|plane| plane.space == is_output);
        let planes = planes.map(|plane| plane.at..plane.at + plane.len);
        for range in joined.chain(planes).chain(differences) {
            let bytes = &decoded[index(range.start)..index(range.end)];
            if !bytes.is_empty() {
                let (memory, at) = Output::find(outputs, range.start, bytes.len() as u64)?;
                memory.lock().unwrap()[index(at)..][..bytes.len()].copy_from_slice(bytes);
            }
        }
        Ok(damage.and_then(zstn_gpu::Damage::of_report))
    }

    fn wait(&mut self) -> zstn_gpu::Result<()> {
        for (buffer, part, to, at) in self.copies.drain(..) {
            let bytes = &self.ring[buffer][part];
            to.lock().unwrap()[at..at + bytes.len()].copy_from_slice(bytes);
        }
        Ok(())
    }
}
