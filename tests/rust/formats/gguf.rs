//! GGUF: files of the released writers decode to the values of llama.cpp, damaged ones
//! are refused or give the same values, and rows fetch only their own blocks.

use serde::Deserialize;
use serde_json::{Map, Value};
use zstn_core::bytes::{index, part};
use zstn_core::catalog::{FileCatalog, FileKind, FileOpener};
use zstn_core::container::foreign::gguf::{ElementCoding, ElementType, GgufHeader, ParsedHeader};
use zstn_core::pure::Pure;
use zstn_core::{ErrorKind, Rule};
use zstn_tests::cases::{self, Refusal, text};
use zstn_tests::foreign::{open_in_trips, read_tensors};
use zstn_tests::sha256;

const FOLDER: &str = "gguf";

#[derive(Deserialize)]
struct Vector {
    file: String,
    tensors: Vec<Tensor>,
    /// The expected text of metadata.
    #[serde(default)]
    metadata_text: Map<String, Value>,
}

#[derive(Deserialize)]
struct Tensor {
    name: String,
    stored: String,
    dtype: String,
    shape: Vec<u64>,
    offset: u64,
    length: u64,
    /// SHA-256 of the values, little-endian.
    values_sha256: String,
}

fn vectors() -> Vec<(Vector, Vec<u8>)> {
    let entries = cases::entries(FOLDER, "files").into_iter();
    entries
        .map(|entry| {
            let vector: Vector = serde_json::from_value(entry).expect("an entry");
            let file = cases::read(FOLDER, &vector.file);
            (vector, file)
        })
        .collect()
}

fn open(file: &[u8]) -> zstn_core::Result<FileCatalog> {
    open_in_trips(file).map(|(catalog, _)| catalog)
}

#[test]
fn vectors_decode_to_the_values_of_llama_cpp() {
    let mut stored_types = std::collections::BTreeSet::new();
    for (vector, file) in vectors() {
        let name = &vector.file;
        let catalog = open(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(catalog.kind(), FileKind::Gguf);
        assert_eq!(catalog.tensors().len(), vector.tensors.len(), "{name}");
        let values = read_tensors(&Pure, &file).expect(name);
        for (number, told) in vector.tensors.iter().enumerate() {
            let tensor = &catalog.tensors()[number];
            let place = format!("{name}/{}", told.name);
            assert_eq!(tensor.name, told.name, "{place}");
            assert_eq!(tensor.dtype.name(), told.dtype, "{place}");
            assert_eq!(tensor.shape, told.shape, "{place}");
            assert_eq!(tensor.stored.start, told.offset, "{place}");
            assert_eq!(tensor.stored_len_bytes(), told.length, "{place}");
            assert_eq!(sha256(&values[number]), told.values_sha256, "{place}");
            let stored = match catalog.gguf_coding(number).expect("a GGUF file") {
                ElementCoding::Blocks(element, _) => element.name(),
                _ => tensor.dtype.name(),
            };
            assert_eq!(stored, told.stored, "{place}");
            stored_types.insert(stored);
        }
    }
    let all = ElementType::ALL.iter().map(|element| element.name());
    let without: Vec<_> = all.filter(|name| !stored_types.contains(name)).collect();
    assert_eq!(without, ["Q2_0"], "types without a vector");
}

/// No released package converts Q2_0, so this test follows its description
/// (docs/formats/gguf.md 4).
#[test]
fn two_bits_with_one_scale_have_the_values_of_their_description() {
    let mut block = vec![0x00, 0x38];
    block.extend((0u8..16).map(|i| i.wrapping_mul(0x5b)));
    let coding = ElementCoding::Blocks(
        ElementType::Q2_0,
        zstn_core::container::foreign::gguf::ByteOrder::Little,
    );
    let decoded = coding.decode(&block).expect("a block");
    let values = decoded
        .as_chunks::<4>()
        .0
        .iter()
        .map(|b| f32::from_le_bytes(*b));
    let expected = (0..64).map(|i| {
        let code = block[2 + i / 4] >> (2 * (i % 4)) & 3;
        [-0.5, 0.0, 0.5, 1.0][usize::from(code)]
    });
    assert!(values.eq(expected));
}

#[test]
fn metadata_are_text_and_long_arrays_are_shortened() {
    let mut shown = 0;
    for (vector, file) in vectors() {
        let catalog = open(&file).expect(&vector.file);
        for (key, value) in &vector.metadata_text {
            assert_eq!(catalog.metadata().get(key), Some(&text(value)), "{key}");
            shown += 1;
        }
    }
    assert!(shown >= 19, "only {shown} entries");
}

#[test]
fn malformed_files_are_refused_for_their_rule() {
    let entries = cases::malformed("gguf-bad");
    assert!(entries.len() >= 45);
    for entry in entries {
        let name = text(&entry["file"]);
        let file = cases::named("gguf-bad", &entry);
        let parsed = GgufHeader::parse(&file, file.len() as u64);
        Refusal::of(&entry).expect("a rule").check(&name, parsed);
        let opened = read_tensors(&Pure, &file);
        Refusal::of_opened(&entry).check(&name, opened);
    }
}

/// Every part of a tensor decodes like the same bytes of the whole tensor, from no more
/// bytes than the blocks that it touches.
#[test]
fn parts_fetch_the_blocks_that_hold_them() {
    let mut parts = 0;
    for (vector, file) in vectors() {
        let catalog = open(&file).expect(&vector.file);
        let values = read_tensors(&Pure, &file).expect(&vector.file);
        for (number, value) in values.iter().enumerate() {
            let len = value.len() as u64;
            let (unit, stored_unit) = catalog.gguf_coding(number).expect("GGUF").unit_bytes();
            for start in [0, 1, 4, len / 2, len.saturating_sub(5)] {
                for end in [start, start + 1, start + 7, start + unit, len] {
                    if start > end || end > len {
                        continue;
                    }
                    let plan = catalog.plan(number, start..end, None).expect("inside");
                    let plan = plan.expect("every tensor has parts");
                    let ranges: Vec<_> = plan
                        .ranges()
                        .iter()
                        .map(|r| part(&file, r.clone()))
                        .collect();
                    let fetched: usize = ranges.iter().map(|range| range.len()).sum();
                    let units = end.div_ceil(unit).saturating_sub(start / unit);
                    let expected = if start == end { 0 } else { units * stored_unit };
                    assert_eq!(fetched as u64, expected);
                    let decoded = plan.decode(&Pure, &ranges, None).expect("decodes");
                    assert!(decoded == part(value, start..end), "{start}..{end}");
                    parts += 1;
                }
            }
        }
    }
    assert!(parts > 500, "only {parts} parts");
}

/// A file that was cut is refused, or its tensors have the same values: the padding at
/// its end may be missing.
#[test]
fn cut_files_are_refused_or_equal() {
    for name in ["metadata-types.gguf", "ranks.gguf", "odd-but-valid.gguf"] {
        let file = cases::read(FOLDER, name);
        let whole = read_tensors(&Pure, &file).expect(name);
        let mut refused = 0;
        for end in 0..file.len() {
            match read_tensors(&Pure, &file[..end]) {
                Ok(read) => assert!(read == whole, "{name}: {end}"),
                Err(_) => refused += 1,
            }
        }
        assert!(refused + 32 >= file.len(), "{name}: {refused} refusals");
    }
}

/// A tensor without elements has its place inside the file, even if the padding before
/// the data is missing.
#[test]
fn an_empty_tensor_needs_no_padding() {
    let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let header = [
        b"GGUF\x03\0\0\0",
        &1u64.to_le_bytes()[..],
        &1u64.to_le_bytes(),
        &text("general.architecture"),
        &8u32.to_le_bytes(),
        &text("test"),
        // A tensor of one dimension of size 0, in F32, at offset 0.
        &text("x"),
        &1u32.to_le_bytes(),
        &[0; 8 + 4 + 8],
    ]
    .concat();
    assert!(!header.len().is_multiple_of(32));
    let padded = [header.clone(), vec![0; 32 - header.len() % 32]].concat();
    for file in [&header, &padded] {
        let catalog = open(file).expect("in order");
        assert!(catalog.tensors()[0].stored.end <= file.len() as u64);
        assert_eq!(read_tensors(&Pure, file).expect("empty"), [[0u8; 0]]);
    }
}

/// No flipped byte causes a panic. Flips of the data change only the tensor that they
/// are in.
#[test]
fn flipped_files_are_refused_or_read() {
    for name in [
        "metadata-types.gguf",
        "ranks.gguf",
        "k-blocks.gguf",
        "split-00002-of-00002.gguf",
    ] {
        let mut file = cases::read(FOLDER, name);
        let catalog = open(&file).expect(name);
        let whole = read_tensors(&Pure, &file).expect(name);
        let first_byte = index(catalog.tensors()[0].stored.start);
        for at in 0..file.len() {
            for flip in [1, 0x80, 0xff] {
                file[at] ^= flip;
                let read = read_tensors(&Pure, &file);
                file[at] ^= flip;
                if at < first_byte {
                    continue;
                }
                let read = read.expect("the data have no rules");
                for (number, tensor) in catalog.tensors().iter().enumerate() {
                    let is_hit = tensor.stored.contains(&(at as u64));
                    assert!(is_hit || read[number] == whole[number], "{name}: {at}");
                }
            }
        }
    }
}

/// A header like the ones of real models: a tokenizer, then a list of tensors.
struct Header {
    bytes: Vec<u8>,
    entries: u64,
}

impl Header {
    fn string(&mut self, text: &str) {
        self.bytes.extend((text.len() as u64).to_le_bytes());
        self.bytes.extend(text.as_bytes());
    }

    fn array(&mut self, key: &str, of: u32, count: u64) {
        self.string(key);
        self.bytes.extend(9u32.to_le_bytes());
        self.bytes.extend(of.to_le_bytes());
        self.bytes.extend(count.to_le_bytes());
        self.entries += 1;
    }

    fn file(tokens: u64, tensors: u64) -> Vec<u8> {
        let mut header = Self {
            bytes: Vec::new(),
            entries: 0,
        };
        let word = |number: u64, header: &mut Self| {
            // Lengths vary, and are longer later in the list, as in real tokenizers.
            let len = index(2 + number * 7919 % 11 + number / (tokens / 4).max(1));
            header.string(&"tokenizer word"[..len.min(14)]);
        };
        header.array("tokenizer.ggml.tokens", 8, tokens);
        (0..tokens).for_each(|number| word(number, &mut header));
        header.array("tokenizer.ggml.token_type", 5, tokens);
        header
            .bytes
            .extend(std::iter::repeat_n(0, index(tokens) * 4));
        header.array("tokenizer.ggml.merges", 8, tokens);
        (0..tokens).for_each(|number| word(number, &mut header));
        let mut file = b"GGUF".to_vec();
        file.extend(3u32.to_le_bytes());
        file.extend(tensors.to_le_bytes());
        file.extend(header.entries.to_le_bytes());
        file.append(&mut header.bytes);
        for number in 0..tensors {
            header.string(&format!("blk.{number}.ffn_down.weight"));
            header.bytes.extend(1u32.to_le_bytes());
            header.bytes.extend(8u64.to_le_bytes());
            header.bytes.extend(0u32.to_le_bytes());
            header.bytes.extend((32 * number).to_le_bytes());
        }
        file.append(&mut header.bytes);
        file.resize(file.len().next_multiple_of(32) + 32 * index(tensors), 1);
        file
    }
}

#[test]
fn a_header_takes_few_requests_and_few_more_bytes_than_it_has() {
    for (tokens, tensors, most_trips) in [
        (10, 20, 1),
        (100, 1000, 2),
        (32_000, 290, 4),
        (150_000, 500, 4),
    ] {
        let file = Header::file(tokens, tensors);
        // The data are longer in real files, so the end of this one is not a help.
        let len = file.len() as u64 + (1 << 30);
        let padded = |range: std::ops::Range<u64>| {
            let end = (file.len() as u64).min(range.end);
            let mut bytes = part(&file, range.start.min(end)..end).to_vec();
            bytes.resize(index(range.end - range.start), 1);
            bytes
        };
        let mut opener =
            FileOpener::new(len, padded(0..FileOpener::head_len_bytes(len))).expect("GGUF");
        let (mut trips, mut bytes) = (1, FileOpener::head_len_bytes(len));
        loop {
            let needs = opener.needs().expect("a header");
            let Some(range) = needs.first().cloned() else {
                break;
            };
            (trips, bytes) = (trips + 1, bytes + (range.end - range.start));
            opener
                .supply(range.start, &padded(range))
                .expect("requested");
        }
        let catalog = opener.finish(&Pure).expect("a header");
        assert_eq!(catalog.tensors().len() as u64, tensors);
        let header = file.len() as u64 - 32 * tensors;
        assert!(trips <= most_trips, "{tokens} tokens take {trips} requests");
        assert!(
            bytes <= 2 * header + (128 << 10),
            "{bytes} bytes for {header}"
        );
    }
}

#[test]
fn a_header_is_not_fetched_without_end() {
    // An array of strings that is as long as the file claims to be.
    let len: u64 = 1 << 40;
    let mut head = b"GGUF\x03\0\0\0".to_vec();
    for number in [0u64, 1, 1] {
        head.extend(number.to_le_bytes());
    }
    head.extend(b"k\x09\0\0\0\x08\0\0\0");
    head.extend((1u64 << 36).to_le_bytes());
    head.resize(32 << 10, 0);
    let mut rounds = 0;
    let error = loop {
        match GgufHeader::parse(&head, len) {
            Ok(ParsedHeader::Complete(_)) => panic!("there is no end"),
            Ok(ParsedHeader::Needs(end)) => head.resize(index(end), 0),
            Err(error) => break error,
        }
        rounds += 1;
    };
    assert_eq!((error.kind(), error.rule()), (ErrorKind::Limit, None));
    assert!(rounds < 25, "{rounds} rounds");
    assert_eq!(head.len() as u64, zstn_core::limits::GGUF_HEADER_LEN_BYTES);
    let error = GgufHeader::parse(b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\x01\0\x01\0\0\0\0\0", len);
    assert_eq!(
        error.expect_err("too many entries").kind(),
        ErrorKind::Limit
    );
    let many = GgufHeader::parse(b"GGUF\x03\0\0\0\x01\0\x10\0\0\0\0\0\0\0\0\0\0\0\0\0", len);
    assert_eq!(many.expect_err("too many tensors").kind(), ErrorKind::Limit);
    let cut = GgufHeader::parse(b"GGUF\x03\0\0", 7).expect_err("cut");
    assert_eq!(cut.rule(), Some(Rule::Truncated));
}
