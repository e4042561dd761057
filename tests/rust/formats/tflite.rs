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

/// Writes the tables of a model.
#[derive(Default)]
struct Writer(Vec<u8>);

/// A tensor to write: name, type, shape and values.
struct Tensor<'a>(&'a str, u8, &'a [i32], Vec<u8>);

impl Writer {
    fn u32(&mut self, number: usize) {
        self.0
            .extend(u32::try_from(number).expect("small").to_le_bytes());
    }

    /// Writes the offset from `at` to the end of what has been written.
    fn point(&mut self, at: usize) {
        let offset = u32::try_from(self.0.len() - at).expect("small");
        self.0[at..at + 4].copy_from_slice(&offset.to_le_bytes());
    }

    /// Writes a table with fields of four bytes, and returns where these are. Slots without
    /// a field are `None`.
    fn table(&mut self, slots: &[Option<u32>]) -> Vec<usize> {
        let len = 4 + 2 * slots.len();
        let table = self.0.len() + len;
        self.0
            .extend(u16::try_from(len).expect("small").to_le_bytes());
        let fields = slots.iter().flatten().count();
        self.0
            .extend(u16::try_from(4 + 4 * fields).expect("small").to_le_bytes());
        let mut at = 4u16;
        for slot in slots {
            self.0.extend(slot.map_or(0, |_| at).to_le_bytes());
            at += 4 * u16::from(slot.is_some());
        }
        self.u32(len);
        slots
            .iter()
            .flatten()
            .for_each(|field| self.0.extend(field.to_le_bytes()));
        (0..fields).map(|number| table + 4 + 4 * number).collect()
    }

    fn vector(&mut self, bytes: &[u8], count: usize) {
        self.u32(count);
        self.0.extend(bytes);
    }

    /// Writes a vector of `count` offsets, and returns where these are.
    fn offsets(&mut self, count: usize) -> Vec<usize> {
        self.vector(&vec![0; 4 * count], count);
        (0..count).map(|n| self.0.len() - 4 * (count - n)).collect()
    }

    fn model(tensors: &[Tensor]) -> Vec<u8> {
        Self::repeated(tensors, 1)
    }

    /// Writes a model whose list contains every tensor several times.
    fn repeated(tensors: &[Tensor], repeats: usize) -> Vec<u8> {
        let mut file = Self::default();
        file.u32(0);
        file.0.extend(b"TFL3");
        file.0.extend([0; 4]);
        // The root: version, no operators, graphs, description, buffers.
        let at = file.0.len() + 4 + 2 * 5;
        file.0[0..4].copy_from_slice(&u32::try_from(at).expect("small").to_le_bytes());
        let root = file.table(&[Some(3), None, Some(0), Some(0), Some(0)]);
        file.point(root[2]);
        file.vector(b"made by a test\0", 14);
        file.point(root[1]);
        let graph = file.offsets(1)[0];
        let to = file.0.len() + 6;
        file.pointing(graph, to);
        let graph = file.table(&[Some(0)]);
        file.point(graph[0]);
        let offsets = file.offsets(repeats * tensors.len());
        for (number, Tensor(name, kind, shape, _)) in tensors.iter().enumerate() {
            let to = file.0.len() + 4 + 2 * 4;
            for offset in offsets[number..].iter().step_by(tensors.len()) {
                file.pointing(*offset, to);
            }
            let buffer = u32::try_from(number + 1).expect("small");
            let fields = file.table(&[Some(0), Some((*kind).into()), Some(buffer), Some(0)]);
            file.point(fields[0]);
            let sizes: Vec<u8> = shape.iter().flat_map(|size| size.to_le_bytes()).collect();
            file.vector(&sizes, shape.len());
            file.point(fields[3]);
            file.vector(name.as_bytes(), name.len());
        }
        file.point(root[3]);
        let offsets = file.offsets(tensors.len() + 1);
        let to = file.0.len() + 4;
        file.pointing(offsets[0], to);
        file.table(&[]);
        let mut data = Vec::new();
        for offset in &offsets[1..] {
            let to = file.0.len() + 6;
            file.pointing(*offset, to);
            data.push(file.table(&[Some(0)])[0]);
        }
        for (at, Tensor(.., values)) in data.into_iter().zip(tensors) {
            file.point(at);
            file.vector(values, values.len());
        }
        file.0
    }

    fn pointing(&mut self, at: usize, to: usize) {
        let offset = u32::try_from(to - at).expect("small");
        self.0[at..at + 4].copy_from_slice(&offset.to_le_bytes());
    }
}

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
