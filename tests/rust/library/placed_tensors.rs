//! The tensors of each format in a packed file: which of them are entries and which are
//! views, which values they have, and that a false header is refused.

use std::collections::BTreeSet;

use zstn::{Job, PackOptions, Reader, VerifyOptions, View};
use zstn_core::Rule;
use zstn_core::bytes::index;
use zstn_core::catalog::FileCatalog;
use zstn_tests::foreign::{open_in_trips, read_opened};
use zstn_tests::native;

use super::original_files::{assert_same_tensors, folder, packed_and_restored, rule_of};
use super::originals::{legacy_pytorch, originals, pytorch};
use super::virtual_headers::replaced;

/// Returns the tensors that the virtual header lists.
fn listed(packed: &[u8]) -> FileCatalog {
    open_in_trips(packed).expect("a packed file").0
}

#[test]
fn tensors_of_each_format_are_entries_or_views() {
    let folder = folder();
    for original in originals() {
        let name = format!("{} ({})", original.name, original.kind);
        let options = PackOptions::default();
        let packed = packed_and_restored(folder.path(), original.name, &original.bytes, &options);
        let most = original.bytes.len() / 20 * 19;
        assert!(packed.len() < most, "{name}: {} bytes", packed.len());
        let catalog = listed(&packed);
        assert_eq!(catalog.original_kind(), Some(original.kind), "{name}");
        assert_eq!(
            catalog.is_original_complete(),
            original.is_complete,
            "{name}"
        );
        let mut names: Vec<&str> = catalog.tensors().iter().map(|t| t.name.as_str()).collect();
        let entries = original.entries.iter().map(|(name, ..)| *name);
        let mut expected: Vec<&str> = entries.chain(original.views.iter().copied()).collect();
        names.sort_unstable();
        expected.sort_unstable();
        assert_eq!(names, expected, "{name}");
        // The tensors in the header have their values, whether or not others are missing.
        let plain = Reader::open(folder.path().join(original.name)).expect(&name);
        let values = read_opened(&native(), &catalog, &packed).expect(&name);
        for (tensor, values) in catalog.tensors().iter().zip(values) {
            let place = format!("{name}: {}", tensor.name);
            let there = plain.find(&tensor.name).expect(&place);
            assert_eq!((tensor.dtype, &tensor.shape), (there.dtype, &there.shape));
            assert!(
                plain.read(&tensor.name).expect(&place).bytes == values,
                "{place}"
            );
        }
        let stored = catalog.entries();
        let mut end = 0;
        for entry in stored.tensors() {
            assert_eq!(entry.span.start, end, "{name}");
            end = entry.span.end;
        }
        assert_eq!(end, original.bytes.len() as u64, "{name}");
        let is_entry = |of: &str| stored.find(of).is_ok();
        assert!(!original.views.iter().any(|view| is_entry(view)), "{name}");
        for (of, dtype, shape) in original.entries {
            let entry = &stored.tensors()[stored.find(of).expect(&name)];
            assert_eq!(
                (entry.dtype.name(), &entry.shape[..]),
                (*dtype, *shape),
                "{name}"
            );
        }
        let packed = Reader::open(folder.path().join("packed.zstn")).expect(&name);
        assert_eq!(
            packed.packed_file().is_none(),
            original.is_complete,
            "{name}"
        );
        assert_same_tensors(&name, &packed, &plain);
    }
}

/// The file that a packed file restores is opened for its metadata, and for tensors that the
/// header does not list. An original that cannot be read is tolerated, but damage of the packed
/// file is not.
#[test]
fn damage_of_a_packed_file_hides_no_tensors() {
    let folder = folder();
    for original in originals() {
        let name = format!("{} ({})", original.name, original.kind);
        let options = PackOptions::default();
        let packed = packed_and_restored(folder.path(), original.name, &original.bytes, &options);
        let path = folder.path().join("packed.zstn");
        let names =
            |reader: &Reader| -> BTreeSet<String> { reader.names().map(String::from).collect() };
        let expected = names(&Reader::open(&path).expect(&name));
        let stored = Reader::options().view(View::Stored).open(&path);
        let stored = stored.expect(&name);
        let mut found = 0;
        for entry in stored.tensors() {
            if !entry.name.starts_with("@bytes/") {
                continue;
            }
            let mut damaged = packed.clone();
            damaged[index(entry.parts[0].stored.end) - 1] ^= 1;
            let path = folder.path().join("damaged.zstn");
            std::fs::write(&path, damaged).expect("written");
            let opened = Reader::open(&path).and_then(|reader| {
                reader.original()?;
                Ok(reader)
            });
            match opened {
                Ok(reader) => assert_eq!(names(&reader), expected, "{name}: {}", entry.name),
                Err(error) => {
                    let rule = rule_of(&error);
                    assert_eq!(rule, Some(Rule::ZstnFrameChecksum), "{name}: {error}");
                    found += 1;
                }
            }
        }
        assert!(found > 0, "{name}");
    }
}

#[test]
fn storages_that_tensors_share_are_packed_once() {
    let folder = folder();
    for original in [pytorch(), legacy_pytorch()] {
        let options = PackOptions::default();
        packed_and_restored(folder.path(), original.name, &original.bytes, &options);
        let path = folder.path().join("packed.zstn");
        let reader = Reader::open(&path).expect("opened");
        let tensor = |name: &str| reader.find(name).expect(name);
        let first = tensor("head").alias_of.map(|n| &*reader.tensors()[n].name);
        assert_eq!(first, Some("embed"));
        // These have other values than the tensors whose bytes they share.
        for name in ["head_t", "row", "only_t", "left", "right"] {
            assert_eq!(tensor(name).alias_of, None, "{name}");
        }
        let bytes = |name: &str| reader.read(name).expect(name).bytes;
        let (head, turned) = (bytes("head"), bytes("head_t"));
        for (row, column) in [(0, 0), (3, 200), (127, 255), (64, 1)] {
            let (at, turned_at) = (2 * (column * 128 + row), 2 * (row * 256 + column));
            assert_eq!(head[at..at + 2], turned[turned_at..turned_at + 2]);
        }
        assert_eq!(bytes("row"), head[2 * 640..2 * 768]);
        assert_eq!(bytes("left")[4 * 4000..], bytes("right")[..4 * 2000]);
        // Ranges with tensors that overlap or have strides have the dtype of the tensors.
        let stored = Reader::options()
            .view(View::Stored)
            .open(&path)
            .expect("opened");
        let unnamed = stored
            .tensors()
            .iter()
            .filter(|t| t.name.starts_with("@bytes/"));
        let floats = unnamed.filter(|tensor| tensor.dtype.name() == "F32");
        let mut shapes: Vec<&[u64]> = floats.map(|tensor| &tensor.shape[..]).collect();
        shapes.sort_unstable();
        assert_eq!(shapes, [&[63 * 64 + 8][..], &[10_000], &[15_360]]);
    }
}

#[test]
fn a_header_that_describes_a_tensor_otherwise_is_refused() {
    let folder = folder();
    let views = |text: &str| text.replace('"', "\\\"");
    for original in originals() {
        let options = PackOptions::default().integrity(false);
        let packed = packed_and_restored(folder.path(), original.name, &original.bytes, &options);
        let (name, dtype, shape) = original.entries[0];
        let entry = |dtype: &str, shape: &[u64]| {
            let sizes: Vec<String> = shape.iter().map(u64::to_string).collect();
            format!(
                "\"{name}\":{{\"dtype\":\"{dtype}\",\"shape\":[{}]",
                sizes.join(",")
            )
        };
        let turned: Vec<u64> = shape.iter().rev().copied().collect();
        let other = match dtype {
            // Spaces keep the length.
            "BF16" => entry("U16", shape).replace("\"shape\"", " \"shape\""),
            _ => entry("I32", shape),
        };
        let lies = [entry(dtype, &turned), other];
        let mut lies = Vec::from(lies.map(|lie| (entry(dtype, shape), lie)));
        let is_complete = views(&format!("\"complete\":{}", original.is_complete));
        if !original.is_complete {
            lies.push((is_complete, views("\"complete\":true ")));
        }
        if original.views.contains(&"head_t") {
            for (from, to) in [("[1,128]", "[1,127]"), ("\"head_t\"", "\"head_u\"")] {
                lies.push((views(from), views(to)));
            }
        }
        for (from, to) in lies {
            let lie = folder.path().join("lie.zstn");
            std::fs::write(&lie, replaced(&packed, &from, &to)).expect("written");
            let verified = zstn::verify(&Job::new(), &lie, &VerifyOptions::default());
            let error = verified.expect_err(&to);
            assert_eq!(
                rule_of(&error),
                Some(Rule::ZstnVirtualHeader),
                "{from} → {to}"
            );
        }
    }
}
