//! Malformed zTensor files that the vectors of version 2 do not cover.

use zstn_core::Rule;
use zstn_core::container::foreign::ztensor::{SourceTensor, TensorLayout, ZTensorWriter};
use zstn_core::container::zstn::integrity::checksum;
use zstn_core::dtype::Dtype;
use zstn_core::engine::Engine;

use super::{Case, read_all};

const MAGIC: &[u8; 8] = b"\x89ZT2\r\n\x1a\n";
const PAGE_BYTES: usize = 4096;

fn text(text: &str) -> Vec<u8> {
    let head = 0x60 | u8::try_from(text.len()).expect("a short text");
    [&[head], text.as_bytes()].concat()
}

fn number(number: u16) -> Vec<u8> {
    match u8::try_from(number) {
        Ok(byte) if byte < 24 => vec![byte],
        Ok(byte) => vec![0x18, byte],
        Err(_) => [&[0x19], &number.to_be_bytes()[..]].concat(),
    }
}

fn array(items: &[Vec<u8>]) -> Vec<u8> {
    let head = 0x80 | u8::try_from(items.len()).expect("few items");
    [vec![head], items.concat()].concat()
}

/// Encodes a map with its keys in the order of CBOR's deterministic encoding.
fn map(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let head = 0xA0 | u8::try_from(entries.len()).expect("few entries");
    let mut pairs: Vec<_> = entries
        .iter()
        .map(|(key, value)| (text(key), value))
        .collect();
    pairs.sort();
    let pairs = pairs
        .into_iter()
        .flat_map(|(key, value)| [key, value.clone()].concat());
    [head].into_iter().chain(pairs).collect()
}

/// Returns a version 2 file with one dense tensor of one byte. `part` lists the entries
/// of its part other than the location of `blob`.
fn version_2(name: &str, part: &[(&str, Vec<u8>)], blob: &[u8]) -> Vec<u8> {
    let blob_len = u16::try_from(blob.len()).expect("a small blob");
    let place = array(&[number(4096), number(blob_len)]);
    let part = [&[("blob", place), ("dtype", text("u8"))], part].concat();
    file(name, &[("data", map(&part))], blob)
}

/// Returns a version 2 file with one dense tensor of one byte and these parts.
fn file(name: &str, parts: &[(&str, Vec<u8>)], blob: &[u8]) -> Vec<u8> {
    let tensor = map(&[
        ("shape", array(&[number(1)])),
        ("layout", text("dense")),
        ("parts", map(parts)),
    ]);
    let manifest = map(&[("objects", map(&[(name, tensor)]))]);
    let mut file = MAGIC.to_vec();
    file.resize(PAGE_BYTES, 0);
    file.extend_from_slice(blob);
    file.resize(2 * PAGE_BYTES, 0);
    let footer = [
        file.len() as u64,
        manifest.len() as u64,
        checksum([manifest.as_slice()]),
    ];
    file.extend_from_slice(&manifest);
    file.extend(footer.iter().flat_map(|field| field.to_le_bytes()));
    file.extend_from_slice(&[2, 0, 0, 0, 0, 0, 0, 0]);
    file.extend_from_slice(MAGIC);
    file
}

/// Returns a version 0.1 file with a one-dimensional tensor whose format is sparse
/// rows.
fn rows_of_a_vector() -> Vec<u8> {
    let (mut writer, magic) = ZTensorWriter::new();
    let entry = SourceTensor {
        layout: TensorLayout::PackedCsr,
        ..Entry::dense("t", Dtype::U8, &[8])
    };
    let mut file = magic.to_vec();
    let blob = [0; 16];
    file.extend_from_slice(writer.add(&entry, &blob).expect("nothing is checked here"));
    file.extend_from_slice(&blob);
    file.extend_from_slice(&writer.finish());
    file
}

pub fn cases(engine: &impl Engine) -> Vec<Case> {
    let read = |file: Vec<u8>| read_all(engine, &file);
    read(version_2("t", &[], b"x")).expect("in order");
    let seekable = [
        ("encoding", text("zt.zstd-seekable/1")),
        ("decoded_length", number(1)),
    ];
    vec![
        (Rule::ZTensorName, read(version_2("", &[], b"x"))),
        (Rule::ZTensorLayout, read(file("t", &[], b""))),
        (
            Rule::ZTensorBool,
            read(version_2("t", &[("type", text("bool"))], &[2])),
        ),
        (
            Rule::ZTensorSeekTable,
            read(version_2("t", &seekable, &[0; 9])),
        ),
        (Rule::ZTensorSparse, read(rows_of_a_vector())),
    ]
}
