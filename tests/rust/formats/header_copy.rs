//! The copy of a long header in the integrity section. A reader that has the copy does
//! not fetch the header (docs/formats/zstn-integrity.md 6).

use std::ops::Range;
use zstn_core::container::zstn::ContainerOptions;

use zstn::Engine;
use zstn_core::Rule;
use zstn_core::catalog::{FileCatalog, FileOpener};
use zstn_core::container::zstn::integrity::checksum;
use zstn_core::container::zstn::{IncrementalPacker, pack, promises_header_copy, unpack};
use zstn_core::frame::select::Effort;
use zstn_core::pure::Pure;

fn native() -> Engine {
    Engine::new(1).expect("a thread")
}

/// Returns a checkpoint of `count` small tensors and a metadata string. Its header
/// takes about 90 bytes per tensor.
fn checkpoint(count: usize) -> Vec<u8> {
    let entries: Vec<String> = (0..count)
        .map(|i| {
            let (start, end) = (4 * i, 4 * i + 4);
            format!("\"layers.{i}.weight\":{{\"dtype\":\"U8\",\"shape\":[2,2],\"data_offsets\":[{start},{end}]}}")
        })
        .collect();
    let header = format!(
        "{{\"__metadata__\":{{\"k\":\"v\"}}, {} }}",
        entries.join(",")
    );
    let data: Vec<u8> = (0u32..).take(count).flat_map(u32::to_le_bytes).collect();
    let len = (header.len() as u64).to_le_bytes();
    [&len[..], header.as_bytes(), &data].concat()
}

fn packed(count: usize) -> Vec<u8> {
    pack(&native(), &checkpoint(count), Effort::Balanced).expect("packs")
}

/// Opens the file as an HTTP reader does. Returns the ranges read after the head.
fn open(file: &[u8]) -> zstn_core::Result<(FileCatalog, Vec<Vec<Range<u64>>>)> {
    let len = file.len() as u64;
    let part = |range: Range<u64>| zstn_core::bytes::part(file, range);
    let mut opening = FileOpener::new(len, part(0..FileOpener::head_len_bytes(len)).to_vec())?;
    let mut trips = Vec::new();
    loop {
        let needs = opening.needs()?;
        if needs.is_empty() {
            return Ok((opening.finish(&Pure)?, trips));
        }
        for range in &needs {
            opening.supply(range.start, part(range.clone()))?;
        }
        trips.push(needs);
    }
}

#[test]
fn ten_thousand_tensors_take_two_requests() {
    let (original, packed) = (checkpoint(10_000), packed(10_000));
    assert!(promises_header_copy(&packed));
    let (catalog, trips) = open(&packed).expect("opens");
    assert_eq!(
        trips.iter().map(Vec::len).collect::<Vec<_>>(),
        [1],
        "{trips:?}"
    );
    let header_len = u64::from_le_bytes(original[..8].try_into().expect("eight"));
    assert!(
        trips[0][0].start > 22 + header_len,
        "the header was not read"
    );
    assert_eq!(catalog.tensors().len(), 10_000);
    assert_eq!(catalog.metadata()["k"], "v");
    let header = zstn_core::bytes::part(&original, 8..8 + header_len);
    assert_eq!(catalog.original_header(), Some(header));
    assert!(unpack(&native(), &packed).expect("unpacks") == original);
}

#[test]
fn a_header_that_comes_with_the_head_is_not_copied() {
    let short = packed(300);
    assert!(!promises_header_copy(&short));
    let mut packing = IncrementalPacker::new(
        checkpoint(2000).len() as u64,
        ContainerOptions::new(Effort::Fast).integrity(false),
    );
    let mut bare = Vec::new();
    while let Some(range) = packing.needs() {
        let bytes = zstn_core::bytes::part(&checkpoint(2000), range).to_vec();
        bare.extend(packing.supply(&Pure, &bytes).expect("packs"));
    }
    assert!(
        !promises_header_copy(&bare),
        "without a section there is no copy"
    );
    assert_eq!(open(&bare).expect("opens").1[0].len(), 2, "header and tail");
}

/// Returns the file with its integrity records changed and the section's checksum
/// recomputed.
fn with_section(packed: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let (front, footer) = packed.split_at(packed.len() - 20);
    let (front, magic) = front.split_at(front.len() - 8);
    let (front, len) = front.split_last_chunk::<8>().expect("a length");
    let start = front.len() - usize::try_from(u64::from_le_bytes(*len)).expect("small");
    let mut payload = front[start..front.len() - 8].to_vec();
    change(&mut payload);
    payload.extend_from_slice(&checksum([payload.as_slice()]).to_le_bytes());
    let len = (payload.len() as u64).to_le_bytes();
    [&front[..start], &payload, &len, magic, footer].concat()
}

fn find(payload: &[u8], tag: &[u8; 4]) -> usize {
    let mut tags = payload.windows(4);
    tags.position(|window| window == tag).expect("the record")
}

#[test]
fn a_copy_of_another_header_is_refused() {
    let file = packed(1000);
    let original = checkpoint(1000);
    let header_len = u64::from_le_bytes(original[..8].try_into().expect("eight"));
    let header = zstn_core::bytes::part(&original, 8..8 + header_len);
    let header = String::from_utf8_lossy(header);
    let other = header.replace("layers.7.", "layerz.7.");
    let mut copy = Vec::new();
    zstn_core::engine::PackEngine::zstd_encode(
        &native(),
        other.as_bytes(),
        zstn_core::engine::ZstdCoding::Search(3),
        &mut copy,
    );
    let forged = with_section(&file, |payload| {
        let at = find(payload, b"JSON");
        payload.truncate(at + 4);
        payload.extend_from_slice(&(copy.len() as u64).to_le_bytes());
        payload.extend_from_slice(&copy);
    });
    let refusal = open(&forged).expect_err("refused");
    assert_eq!(refusal.rule(), Some(Rule::ZstnHeadChecksum), "{refusal}");
    // A reader that reads the header itself does not use the copy.
    assert!(unpack(&native(), &forged).expect("unpacks") == original);
}

#[test]
fn a_promised_copy_that_is_missing_costs_one_more_request() {
    let file = packed(1000);
    let without = with_section(&file, |payload| {
        let at = find(payload, b"JSON");
        payload[at..at + 4].copy_from_slice(b"Json");
    });
    let (catalog, trips) = open(&without).expect("opens");
    assert_eq!(catalog.tensors().len(), 1000);
    assert_eq!(trips.len(), 2, "{trips:?}");
}

#[test]
fn a_copy_without_checksums_is_refused() {
    for tag in [b"HEAD", b"FILE"] {
        let file = with_section(&packed(1000), |payload| {
            let at = find(payload, tag);
            payload[at] = b'x';
        });
        let refusal = open(&file).expect_err("refused");
        assert_eq!(refusal.rule(), Some(Rule::ZstnIntegrity), "{refusal}");
    }
}

#[test]
fn damage_shows() {
    let file = packed(700);
    let (catalog, _) = open(&file).expect("opens");
    let expected = catalog.tensors().to_vec();
    let section = file.len() - 12_000;
    let mut refused = 0;
    for bit in (0..14 * 8).chain((section * 8..file.len() * 8).step_by(37)) {
        let mut damaged = file.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        match open(&damaged) {
            Ok((catalog, _)) => assert!(catalog.tensors() == expected, "bit {bit}"),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 1000, "{refused}");
}
