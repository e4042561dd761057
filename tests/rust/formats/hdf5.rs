//! HDF5 files: datasets that h5py wrote have their values, damaged files are refused for
//! their rule or leave other datasets readable.

use serde_json::Value;
use zstn_core::Rule;
use zstn_core::bytes::part;
use zstn_core::catalog::{FileCatalog, FileKind, FileOpener};
use zstn_core::container::foreign::hdf5::Hdf5Contents;
use zstn_core::pure::Pure;
use zstn_tests::cases::{self, Refusal, text};
use zstn_tests::foreign::{open_in_trips, read_named, read_opened, refused};
use zstn_tests::sha256;

fn open(file: &[u8]) -> FileCatalog {
    open_in_trips(file).expect("a file").0
}

#[test]
fn vectors_have_their_values() {
    let mut tensors = 0;
    for entry in cases::entries("hdf5", "files") {
        let name = text(&entry["file"]);
        let file = cases::read("hdf5", &name);
        let (catalog, trips) = open_in_trips(&file).expect(&name);
        assert_eq!(catalog.kind(), FileKind::Hdf5, "{name}");
        assert!(trips <= 2, "{name}: {trips} round trips");
        let values = read_opened(&Pure, &catalog, &file).expect(&name);
        let told = entry["tensors"].as_array().expect("tensors");
        let names: Vec<_> = catalog.tensors().iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names.len(), told.len(), "{name}: {names:?}");
        for told in told {
            let place = format!("{name}/{}", text(&told["name"]));
            let number = catalog.find(&text(&told["name"])).expect(&place);
            let tensor = &catalog.tensors()[number];
            assert_eq!(tensor.dtype.name(), text(&told["dtype"]), "{place}");
            assert_eq!(Value::from(tensor.shape.clone()), told["shape"], "{place}");
            if let Some(offset) = told["offset"].as_u64() {
                assert_eq!(tensor.stored.start, offset, "{place}");
                let len = tensor.len_bytes();
                for span in [0..len, 1..len - 1] {
                    let plan = catalog.plan(number, span.clone(), None).expect("inside");
                    let plan = plan.expect("contiguous values have parts");
                    let ranges = plan.ranges().iter();
                    let fetched: Vec<_> = ranges.map(|r| part(&file, r.clone())).collect();
                    let decoded = plan.decode(&Pure, &fetched, None).expect("decodes");
                    assert!(decoded == part(&values[number], span), "{place}");
                }
            }
            assert_eq!(
                sha256(&values[number]),
                text(&told["values_sha256"]),
                "{place}"
            );
            tensors += 1;
        }
        let unread = entry["unread"].as_array().cloned().unwrap_or_default();
        let mut unread: Vec<_> = unread.iter().map(text).collect();
        unread.sort();
        assert!(refused(catalog).keys().eq(unread.iter()), "{name}");
    }
    assert!(tensors >= 30, "only {tensors} datasets");
}

#[test]
fn attributes_of_groups_are_metadata() {
    let catalog = open(&cases::read("hdf5", "attributes.h5"));
    let metadata: Vec<_> = catalog
        .metadata()
        .iter()
        .map(|(k, v)| format!("{k}={v}"))
        .collect();
    let expected = [
        "backend=tensorflow",
        "counts=[1, 2, 3]",
        "group@names=[kernel, bias]",
        "model_config={\"class_name\": \"Functional\"}",
        "rate=0.5",
        "step=-7",
    ];
    assert_eq!(metadata, expected);
}

#[test]
fn attributes_in_a_heap_are_metadata() {
    let catalog = open(&cases::read("hdf5", "dense-groups-latest.h5"));
    let mut expected: Vec<_> = (0..10)
        .map(|number| (format!("note {number}"), format!("text {number}")))
        .collect();
    expected.insert(0, ("counts".into(), "[0, 1, 2]".into()));
    let metadata = catalog.metadata().iter();
    let metadata: Vec<_> = metadata.map(|(k, v)| (k.clone(), v.clone())).collect();
    assert_eq!(metadata, expected);
}

#[test]
fn members_of_large_groups_are_sorted_by_name_or_by_creation() {
    let catalog = open(&cases::read("hdf5", "dense-groups-latest.h5"));
    let names_in = |group: &str| -> Vec<String> {
        let names = catalog.tensors().iter().map(|tensor| &tensor.name[..]);
        let names = names.filter_map(|name| name.strip_prefix(group));
        names.map(String::from).collect()
    };
    // The file was written in this order.
    let written: Vec<_> = (0..12).rev().map(|number| format!("w{number}")).collect();
    assert_eq!(names_in("ordered/"), written);
    let by_name = names_in("by_name/");
    assert!(by_name.len() > 60 && by_name.is_sorted(), "{by_name:?}");
}

/// The signature of a structure, and the number of bytes between it and a damaged byte.
type Damage = (&'static [u8; 4], usize);

#[test]
fn damage_hides_one_dataset_or_group_or_the_attributes() {
    let damages: [(&str, &[Damage]); 4] = [
        (
            "dense-groups-latest.h5",
            &[
                (b"FRHP", 20),
                (b"FHDB", 40),
                (b"FHIB", 10),
                (b"BTHD", 8),
                (b"BTIN", 9),
                (b"BTLF", 9),
            ],
        ),
        ("chunk-trees-latest.h5", &[(b"BTIN", 9), (b"BTLF", 9)]),
        (
            "extensible-arrays-latest.h5",
            &[(b"EAHD", 9), (b"EAIB", 15), (b"EASB", 15), (b"EADB", 15)],
        ),
        // The last byte is in a page after the block's head.
        (
            "paged-arrays-latest.h5",
            &[(b"FAHD", 9), (b"FADB", 13), (b"FADB", 100)],
        ),
    ];
    for (name, places) in damages {
        let whole = cases::read("hdf5", name);
        let readable = open(&whole).tensors().len();
        let all_attributes = open(&whole).metadata().len();
        for (signature, distance) in places {
            let starts = whole.windows(4).enumerate();
            let found = starts.filter(|(_, window)| window == signature);
            let mut effects = 0;
            for (start, _) in found {
                let mut file = whole.clone();
                file[start + 4 + distance] ^= 1;
                let place = format!("{name}: {} at {start}", signature.escape_ascii());
                let catalog = open(&file);
                let left = catalog.tensors().len();
                let attributes = catalog.metadata().len();
                let refused = refused(catalog);
                let rules: Vec<_> = refused.values().flatten().collect();
                // Attributes are left out if they cannot be read. Some structures, such as an
                // order that is not used, are not read.
                if rules.is_empty() {
                    assert!(left == readable && attributes <= all_attributes, "{place}");
                    effects += usize::from(attributes < all_attributes);
                    continue;
                }
                assert_eq!(rules, [&Rule::Hdf5Checksum], "{place}: {refused:?}");
                assert!(left < readable, "{place}");
                assert!(left > 0, "{place}: no other dataset is left");
                effects += 1;
            }
            assert!(effects > 0, "{name}: {}", signature.escape_ascii());
        }
    }
}

#[test]
fn malformed_files_are_refused_for_their_rule() {
    let entries = cases::malformed("hdf5-bad");
    assert!(entries.len() >= 17);
    for entry in entries {
        let name = text(&entry["file"]);
        let file = cases::named("hdf5-bad", &entry);
        let have = |range| Some(part(&file, range).into());
        let parsed = Hdf5Contents::parse(&have, file.len() as u64, 0);
        let read = parsed.and_then(|_| read_named(&name, &file));
        Refusal::of(&entry).expect("a rule").check(&name, read);
    }
}

#[test]
fn damaged_files_are_refused_or_read() {
    for name in [
        "types-earliest.h5",
        "groups-latest.h5",
        "fill-values.h5",
        "keras-filters.h5",
        "types-latest.h5",
        "chunk-indexes-latest.h5",
        "chunk-trees-latest.h5",
    ] {
        let mut file = cases::read("hdf5", name);
        let whole = read_named(name, &file).expect(name);
        let step = 1 + file.len() / 4000;
        for end in (0..file.len()).step_by(step) {
            match read_named(name, &file[..end]) {
                Ok(read) => assert!(read == whole, "{name}: {end}"),
                Err(error) => assert!(error.rule().is_some(), "{name}: {error}"),
            }
        }
        for at in (0..file.len()).step_by(step) {
            for flip in [1, 0xff] {
                file[at] ^= flip;
                let _ = read_named(name, &file);
                file[at] ^= flip;
            }
        }
    }
}

#[test]
fn listing_a_large_file_fetches_blocks() {
    for name in [
        "groups-earliest.h5",
        "dense-groups-latest.h5",
        "extensible-arrays-latest.h5",
        "paged-arrays-latest.h5",
    ] {
        is_listed_in_blocks(name);
    }
}

fn is_listed_in_blocks(name: &str) {
    // Bytes after the end of the file that its superblock states.
    let mut file = cases::read("hdf5", name);
    let whole = read_named("", &file).expect("a file");
    file.resize(9 << 20, 0);
    let len = file.len() as u64;
    let head = FileOpener::head_len_bytes(len);
    let mut opener = FileOpener::new(len, part(&file, 0..head).to_vec()).expect("a file");
    let mut bytes = head;
    loop {
        let needs = opener.needs().expect("a file");
        if needs.is_empty() {
            break;
        }
        for range in needs {
            bytes += range.end - range.start;
            opener
                .supply(range.start, part(&file, range))
                .expect("requested");
        }
    }
    let catalog = opener.finish(&Pure).expect("a file");
    assert_eq!(catalog.tensors().len(), whole.len());
    assert!(bytes <= 3 * head, "{bytes} bytes");
}
