//! What the targets share: opening files in memory, and running both engines on
//! the same input.

pub mod c;
pub mod reading;

use std::ops::Range;
use std::sync::LazyLock;
use std::sync::atomic::Ordering;

use zstn_core::catalog::{FileCatalog, FileOpener};
use zstn_core::checksum::ARE_IGNORED;
use zstn_core::container::safetensors::ShardIndex;
use zstn_core::model::{Model, ModelBuilder, Tensor};
use zstn_core::{Error, Result};

/// Longer results are not asked for: a fuzzer is to find defects, not memory.
pub const LIMIT_BYTES: u64 = 4 << 20;

/// C zstd on one thread.
pub static NATIVE: LazyLock<zstn::Engine> =
    LazyLock::new(|| zstn::Engine::new(1).expect("a thread"));

/// Runs `work` with checksums compared, and again with wrong ones accepted. The
/// argument says whether they count.
pub fn with_and_without_checksums(work: impl Fn(bool)) {
    for count in [true, false] {
        ARE_IGNORED.store(!count, Ordering::Relaxed);
        work(count);
    }
    ARE_IGNORED.store(false, Ordering::Relaxed);
}

/// Returns the first part of an input, whose length its first four bytes give,
/// and the rest. Inputs of two files are like this.
#[must_use]
pub fn pair(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = input.split_first_chunk::<4>()?;
    rest.split_at_checked(usize::try_from(u32::from_le_bytes(*len)).ok()?)
}

/// Opens a file as a reader does that fetches ranges of it.
///
/// # Errors
/// What the file has wrong.
pub fn catalog(file: &[u8]) -> Result<FileCatalog> {
    let len_bytes = file.len() as u64;
    let head = part(file, 0..FileOpener::head_len_bytes(len_bytes)).to_vec();
    let mut opener = FileOpener::new(len_bytes, head)?;
    loop {
        let needs = opener.needs()?;
        if needs.is_empty() {
            return opener.finish(&*NATIVE);
        }
        for range in needs {
            opener.supply(range.start, part(file, range))?;
        }
    }
}

/// Opens a model of one file, with its `config.json` if there is one.
///
/// # Errors
/// What the file has wrong.
pub fn model(file: &[u8], config: Option<&[u8]>) -> Result<Model> {
    model_of(&[file], None, config)
}

/// Opens a model of several files in the order of its index, as [`model`] does.
///
/// # Errors
/// Malformed files, or an index that contradicts them.
pub fn model_of(
    files: &[&[u8]],
    index: Option<&ShardIndex>,
    config: Option<&[u8]>,
) -> Result<Model> {
    let catalogs = files.iter().map(|file| catalog(file));
    let mut builder = ModelBuilder::new(catalogs.collect::<Result<_>>()?, index, config)?;
    for (number, range) in builder.needs() {
        builder.supply(number, range.start, part(files[number], range));
    }
    builder.finish(&*NATIVE)
}

/// Returns the stored bytes of a tensor's parts, in their order.
#[must_use]
pub fn parts<'a>(tensor: &Tensor, files: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let parts = tensor.parts.iter();
    parts
        .map(|stored| part(files[stored.file], stored.stored.clone()))
        .collect()
}

/// Returns a range of a file.
///
/// # Panics
/// If the file ends before it, which a reader must never ask for.
#[must_use]
pub fn part(file: &[u8], range: Range<u64>) -> &[u8] {
    let at = |offset| usize::try_from(offset).expect("an offset in the file");
    &file[at(range.start)..at(range.end)]
}

/// Compares what C zstd and the decoder in Rust made of one input. C zstd may
/// accept what the other one refuses, never the other way round.
///
/// # Panics
/// If they differ.
pub fn agree<T: PartialEq>(by_c: &Result<T>, by_rust: &Result<T>) {
    match (by_c, by_rust) {
        (Ok(by_c), Ok(by_rust)) => assert!(by_c == by_rust, "the engines disagree"),
        (Err(error), Ok(_)) => panic!("only C zstd refuses it: {error}"),
        (Err(error), Err(_)) => speak(error),
        (Ok(_), Err(error)) => speak(error),
    }
}

/// Writes the text of an error, which must not fail either.
pub fn speak(error: &Error) {
    assert!(!error.to_string().is_empty());
}

/// Changes bytes in place every other time, so that lengths and offsets in other
/// parts of an input stay right; otherwise as libFuzzer does. Returns the new length.
pub fn mutate(data: &mut [u8], len: usize, max_len: usize, seed: u32) -> usize {
    /// The longest run of bytes that is changed in place.
    const MAX_RUN_BYTES: usize = 64;
    if seed & 1 == 0 || len == 0 {
        return libfuzzer_sys::fuzzer_mutate(data, len, max_len);
    }
    let at = seed as usize / 2 % len;
    let run = (MAX_RUN_BYTES >> (seed >> 29)).clamp(1, len - at);
    let mut changed = data[at..at + run].to_vec();
    let new_len = libfuzzer_sys::fuzzer_mutate(&mut changed, run, run);
    data[at..at + new_len.min(run)].copy_from_slice(&changed[..new_len.min(run)]);
    len
}

/// Has a target mutate its inputs by [`mutate`].
#[macro_export]
macro_rules! keep_lengths {
    () => {
        libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
            $crate::mutate(data, size, max_size, seed)
        });
    };
}
