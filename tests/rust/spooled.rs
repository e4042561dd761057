//! Packing from a stream to a stream takes no disk space, however long the checkpoint
//! is, unless a tensor does not fit into memory.

#![cfg(target_os = "linux")] // other systems do not list the open files

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use zstn::{Effort, Engine, Input, Job, PackOptions, Sink};
use zstn_tests::rng::Rng;
use zstn_tests::with_header;

/// A checkpoint that is generated while it is read.
struct Checkpoint {
    head: io::Cursor<Vec<u8>>,
    pool: Vec<u8>,
    position: usize,
    len_bytes: usize,
    most_on_disk: Arc<AtomicU64>,
}

impl Checkpoint {
    fn new(tensors: usize, each_bytes: usize, most_on_disk: Arc<AtomicU64>) -> Self {
        let entries = (0..tensors).map(|number| {
            let (start, end) = (number * each_bytes, (number + 1) * each_bytes);
            let count = each_bytes / 2;
            format!(
                r#""{number}":{{"dtype":"BF16","shape":[{count}],"data_offsets":[{start},{end}]}}"#
            )
        });
        let header = format!("{{{}}}", entries.collect::<Vec<_>>().join(","));
        Self {
            head: io::Cursor::new(with_header(header, b"")),
            // This length differs from the tensors' length, so that no two tensors are
            // equal.
            pool: Rng(2).bf16_weights(999_983),
            position: 0,
            len_bytes: tensors * each_bytes,
            most_on_disk,
        }
    }
}

impl Read for Checkpoint {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.most_on_disk.fetch_max(unnamed_files_bytes(), Relaxed);
        match self.head.read(out)? {
            0 => {}
            len => return Ok(len),
        }
        let start = self.position % self.pool.len();
        let left = self.len_bytes - self.position;
        let len = out.len().min(left).min(self.pool.len() - start);
        out[..len].copy_from_slice(&self.pool[start..start + len]);
        self.position += len;
        Ok(len)
    }
}

/// Returns the disk space of this process's open unnamed files, in bytes.
fn unnamed_files_bytes() -> u64 {
    let entries = fs::read_dir("/proc/self/fd").unwrap();
    let is_unnamed = |path: &Path| {
        fs::read_link(path).is_ok_and(|file| file.to_string_lossy().ends_with("(deleted)"))
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let files = paths.filter(|path| is_unnamed(path));
    let files = files.filter_map(|path| fs::metadata(path).ok());
    // A file can have several descriptors.
    let blocks: BTreeMap<u64, u64> = files.map(|file| (file.ino(), file.blocks())).collect();
    blocks.values().map(|blocks| blocks * 512).sum()
}

/// Returns the peak disk space of packing such a checkpoint, in bytes.
fn most_on_disk(tensors: usize, each_bytes: usize, memory_bytes: u64) -> u64 {
    let most = Arc::new(AtomicU64::new(0));
    let input = Checkpoint::new(tensors, each_bytes, Arc::clone(&most));
    let job = Job::new().engine(&Engine::new(2).unwrap());
    let options = PackOptions::default().effort(Effort::Fast);
    let report = zstn::pack(
        &job.memory_bytes(memory_bytes),
        Input::reader("stream", input),
        Sink::writer(io::sink()),
        &options,
    );
    assert_eq!(report.unwrap().tensors(), tensors);
    most.load(Relaxed)
}

/// This is a single test, because all files of the process are counted.
#[test]
fn packing_a_stream_takes_disk_space_only_for_tensors_that_do_not_fit_into_memory() {
    assert_eq!(most_on_disk(24, 8 << 20, 1 << 30), 0);
    // The disk holds a tensor and its frame.
    let large = 40 << 20;
    let most = most_on_disk(5, large, 64 << 20);
    assert!(most > 0, "nothing was measured");
    assert!(most <= 2 * large as u64, "{most} bytes for large tensors");
}
