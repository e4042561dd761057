//! Code shared by the fuzz targets: opening files in memory, and running both engines
//! on the same input.

pub mod c;

use std::ops::Range;
use std::sync::LazyLock;
use std::sync::atomic::Ordering;

use zstn_core::catalog::{FileCatalog, FileKind, FileOpener};
use zstn_core::checksum::ARE_IGNORED;
use zstn_core::container::safetensors::ShardIndex;
use zstn_core::model::{Model, ModelBuilder, TensorInfo};
use zstn_core::pure::Pure;
use zstn_core::{Error, Result};

/// Maximum length in bytes of results; a fuzzer should find defects rather than exhaust
/// memory.
pub const LIMIT_BYTES: u64 = 4 << 20;

/// The engine that uses C zstd, with one thread.
pub static NATIVE: LazyLock<zstn::Engine> =
    LazyLock::new(|| zstn::Engine::new(1).expect("a thread"));

/// Runs `work` twice: with checksums verified, and with wrong ones accepted. The
/// argument of `work` is whether checksums are verified.
pub fn with_and_without_checksums(work: impl Fn(bool)) {
    for count in [true, false] {
        ARE_IGNORED.store(!count, Ordering::Relaxed);
        work(count);
    }
    ARE_IGNORED.store(false, Ordering::Relaxed);
}

/// Splits an input into two files. Its first four bytes are the length of the first
/// file.
#[must_use]
pub fn pair(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = input.split_first_chunk::<4>()?;
    rest.split_at_checked(usize::try_from(u32::from_le_bytes(*len)).ok()?)
}

/// Opens a file as a reader does that fetches ranges.
///
/// # Errors
/// If the file is malformed.
pub fn catalog(file: &[u8]) -> Result<FileCatalog> {
    named_catalog("", file)
}

/// Opens a file like [`catalog`], whose name may determine its format.
///
/// # Errors
/// If the file is malformed.
pub fn named_catalog(name: &str, file: &[u8]) -> Result<FileCatalog> {
    let len_bytes = file.len() as u64;
    let head = part(file, 0..FileOpener::head_len_bytes(len_bytes)).to_vec();
    let mut opener = FileOpener::named(name, len_bytes, head)?;
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

/// Opens a single-file model, with its `config.json` if given.
///
/// # Errors
/// If a file is malformed.
pub fn model(file: &[u8], config: Option<&[u8]>) -> Result<Model> {
    model_of(&[file], None, config)
}

/// Opens a sharded model, with its files in the order of the index.
///
/// # Errors
/// If a file is malformed, or the index contradicts the files.
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

/// Returns the stored bytes of a tensor's parts, in order.
#[must_use]
pub fn parts<'a>(tensor: &TensorInfo, files: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let parts = tensor.parts.iter();
    parts
        .map(|stored| part(files[stored.file], stored.stored.clone()))
        .collect()
}

/// Returns a range of a file.
///
/// # Panics
/// If the range extends past the end of the file, which a reader must never request.
#[must_use]
pub fn part(file: &[u8], range: Range<u64>) -> &[u8] {
    let at = |offset| usize::try_from(offset).expect("an offset in the file");
    &file[at(range.start)..at(range.end)]
}

/// Compares the results of C zstd and of the Rust decoder for one input. C zstd may
/// accept input that the Rust decoder refuses, but not vice versa.
///
/// # Panics
/// If the results differ in another way.
pub fn agree<T: PartialEq>(by_c: &Result<T>, by_rust: &Result<T>) {
    match (by_c, by_rust) {
        (Ok(by_c), Ok(by_rust)) => assert!(by_c == by_rust, "the engines disagree"),
        (Err(error), Ok(_)) => panic!("only C zstd refuses it: {error}"),
        (Err(error), Err(_)) => speak(error),
        (Ok(_), Err(error)) => speak(error),
    }
}

/// Formats an error, which must not fail either.
pub fn speak(error: &Error) {
    assert!(!error.to_string().is_empty());
}

/// Mutates an input, and returns its new length. For odd seeds, it changes bytes in
/// place, so that lengths and offsets elsewhere stay correct; for even seeds, it
/// mutates as libFuzzer does.
pub fn mutate(data: &mut [u8], len: usize, max_len: usize, seed: u32) -> usize {
    /// Maximum length of a run of bytes that is changed in place.
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

/// Makes a target mutate its inputs with [`mutate`].
#[macro_export]
macro_rules! keep_lengths {
    () => {
        libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
            $crate::mutate(data, size, max_size, seed)
        });
    };
}

/// Number of tensors that are read per model.
const TENSORS: usize = 6;

/// Decodes tensors of `files`, and rows of them, with both engines. If
/// `checksums_count`, the rows must equal the same rows of the whole tensor.
///
/// # Panics
/// If the engines disagree, or the rows differ from the whole tensor.
pub fn read(model: &Model, files: &[&[u8]], checksums_count: bool) {
    for (number, tensor) in model.tensors().iter().enumerate().take(TENSORS) {
        if tensor.len_bytes() > LIMIT_BYTES || tensor.base.is_some() {
            continue;
        }
        let parts = parts(tensor, files);
        let whole = model.decode(&*NATIVE, number, &parts, None);
        agree(&whole, &model.decode(&Pure, number, &parts, None));
        let whole = whole.ok().filter(|_| checksums_count);
        read_rows(model, files, number, whole.as_deref());
    }
}

/// Reads some rows, and compares them with the `whole` tensor.
fn read_rows(model: &Model, files: &[&[u8]], number: usize, whole: Option<&[u8]>) {
    let count = model.tensors()[number].shape.first().copied().unwrap_or(0);
    let table = model.block_table(number, &[]);
    let table = table.map(|(of, range)| part(files[of], range));
    for rows in [0..count.min(1), count / 3..count / 2, count / 2..count] {
        let planned = match model.rows(number, rows, table) {
            Ok(planned) if !planned.is_whole() => planned,
            Ok(_) => continue,
            Err(error) => return speak(&error),
        };
        let fetched: Vec<&[u8]> = planned
            .ranges()
            .map(|(of, range)| part(files[of], range))
            .collect();
        match (planned.decode(&Pure, &fetched, None), whole) {
            (Ok(rows), Some(whole)) => assert!(rows == part(whole, planned.span())),
            (Err(error), _) => speak(&error),
            _ => {}
        }
    }
}

/// Reads a file with [`read`] if it has this format. Targets that differ only in the
/// format have separate corpora.
pub fn read_kind(file: &[u8], kind: FileKind) {
    with_and_without_checksums(|checksums_count| {
        let name = format!("file.{}", kind.extension());
        let catalog = match named_catalog(&name, file) {
            Ok(catalog) if catalog.kind() == kind => catalog,
            Ok(_) => return,
            Err(error) => return speak(&error),
        };
        let builder = ModelBuilder::new(vec![catalog], None, None);
        match builder.and_then(|builder| builder.finish(&*NATIVE)) {
            Ok(model) => read(&model, &[file], checksums_count),
            Err(error) => speak(&error),
        }
    });
}
