//! Builds zTensor files of version 2, well-formed or not (docs/formats/ztensor.md 8).
#![allow(missing_docs)]

use zstn_core::container::zstn::integrity::checksum;

pub const MAGIC: &[u8; 8] = b"\x89ZT2\r\n\x1a\n";
pub const PAGE_BYTES: usize = 4096;

pub fn text(text: &str) -> Vec<u8> {
    [head(3, text.len()), text.as_bytes().to_vec()].concat()
}

pub fn number(number: usize) -> Vec<u8> {
    head(0, number)
}

pub fn array(items: &[Vec<u8>]) -> Vec<u8> {
    [head(4, items.len()), items.concat()].concat()
}

/// Encodes a map with its keys in the order of CBOR's deterministic encoding.
pub fn map(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut pairs: Vec<_> = entries
        .iter()
        .map(|(key, value)| (text(key), value.clone()))
        .collect();
    pairs.sort();
    let pairs = pairs.into_iter().flat_map(|(key, value)| [key, value]);
    [head(5, entries.len())]
        .into_iter()
        .chain(pairs)
        .flatten()
        .collect()
}

/// Encodes the head of a CBOR item in the shortest form.
fn head(major: u8, number: usize) -> Vec<u8> {
    let major = major << 5;
    if let Ok(number @ 0..24) = u8::try_from(number) {
        vec![major | number]
    } else if let Ok(number) = u8::try_from(number) {
        vec![major | 24, number]
    } else if let Ok(number) = u16::try_from(number) {
        [&[major | 25][..], &number.to_be_bytes()].concat()
    } else {
        let number = u32::try_from(number).expect("a small number");
        [&[major | 26][..], &number.to_be_bytes()].concat()
    }
}

/// Returns a part of `len_bytes` in the blob of page `page`, counted from 0 after the
/// magic.
pub fn part(page: usize, dtype: &str, len_bytes: usize, fields: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let place = array(&[number((page + 1) * PAGE_BYTES), number(len_bytes)]);
    map(&[&[("blob", place), ("dtype", text(dtype))], fields].concat())
}

pub fn tensor(shape: &[usize], layout: &str, parts: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let shape: Vec<_> = shape.iter().map(|&dimension| number(dimension)).collect();
    map(&[
        ("shape", array(&shape)),
        ("layout", text(layout)),
        ("parts", map(parts)),
    ])
}

/// Returns a file whose manifest has the entries `root`, with a page for each blob.
pub fn file(root: &[(&str, Vec<u8>)], blobs: &[&[u8]]) -> Vec<u8> {
    let mut file = heap(blobs);
    let manifest = map(root);
    let footer = [
        file.len() as u64,
        manifest.len() as u64,
        checksum([manifest.as_slice()]),
    ];
    file.extend_from_slice(&manifest);
    finish(file, footer)
}

/// Returns a file without a manifest, which holds blobs for other files.
pub fn data_shard(blobs: &[&[u8]]) -> Vec<u8> {
    finish(heap(blobs), [0; 3])
}

fn heap(blobs: &[&[u8]]) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    file.resize(PAGE_BYTES, 0);
    for blob in blobs {
        let next = file.len() + PAGE_BYTES;
        file.extend_from_slice(blob);
        assert!(file.len() <= next, "a blob is longer than its page");
        file.resize(next, 0);
    }
    file
}

fn finish(mut file: Vec<u8>, footer: [u64; 3]) -> Vec<u8> {
    file.extend(footer.iter().flat_map(|field| field.to_le_bytes()));
    file.extend_from_slice(&[2, 0, 0, 0, 0, 0, 0, 0]);
    file.extend_from_slice(MAGIC);
    file
}
