//! Arrays in msgpack: files of Flax have their values, and damaged ones are refused for
//! their rule or leave other arrays readable.

use serde_json::Value;
use zstn_core::bytes::part;
use zstn_core::catalog::{FileCatalog, FileKind, FileOpener};
use zstn_core::container::foreign::msgpack::{MsgpackWalk, Walk, Window};
use zstn_core::pure::Pure;
use zstn_core::{ErrorKind, Rule};
use zstn_tests::cases::{self, Refusal, text};
use zstn_tests::foreign::{open_named, read_named, read_opened, refused};
use zstn_tests::sha256;

const NAME: &str = "model.msgpack";

fn string(text: &str) -> Vec<u8> {
    let len = u8::try_from(text.len()).expect("short");
    [&[0xd9, len], text.as_bytes()].concat()
}

/// Returns an array of bytes as an extension of this type.
fn array(kind: u8, shape: &[u8], values: &[u8]) -> Vec<u8> {
    let rank = u8::try_from(shape.len()).expect("short");
    let len = u32::try_from(values.len()).expect("short").to_be_bytes();
    let inner = [
        &[0x93, 0x90 | rank],
        shape,
        &string("uint8")[..],
        &[0xc6],
        &len[..],
        values,
    ]
    .concat();
    let len = u32::try_from(inner.len()).expect("short").to_be_bytes();
    [&[0xc9], &len[..], &[kind], &inner[..]].concat()
}

fn map(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let count = u16::try_from(entries.len()).expect("short").to_be_bytes();
    let entries = entries
        .iter()
        .flat_map(|(key, value)| [string(key), value.clone()].concat());
    [0xde].into_iter().chain(count).chain(entries).collect()
}

fn numbered(values: &[Vec<u8>]) -> Vec<u8> {
    let keys: Vec<String> = (0..values.len()).map(|n| n.to_string()).collect();
    let entries: Vec<_> = keys
        .iter()
        .zip(values)
        .map(|(key, value)| (key.as_str(), value.clone()))
        .collect();
    map(&entries)
}

fn chunked(shape: &[u8], chunks: Vec<u8>) -> Vec<u8> {
    let sizes: Vec<_> = shape.iter().map(|size| vec![*size]).collect();
    let mark = ("__msgpack_chunked_array__", vec![0xc3]);
    map(&[mark, ("shape", numbered(&sizes)), ("chunks", chunks)])
}

fn open(file: &[u8]) -> FileCatalog {
    open_named(NAME, file).expect("a file").0
}

#[test]
fn vectors_have_their_values() {
    for entry in cases::entries("msgpack", "files") {
        let name = text(&entry["file"]);
        let file = cases::read("msgpack", &name);
        let (catalog, trips) = open_named(&name, &file).expect(&name);
        assert_eq!((catalog.kind(), trips), (FileKind::Msgpack, 1), "{name}");
        let values = read_opened(&Pure, &catalog, &file).expect(&name);
        let told = entry["tensors"].as_array().expect("tensors");
        assert_eq!(catalog.tensors().len(), told.len(), "{name}");
        for told in told {
            let place = format!("{name}/{}", text(&told["name"]));
            let number = catalog.find(&text(&told["name"])).expect(&place);
            let tensor = &catalog.tensors()[number];
            assert_eq!(tensor.dtype.name(), text(&told["dtype"]), "{place}");
            assert_eq!(Value::from(tensor.shape.clone()), told["shape"], "{place}");
            if let Some(offset) = told["offset"].as_u64() {
                assert_eq!(tensor.stored.start, offset, "{place}");
                assert_eq!(Some(tensor.stored_len_bytes()), told["length"].as_u64());
            }
            assert_eq!(
                sha256(&values[number]),
                text(&told["values_sha256"]),
                "{place}"
            );
            let len = tensor.len_bytes();
            for span in [0..len, 1..len - 1, len / 3..len / 2] {
                let plan = catalog.plan(number, span.clone(), None).expect("inside");
                let plan = plan.expect("every array has parts");
                let ranges = plan.ranges().iter();
                let fetched: Vec<_> = ranges.map(|range| part(&file, range.clone())).collect();
                assert_eq!(fetched.concat(), part(&values[number], span), "{place}");
            }
        }
    }
}

#[test]
fn malformed_files_are_refused_for_their_rule() {
    let entries = cases::malformed("msgpack-bad");
    assert!(entries.len() >= 10);
    for entry in entries {
        let name = text(&entry["file"]);
        let file = cases::named("msgpack-bad", &entry);
        let mut walk = MsgpackWalk::default();
        let window = Window::new(0, &file, file.len() as u64);
        let read = read_named(&name, &file);
        Refusal::of_opened(&entry).check(&name, read.clone());
        let read = walk.walk(&window).and(read);
        Refusal::of(&entry).expect("a rule").check(&name, read);
    }
}

#[test]
fn plain_values_are_metadata_and_arrays_in_lists_are_numbered() {
    let list = [&[0x92][..], &array(1, &[2], &[1, 2]), &array(3, &[], &[3])].concat();
    let complex = [0xd6, 2, 0x92, 1, 2, 0xc0].to_vec();
    let file = map(&[
        ("step", vec![0xd1, 0xff, 0xfe]),
        (
            "opt",
            map(&[
                ("lr", vec![0xca, 0x3f, 0, 0, 0]),
                ("name", string("adam")),
                ("m", list),
            ]),
        ),
        ("none", vec![0xc0]),
        ("complex", complex),
    ]);
    let catalog = open(&file);
    let metadata: Vec<_> = catalog
        .metadata()
        .iter()
        .map(|(k, v)| format!("{k}={v}"))
        .collect();
    assert_eq!(metadata, ["opt/lr=0.5", "opt/name=adam", "step=-2"]);
    let names: Vec<_> = catalog
        .tensors()
        .iter()
        .map(|tensor| tensor.name.as_str())
        .collect();
    assert_eq!(names, ["opt/m/0", "opt/m/1"]);
    assert_eq!(
        read_opened(&Pure, &catalog, &file).expect("values"),
        [vec![1, 2], vec![3]]
    );
}

#[test]
fn one_array_that_cannot_be_read_leaves_the_others() {
    let good = array(1, &[2], &[1, 2]);
    let chunks = |arrays: &[Vec<u8>]| numbered(arrays);
    let with_dtype = |name: &str| {
        let mut bytes = array(1, &[1], &[1]);
        let at = bytes
            .windows(5)
            .position(|word| word == b"uint8")
            .expect("a dtype");
        bytes[at..at + 5].copy_from_slice(name.as_bytes());
        bytes
    };
    let late = map(&[("shape", numbered(&[vec![1]])), ("x", good.clone())]);
    for (bad, rule) in [
        (array(1, &[3], &[1, 2]), Rule::MsgpackLength),
        (with_dtype("uint9"), Rule::MsgpackArray),
        (vec![0xd4, 1, 0x93], Rule::MsgpackArray),
        (vec![0xc7, 0, 1], Rule::MsgpackArray),
        (array(1, &[0xff], &[1]), Rule::MsgpackArray),
        (
            chunked(&[3], chunks(std::slice::from_ref(&good))),
            Rule::MsgpackChunks,
        ),
        (chunked(&[], chunks(&[])), Rule::MsgpackChunks),
        (
            chunked(&[2], map(&[("1", good.clone())])),
            Rule::MsgpackChunks,
        ),
        (
            chunked(&[2], map(&[("x", good.clone())])),
            Rule::MsgpackChunks,
        ),
        (
            chunked(&[2], map(&[("0", good.clone()), ("0", good.clone())])),
            Rule::MsgpackChunks,
        ),
        (
            chunked(&[4], chunks(&[good.clone(), late])),
            Rule::MsgpackChunks,
        ),
        (
            chunked(&[3], chunks(&[good.clone(), array(1, &[2], &[1])])),
            Rule::MsgpackLength,
        ),
    ] {
        let file = map(&[("a", bad), ("b", good.clone())]);
        let catalog = open(&file);
        assert_eq!(
            read_opened(&Pure, &catalog, &file).expect("the other one"),
            [[1, 2]]
        );
        assert_eq!(refused(catalog), [("a".into(), Some(rule))].into());
    }
}

#[test]
fn chunks_are_joined_in_the_order_of_their_numbers() {
    let pieces: Vec<_> = (0..12)
        .map(|n| array(1, &[2], &[2 * n, 2 * n + 1]))
        .collect();
    let expected: Vec<u8> = (0..24).collect();
    let file = map(&[("a", chunked(&[4, 6], numbered(&pieces)))]);
    assert_eq!(read_named(NAME, &file).expect("chunks")["a"], expected);
    let swapped = map(&[("1", pieces[1].clone()), ("0", pieces[0].clone())]);
    let file = map(&[("a", chunked(&[4], swapped))]);
    assert_eq!(read_named(NAME, &file).expect("chunks")["a"], [0, 1, 2, 3]);
    assert!(open(&file).plan(0, 0..4, None).expect("inside").is_none());
    assert!(open(&file).plan(0, 1..2, None).expect("inside").is_some());
}

#[test]
fn nesting_and_counts_have_limits() {
    let mut deep = array(1, &[1], &[1]);
    for _ in 0..64 {
        deep = map(&[("k", deep)]);
    }
    assert_eq!(open(&deep).tensors().len(), 1);
    let error = open_named(NAME, &map(&[("k", deep)])).expect_err("too deep");
    assert_eq!(error.rule(), Some(Rule::MsgpackDepth));
    for (file, rule) in [
        (vec![0xdf, 0xff, 0xff, 0xff, 0xff, 0xa0], Rule::Truncated),
        (vec![0x81, 0xa1, b'k', 0xdd, 0, 1, 0, 0], Rule::Truncated),
        (vec![0x81, 0xa1, b'k', 0xc6, 0, 1, 0, 0], Rule::Truncated),
        (vec![0x81, 0xa1, b'k'], Rule::Truncated),
        (vec![0x81, 1, 1], Rule::MsgpackName),
        (
            map(&[("__msgpack_chunked_array__", vec![0xc3])]),
            Rule::MsgpackChunks,
        ),
    ] {
        let error = open_named(NAME, &file).expect_err("malformed");
        assert_eq!(error.rule(), Some(rule), "{file:x?}");
    }
    let key = "k".repeat(70_000);
    let len = u32::try_from(key.len()).expect("short").to_be_bytes();
    let long = [&[0x81, 0xdb][..], &len, key.as_bytes(), &[1]].concat();
    assert_eq!(
        open_named(NAME, &long).expect_err("long").kind(),
        ErrorKind::Limit
    );
}

#[test]
fn metadata_with_long_names_is_bounded() {
    let mut values = Vec::new();
    for number in 0..4096 {
        values.extend([string(&number.to_string()), vec![1]].concat());
    }
    let mut file = [&[0xde, 0x10, 0x00][..], &values].concat();
    let key = "k".repeat(60_000);
    for _ in 0..40 {
        let len = u16::try_from(key.len()).expect("short").to_be_bytes();
        file = [&[0x81, 0xda], &len[..], key.as_bytes(), &file].concat();
    }
    let catalog = open(&file);
    let shown: usize = catalog.metadata().keys().map(String::len).sum();
    assert!(shown <= 64 << 20, "{shown} bytes");
}

#[test]
fn damaged_files_are_refused_or_read() {
    for name in ["params.msgpack", "types.msgpack", "chunked.msgpack"] {
        let mut file = cases::read("msgpack", name);
        let catalog = open_named(name, &file).expect(name).0;
        let whole = read_named(name, &file).expect(name);
        for end in 0..file.len() {
            assert!(read_named(name, &file[..end]).is_err(), "{name}: {end}");
        }
        for at in 0..file.len() {
            for flip in [1, 8, 0x40, 0x80, 0xff] {
                file[at] ^= flip;
                let read = read_named(name, &file);
                file[at] ^= flip;
                let hit = catalog
                    .tensors()
                    .iter()
                    .find(|t| t.stored.contains(&(at as u64)));
                if let Some(hit) = hit.filter(|_| name != "chunked.msgpack") {
                    let read = read.expect("values have no rules");
                    let others = whole.iter().filter(|(name, _)| **name != hit.name);
                    assert!(others.into_iter().all(|(name, value)| read[name] == *value));
                }
            }
        }
    }
}

#[test]
fn listing_a_file_skips_long_values() {
    let values = vec![7; 3 << 20];
    // The shape is wrong, which is only known when the array is parsed.
    let long: Vec<_> = (0..6).map(|_| array(1, &[1], &values)).collect();
    let file = numbered(&long);
    let len = file.len() as u64;
    let head = FileOpener::head_len_bytes(len);
    let mut opener = FileOpener::named(NAME, len, part(&file, 0..head).to_vec()).expect("a file");
    let (mut requests, mut bytes) = (1, head);
    while let [range] = &opener.needs().expect("a file")[..] {
        (requests, bytes) = (requests + 1, bytes + (range.end - range.start));
        opener
            .supply(range.start, part(&file, range.clone()))
            .expect("requested");
    }
    let rules = refused(opener.finish(&Pure).expect("a file"));
    assert_eq!(rules.len(), 6);
    assert!(
        rules
            .values()
            .all(|rule| *rule == Some(Rule::MsgpackLength))
    );
    assert!(
        requests <= 8 && bytes <= 8 * head,
        "{requests} requests, {bytes} bytes"
    );
}
