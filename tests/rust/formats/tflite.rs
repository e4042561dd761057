//! TensorFlow Lite models: tensors with values are listed with them, damaged files are
//! refused or read, and only tables are fetched to list a model.

use serde_json::Value;
use zstn_core::Rule;
use zstn_core::bytes::part;
use zstn_core::catalog::{FileCatalog, FileKind, FileOpener};
use zstn_core::container::foreign::tflite::TfliteModel;
use zstn_core::pure::Pure;
use zstn_tests::cases::{self, Refusal, text};
use zstn_tests::foreign::{open_in_trips, read_named, read_opened, refused};
use zstn_tests::sha256;
use zstn_tests::tflite::{Tensor, Writer};

fn open(file: &[u8]) -> FileCatalog {
    open_in_trips(file).expect("a model").0
}

#[test]
fn vectors_have_their_values() {
    for entry in cases::entries("tflite", "files") {
        let name = text(&entry["file"]);
        let file = cases::read("tflite", &name);
        let catalog = open(&file);
        assert_eq!(catalog.kind(), FileKind::Tflite, "{name}");
        let values = read_opened(&Pure, &catalog, &file).expect(&name);
        let told = entry["tensors"].as_array().expect("tensors");
        assert_eq!(catalog.tensors().len(), told.len(), "{name}");
        for (number, told) in told.iter().enumerate() {
            let tensor = &catalog.tensors()[catalog.find(&text(&told["name"])).expect("listed")];
            assert_eq!(tensor.dtype.name(), text(&told["dtype"]), "{number}");
            assert_eq!(Value::from(tensor.shape.clone()), told["shape"], "{number}");
            assert_eq!(
                Some(tensor.stored.start),
                told["offset"].as_u64(),
                "{number}"
            );
            let number = catalog.find(&tensor.name).expect("listed");
            assert_eq!(sha256(&values[number]), text(&told["values_sha256"]));
        }
        assert!(refused(catalog).is_empty(), "{name}");
    }
}

#[test]
fn malformed_files_are_refused_for_their_rule() {
    let entries = cases::malformed("tflite-bad");
    assert!(entries.len() >= 7);
    for entry in entries {
        let name = text(&entry["file"]);
        let file = cases::named("tflite-bad", &entry);
        let have = |range| Some(part(&file, range).into());
        let parsed = TfliteModel::parse(&have, file.len() as u64);
        let read = read_named(&name, &file);
        Refusal::of_opened(&entry).check(&name, read.clone());
        let read = parsed.and(read);
        Refusal::of(&entry).expect("a rule").check(&name, read);
    }
}

#[test]
fn every_type_is_read_or_refused() {
    let types = [4, 2, 4, 1, 8, 0, 1, 2, 8, 1, 8, 0, 8, 0, 0, 4, 2, 0, 2, 0];
    for (kind, width) in (0..).zip(types) {
        let values: Vec<u8> = (0..2 * width).collect();
        let file = Writer::model(&[
            Tensor(
                "w",
                kind,
                &[2, 1],
                if width > 0 {
                    values.clone()
                } else {
                    vec![0x8f]
                },
            ),
            Tensor("none", 0, &[5], Vec::new()),
            Tensor("b", 3, &[1], vec![9]),
        ]);
        let catalog = open(&file);
        assert_eq!(catalog.metadata()["description"], "made by a test");
        let values_read = read_opened(&Pure, &catalog, &file).expect("values");
        match (kind, width) {
            // The first of the two integers of 4 bits is the low half of the byte.
            (17, _) => assert_eq!(values_read, [vec![0xff, 0xf8], vec![9]]),
            (_, 0) => {
                assert_eq!(values_read, [[9]], "{kind}");
                assert_eq!(
                    refused(catalog),
                    [("w".into(), Some(Rule::TfliteType))].into()
                );
            }
            _ => assert_eq!(values_read, [values, vec![9]], "{kind}"),
        }
    }
    let wrong = [
        (Tensor("w", 3, &[3], vec![1, 2]), Rule::TfliteLength),
        (Tensor("w", 3, &[-1, -2], vec![1, 2]), Rule::TfliteShape),
        (
            Tensor("w", 3, &[i32::MAX; 3], vec![1, 2]),
            Rule::TfliteShape,
        ),
        (Tensor("w", 3, &[1; 256], vec![1]), Rule::TensorDimensions),
    ];
    for (wrong, rule) in wrong {
        let file = Writer::model(&[wrong, Tensor("b", 3, &[1], vec![9])]);
        assert_eq!(refused(open(&file)), [("w".into(), Some(rule))].into());
        assert_eq!(open(&file).tensors().len(), 1);
    }
}

#[test]
fn damaged_files_are_refused_or_read() {
    let own = Writer::model(&[
        Tensor("a", 0, &[2, 2], (0..16).collect()),
        Tensor("b", 17, &[3], vec![0x21, 0x03]),
    ]);
    for mut file in [own, cases::read("tflite", "types.tflite")] {
        let whole = read_named("", &file).expect("a model");
        for end in 0..file.len() {
            if let Ok(read) = read_named("", &file[..end]) {
                assert!(read == whole || end < 8, "{end}");
            }
        }
        for at in 0..file.len() {
            for flip in [1, 4, 0x80, 0xff] {
                file[at] ^= flip;
                let _ = read_named("", &file);
                file[at] ^= flip;
            }
        }
    }
}

#[test]
fn a_table_that_is_listed_often_is_read_a_bounded_number_of_times() {
    let tensor = [Tensor("w", 3, &[1; 200], vec![1])];
    let names = |repeats| -> zstn_core::Result<Vec<String>> {
        let read = read_named("", &Writer::repeated(&tensor, repeats))?;
        Ok(read.into_keys().collect())
    };
    assert_eq!(names(3), Ok(["w", "w#2", "w#3"].map(String::from).into()));
    let error = names(100_000).expect_err("too often");
    assert_eq!(error.rule(), Some(Rule::TfliteFlatbuffer));
}

#[test]
fn listing_a_model_fetches_its_tables() {
    let mut tensors = Vec::new();
    let names: Vec<String> = (0..40)
        .map(|number| format!("layer/{number}/kernel"))
        .collect();
    for name in &names {
        tensors.push(Tensor(name, 3, &[1 << 9, 1 << 9], vec![7; 1 << 18]));
    }
    let file = Writer::model(&tensors);
    let len = file.len() as u64;
    assert!(len > 8 << 20);
    let head = FileOpener::head_len_bytes(len);
    let mut opener = FileOpener::new(len, part(&file, 0..head).to_vec()).expect("a model");
    let (mut rounds, mut bytes) = (1, head);
    loop {
        let needs = opener.needs().expect("a model");
        if needs.is_empty() {
            break;
        }
        rounds += 1;
        for range in needs {
            bytes += range.end - range.start;
            opener
                .supply(range.start, part(&file, range))
                .expect("requested");
        }
    }
    let catalog = opener.finish(&Pure).expect("a model");
    assert_eq!(catalog.tensors().len(), 40);
    assert!(rounds <= 2, "{rounds} rounds");
    assert!(bytes <= head + 40 * 8192, "{bytes} bytes");
}
