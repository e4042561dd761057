//! A file that records the ranges read, and checkpoints of tensors with one shape.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use zstn::source::Source;
use zstn::{Engine, Reader};
use zstn_core::container::zstn::integrity::checksum;

/// A file in memory that records the ranges read.
#[derive(Clone)]
pub struct Watched {
    file: Arc<Vec<u8>>,
    reads: Arc<Mutex<Vec<Range<u64>>>>,
}

impl Watched {
    pub fn new(file: Vec<u8>) -> Self {
        Self {
            file: Arc::new(file),
            reads: Arc::default(),
        }
    }

    pub fn open(&self) -> zstn::Result<Reader> {
        Reader::options()
            .engine(&native())
            .open(zstn::Input::source(self.clone()))
    }

    /// Returns the ranges read since the last call, and clears them.
    pub fn reads(&self) -> Vec<Range<u64>> {
        std::mem::take(&mut self.reads.lock().expect("free"))
    }
}

impl Source for Watched {
    fn name(&self) -> &str {
        "watched"
    }

    fn len_bytes(&self) -> u64 {
        self.file.len() as u64
    }

    fn read(&self, range: Range<u64>) -> zstn::Result<Cow<'_, [u8]>> {
        self.reads.lock().expect("free").push(range.clone());
        Ok(Cow::Borrowed(zstn_core::bytes::part(&self.file, range)))
    }
}

pub fn native() -> Engine {
    Engine::new(1).expect("a thread")
}

pub fn total(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// Returns a checkpoint of one tensor `w` with `rows` rows of `row` elements.
pub fn checkpoint(dtype: &str, rows: usize, row: usize, tensor: &[u8]) -> Vec<u8> {
    checkpoint_of(dtype, rows, row, &[("w", tensor)])
}

/// Returns a checkpoint of tensors that all have `rows` rows of `row` elements.
pub fn checkpoint_of(dtype: &str, rows: usize, row: usize, tensors: &[(&str, &[u8])]) -> Vec<u8> {
    let mut data = Vec::new();
    let entries: Vec<String> = tensors
        .iter()
        .map(|(name, tensor)| {
            let start = data.len();
            data.extend_from_slice(tensor);
            let end = data.len();
            format!(
                r#""{name}":{{"dtype":"{dtype}","shape":[{rows},{row}],"data_offsets":[{start},{end}]}}"#
            )
        })
        .collect();
    let header = format!("{{{}}}", entries.join(","));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(&data);
    file
}

/// Returns the packed file with an extra record in its integrity section.
pub fn with_record(packed: &[u8], tag: &[u8; 4], value: &[u8]) -> Vec<u8> {
    let (front, footer) = packed.split_at(packed.len() - 20);
    let (front, magic) = front.split_at(front.len() - 8);
    let (front, len) = front.split_last_chunk::<8>().expect("a length");
    let start = front.len() - usize::try_from(u64::from_le_bytes(*len)).expect("small");
    let mut payload = front[start..front.len() - 8].to_vec();
    payload.extend_from_slice(tag);
    payload.extend_from_slice(&(value.len() as u64).to_le_bytes());
    payload.extend_from_slice(value);
    payload.extend_from_slice(&checksum([payload.as_slice()]).to_le_bytes());
    let len = (payload.len() as u64).to_le_bytes();
    [&front[..start], &payload, &len, magic, footer].concat()
}
