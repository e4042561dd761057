//! Valid and invalid records of an integrity section, and its copy of a long header,
//! which spares a reader from fetching the header (docs/formats/zstn-integrity.md 6).

use std::ops::Range;

use zstn::{Job, PackOptions};
use zstn_core::Rule;
use zstn_core::catalog::{FileCatalog, FileOpener};
use zstn_core::container::zstn::integrity::{FIXED_BYTES, checksum};
use zstn_core::container::zstn::{
    ContainerOptions, IncrementalPacker, pack, promises_header_copy, unpack,
};
use zstn_core::frame::select::Effort;
use zstn_core::pure::Pure;
use zstn_tests::{cases, sha256, with_header};

use super::{Disk, FOOTER_BYTES, TRAILER_BYTES, native, original, packed, read_all};

/// Returns the range of the section and its records.
pub fn section(packed: &[u8]) -> (Range<usize>, Vec<(String, Vec<u8>)>) {
    let end = packed.len() - FOOTER_BYTES;
    let number = |at: usize| {
        let bytes = packed[at..at + 8].try_into().expect("eight");
        usize::try_from(u64::from_le_bytes(bytes)).expect("small")
    };
    assert_eq!(&packed[end - 8..end], b"ZSTNINTG");
    let start = end - TRAILER_BYTES - number(end - TRAILER_BYTES);
    assert_eq!(number(end), start - number(end + 8), "it follows the index");
    let mut records = Vec::new();
    let mut at = start + 2;
    while at < end - TRAILER_BYTES - 8 {
        let tag = String::from_utf8(packed[at..at + 4].to_vec()).expect("ASCII");
        let value = at + 12..at + 12 + number(at + 4);
        at = value.end;
        records.push((tag, packed[value].to_vec()));
    }
    (start..end, records)
}

/// Returns the file with a section that has these records and a correct checksum.
pub fn with_records(packed: &[u8], version: u16, records: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut payload = version.to_le_bytes().to_vec();
    for (tag, value) in records {
        payload.extend_from_slice(tag.as_bytes());
        payload.extend_from_slice(&(value.len() as u64).to_le_bytes());
        payload.extend_from_slice(value);
    }
    payload.extend_from_slice(&checksum([payload.as_slice()]).to_le_bytes());
    let len = payload.len() as u64;
    let place = section(packed).0;
    let behind = &packed[place.end..];
    [
        &packed[..place.start],
        &payload,
        &len.to_le_bytes(),
        b"ZSTNINTG",
        behind,
    ]
    .concat()
}

pub fn rule<T>(result: zstn::Result<T>) -> (Option<Rule>, Option<String>) {
    match result.err() {
        Some(zstn::Error::Format { source, .. } | zstn::Error::Core(source)) => {
            (source.rule(), source.tensor_name().map(Into::into))
        }
        _ => (None, None),
    }
}

#[test]
fn a_section_is_what_the_format_says() {
    let (original, packed) = (original(), packed());
    let (place, records) = section(&packed);
    // `FIXED_BYTES` includes a 12-byte head for a record that short frames do not need;
    // the head of the statistics record is as long.
    assert_eq!(
        place.len() as u64,
        FIXED_BYTES + 40 * 4 + records[4].1.len() as u64,
        "the tied tensor has no entry"
    );
    let tags: Vec<&str> = records.iter().map(|(tag, _)| tag.as_str()).collect();
    assert_eq!(tags, ["FILE", "HEAD", "FRMS", "TENS", "STAT"]);
    let file = &records[0].1;
    assert_eq!(file[..8], (original.len() as u64).to_le_bytes());
    let hex: String = file[8..].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, sha256(&original));
    assert!(with_records(&packed, 1, &records) == packed);
}

#[test]
fn a_wrong_section_is_refused_where_it_is_used() {
    let (packed, disk) = (packed(), Disk::new());
    let records = section(&packed).1;
    let changed = |tag: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let mut records = records.clone();
        let found = records.iter_mut().find(|record| record.0 == tag);
        change(&mut found.expect("there").1);
        with_records(&packed, 1, &records)
    };
    let on_opening = |file: &[u8], expected: Rule| {
        assert_eq!(rule(read_all(file)), (Some(expected), None));
        assert_eq!(rule(disk.unpack(file)), (Some(expected), None));
        assert_eq!(rule(disk.verify(file)), (Some(expected), None));
        assert_eq!(
            unpack(&Pure, file).expect_err("wrong").rule(),
            Some(expected)
        );
    };
    let flip = |at: usize| move |value: &mut Vec<u8>| value[at] ^= 1;
    on_opening(&changed("FILE", &flip(0)), Rule::ZstnFileDigest);
    on_opening(&changed("HEAD", &flip(0)), Rule::ZstnHeadChecksum);
    on_opening(&changed("HEAD", &flip(8)), Rule::ZstnHeadChecksum);
    for (tag, entry) in [("FRMS", 8), ("TENS", 32)] {
        let longer = |value: &mut Vec<u8>| value.resize(value.len() + entry, 0);
        on_opening(&changed(tag, &longer), Rule::ZstnIntegrity);
        let odd = |value: &mut Vec<u8>| value.truncate(value.len() - 1);
        on_opening(&changed(tag, &odd), Rule::ZstnIntegrity);
        let none = |value: &mut Vec<u8>| value.clear();
        on_opening(&changed(tag, &none), Rule::ZstnIntegrity);
    }
    // The third entry belongs to `zeros`, because `tied` has none.
    for (tag, at, expected) in [
        ("FRMS", 2 * 8, Rule::ZstnFrameChecksum),
        ("TENS", 2 * 32, Rule::ZstnTensorDigest),
    ] {
        let file = changed(tag, &flip(at));
        let named = (Some(expected), Some("zeros".into()));
        assert_eq!(rule(read_all(&file)), named);
        assert_eq!(rule(disk.unpack(&file)), named);
        assert_eq!(rule(disk.verify(&file)), named);
        let error = unpack(&Pure, &file).expect_err("wrong");
        assert_eq!(
            (error.rule(), error.tensor_name()),
            (Some(expected), Some("zeros"))
        );
    }
    // Decoding the whole file compares its digest and the statistics. Single tensors
    // have their own digests.
    for (tag, at, expected) in [
        ("FILE", 20, Rule::ZstnFileDigest),
        ("STAT", 5, Rule::ZstnStatistics),
    ] {
        let file = changed(tag, &flip(at));
        assert_eq!(read_all(&file).expect("right tensors").len(), 5);
        assert_eq!(rule(disk.unpack(&file)).0, Some(expected));
        assert_eq!(rule(disk.verify(&file)).0, Some(expected));
        let error = unpack(&Pure, &file).expect_err("wrong");
        assert_eq!(error.rule(), Some(expected));
        assert!(!disk.path("m.safetensors").exists());
    }
}

#[test]
fn unknown_and_missing_records_are_accepted_and_nothing_else() {
    let (original, packed, disk) = (original(), packed(), Disk::new());
    let truth = read_all(&packed).expect("in order");
    let records = section(&packed).1;
    let mut more = records.clone();
    more.insert(1, ("XTRA".into(), b"whatever".to_vec()));
    for (file, has_digests) in [
        (with_records(&packed, 1, &more), true),
        (with_records(&packed, 1, &records[3..]), false),
    ] {
        assert!(read_all(&file).expect("in order") == truth);
        assert!(disk.unpack(&file).expect("in order") == original);
        assert_eq!(disk.verify(&file).expect("in order"), has_digests);
        assert!(unpack(&Pure, &file).expect("in order") == original);
    }
    let place = section(&packed).0;
    let around = |between: &[u8]| [&packed[..place.start], between, &packed[place.end..]].concat();
    let section = &packed[place.clone()];
    for file in [
        around(b"bytes that are no section"),
        around(&[b"more", section].concat()),
        around(&[section, b"more"].concat()),
        around(b""),
        with_records(&packed, 2, &records),
    ] {
        assert!(read_all(&file).is_err());
        assert!(disk.unpack(&file).is_err());
        assert!(disk.verify(&file).is_err());
        assert!(unpack(&Pure, &file).is_err());
    }
}

/// Returns the file without section and statistics, in the version that does not
/// announce them.
fn bare(packed: &[u8]) -> Vec<u8> {
    let place = section(packed).0;
    let mut bare = [&packed[..place.start], &packed[place.end..]].concat();
    assert_eq!(bare[5], 5, "an index, and a section");
    bare[5] = 1;
    bare
}

#[test]
fn the_section_can_be_left_out() {
    let (original, packed, disk) = (original(), packed(), Disk::new());
    let bare = bare(&packed);
    assert!(disk.unpack(&bare).expect("in order") == original);

    let input = disk.path("plain.safetensors");
    std::fs::write(&input, &original).expect("written");
    let target = disk.path("bare.zstn");
    let options = PackOptions::default().integrity(false);
    zstn::pack(&Job::new().engine(&disk.engine), &input, &target, &options).expect("packs");
    assert!(std::fs::read(&target).expect("there") == bare);

    let len = original.len() as u64;
    let mut packing = IncrementalPacker::new(len, ContainerOptions::default().integrity(false));
    let mut out = Vec::new();
    while let Some(range) = packing.needs() {
        let bytes = zstn_core::bytes::part(&original, range);
        out.extend(packing.supply(&Pure, bytes).expect("packs"));
    }
    assert!(!out.windows(8).any(|bytes| bytes == b"ZSTNINTG"));
    assert!(unpack(&Pure, &out).expect("in order") == original);
    assert!(!disk.verify(&out).expect("in order"));
}

#[test]
fn files_of_z4ai_hold_none() {
    let disk = Disk::new();
    let case = cases::containers()
        .into_iter()
        .find(|case| case.made_by.as_deref() == Some("z4ai 0.2.0") && case.tensors().len() > 2)
        .expect("one of z4ai's");
    assert!(!disk.verify(&case.packed()).expect("in order"));
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
    with_header(header, data)
}

fn packed_tensors(count: usize) -> Vec<u8> {
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
    let (original, packed) = (checkpoint(10_000), packed_tensors(10_000));
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
    let short = packed_tensors(300);
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
    let file = packed_tensors(1000);
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
    let file = packed_tensors(1000);
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
        let file = with_section(&packed_tensors(1000), |payload| {
            let at = find(payload, tag);
            payload[at] = b'x';
        });
        let refusal = open(&file).expect_err("refused");
        assert_eq!(refusal.rule(), Some(Rule::ZstnIntegrity), "{refusal}");
    }
}

#[test]
fn damage_shows() {
    let file = packed_tensors(700);
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
