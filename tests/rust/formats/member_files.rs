//! Model files inside of archives: Keras models, which are HDF5 files in zip archives, and
//! checkpoints of PyTorch in tar archives.

use serde_json::Value;
use zstn_core::bytes::part;
use zstn_core::catalog::{FileCatalog, FileKind, FileOpener, recognise};
use zstn_core::pure::Pure;
use zstn_core::{ErrorKind, Rule};
use zstn_tests::archives::{self, Archive};
use zstn_tests::cases::{self, Refusal, text};
use zstn_tests::foreign::{open_in_trips, read_named, read_opened, refused};
use zstn_tests::sha256;

const FOLDERS: [(&str, FileKind); 2] = [("keras", FileKind::Keras), ("tar", FileKind::Tar)];

#[test]
fn vectors_have_their_values() {
    let (mut tensors, mut plans) = (0, 0);
    for (folder, kind) in FOLDERS {
        for entry in cases::entries(folder, "files") {
            let name = text(&entry["file"]);
            let file = cases::read(folder, &name);
            let (catalog, trips) = open_in_trips(&file).expect(&name);
            // Their first bytes contain all of these files.
            assert_eq!((catalog.kind(), trips), (kind, 1), "{name}");
            let values = read_opened(&Pure, &catalog, &file).expect(&name);
            let told = entry["tensors"].as_array().expect("tensors");
            assert_eq!(values.len(), told.len(), "{name}");
            for told in told {
                let place = format!("{name}/{}", text(&told["name"]));
                let number = catalog.find(&text(&told["name"])).expect(&place);
                let (tensor, values) = (&catalog.tensors()[number], &values[number]);
                assert_eq!(tensor.dtype.name(), text(&told["dtype"]), "{place}");
                assert_eq!(Value::from(tensor.shape.clone()), told["shape"], "{place}");
                if let Some(offset) = told["offset"].as_u64() {
                    assert_eq!(tensor.stored.start, offset, "{place}");
                }
                assert_eq!(sha256(values), text(&told["values_sha256"]), "{place}");
                let span = 1..tensor.len_bytes().max(2) - 1;
                if let Ok(Some(plan)) = catalog.plan(number, span.clone(), None) {
                    let ranges = plan.ranges().iter();
                    let fetched: Vec<_> = ranges.map(|r| part(&file, r.clone())).collect();
                    let decoded = plan.decode(&Pure, &fetched, None).expect(&place);
                    assert!(decoded == part(values, span), "{place}");
                    plans += 1;
                }
                tensors += 1;
            }
            for (key, value) in entry["metadata_text"].as_object().into_iter().flatten() {
                let found = catalog.metadata().get(key);
                assert_eq!(found, Some(&text(value)), "{name}: {key}");
            }
            assert!(refused(catalog).is_empty(), "{name}");
        }
    }
    assert!(
        tensors >= 30 && plans >= 20,
        "{tensors} tensors, {plans} plans"
    );
}

#[test]
fn malformed_files_are_refused_for_their_rule() {
    for (folder, least) in [("keras-bad", 6), ("tar-bad", 18)] {
        let entries = cases::malformed(folder);
        assert!(entries.len() >= least);
        for entry in entries {
            let name = text(&entry["file"]);
            let file = cases::named(folder, &entry);
            Refusal::of(&entry)
                .expect("a rule")
                .check(&name, read_named(&name, &file));
        }
    }
}

#[test]
fn damaged_files_are_refused_or_read() {
    for (folder, name) in [
        ("keras", "model.keras"),
        ("keras", "chunks.keras"),
        ("tar", "model.nemo"),
        ("tar", "pax.nemo"),
        ("tar", "gnu.nemo"),
    ] {
        let mut file = cases::read(folder, name);
        let whole = read_named(name, &file).expect(name);
        let step = 1 + file.len() / 3000;
        for end in (0..file.len()).step_by(step) {
            match read_named(name, &file[..end]) {
                // The blocks of zeros at the end of a tar archive.
                Ok(read) => assert!(read == whole && folder == "tar", "{name}: {end}"),
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

/// Opens a file by ranges, and returns the number of bytes that were requested.
fn open_by_ranges(file: &[u8]) -> (FileCatalog, u64) {
    let len = file.len() as u64;
    let mut requested = FileOpener::head_len_bytes(len);
    let mut opener = FileOpener::new(len, part(file, 0..requested).to_vec()).expect("a file");
    loop {
        let needs = opener.needs().expect("a file");
        if needs.is_empty() {
            return (opener.finish(&Pure).expect("a file"), requested);
        }
        for range in needs {
            requested += range.end - range.start;
            let bytes = part(file, range.clone());
            opener.supply(range.start, bytes).expect("requested");
        }
    }
}

#[test]
fn only_the_lists_of_large_files_are_fetched() {
    let weights = cases::read("hdf5", "groups-earliest.h5");
    let datasets = open_in_trips(&weights).expect("a file").0.tensors().len();
    // The bytes after the end of the file of HDF5 belong to the member.
    let mut large = weights;
    large.resize(9 << 20, 0);
    let noise = vec![7; 10 << 20];
    let archive = Archive::default().member("assets/noise", &noise);
    let file = archive.member("model.weights.h5", &large).finish();
    let (catalog, requested) = open_by_ranges(&file);
    assert_eq!(
        (catalog.kind(), catalog.tensors().len()),
        (FileKind::Keras, datasets)
    );
    assert!(requested < 256 << 10, "{requested} bytes");
    let values = read_opened(&Pure, &catalog, &file).expect("values");
    assert_eq!(values.len(), datasets);

    let tensors = ["a", "b"].map(|name| (name.into(), name.into(), 1 << 20));
    let checkpoint = Archive::default().aligned("m/data.pkl", &archives::state_dict(&tensors));
    let storage: Vec<u8> = (0..1u32 << 20).flat_map(u32::to_le_bytes).collect();
    let checkpoint = checkpoint.aligned("m/data/a", &storage);
    let checkpoint = checkpoint.aligned("m/data/b", &storage).finish();
    let file = archives::tar(&[
        ("noise", &noise),
        ("./model_weights.ckpt", &checkpoint),
        ("more", &noise),
    ]);
    let (catalog, requested) = open_by_ranges(&file);
    assert_eq!(catalog.kind(), FileKind::Tar);
    assert!(requested < 512 << 10, "{requested} bytes");
    assert_eq!(catalog.metadata()["members"], "noise, more");
    for name in ["model_weights.ckpt/a", "model_weights.ckpt/b"] {
        let tensor = &catalog.tensors()[catalog.find(name).expect(name)];
        let end = tensor.stored.end;
        assert!(
            part(&file, end - tensor.len_bytes()..end) == storage,
            "{name}"
        );
    }
}

#[test]
fn a_tar_archive_has_few_zip_archives() {
    let pickle = archives::state_dict(&[("a".into(), "0".into(), 2)]);
    let checkpoint = Archive::default().member("m/data.pkl", &pickle);
    let checkpoint = checkpoint.member("m/data/0", &[1; 8]).finish();
    let names: Vec<String> = (0..17).map(|number| format!("{number}.ckpt")).collect();
    let members: Vec<_> = names.iter().map(|name| (&**name, &*checkpoint)).collect();
    let read = read_named("", &archives::tar(&members[..16])).expect("checkpoints");
    assert!(read.len() == 16 && read["15.ckpt/a"] == [1; 8]);
    let error = read_named("", &archives::tar(&members)).expect_err("too many");
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
}

#[test]
fn checkpoints_from_before_version_1_6_are_read_in_tar_archives() {
    for name in ["legacy.bin", "legacy-shared-storage.pth"] {
        let checkpoint = cases::read("pytorch", name);
        let alone = read_named("", &checkpoint).expect(name);
        // The first bytes of the archive do not contain the pickles.
        let noise = vec![7; 9 << 20];
        let file = archives::tar(&[("noise", &noise), ("./old.ckpt", &checkpoint)]);
        let read = read_named("", &file).expect(name);
        assert!(!read.is_empty() && read.len() == alone.len());
        for (tensor, values) in alone {
            assert!(
                read[&format!("old.ckpt/{tensor}")] == values,
                "{name}: {tensor}"
            );
        }
        let mut damaged = checkpoint;
        damaged.truncate(damaged.len() - 1);
        let file = archives::tar(&[("old.ckpt", &damaged)]);
        let error = read_named("", &file).expect_err(name);
        assert!(error.to_string().contains("old.ckpt"), "{error}");
    }
}

#[test]
fn damage_of_a_member_names_the_member_and_the_place_in_the_file() {
    let pickle = archives::state_dict(&[("a".into(), "0".into(), 2)]);
    let checkpoint = Archive::default().member("m/data.pkl", &pickle);
    let mut checkpoint = checkpoint.member("m/data/0", &[1; 8]).finish();
    let at = checkpoint.windows(8).position(|bytes| bytes == b"m/data/0");
    let at = at.expect("the local header");
    checkpoint[at] ^= 1;
    let file = archives::tar(&[("text", b"text"), ("m.ckpt", &checkpoint)]);
    let error = read_named("", &file).expect_err("damaged");
    assert_eq!(error.rule(), Some(Rule::ZipMember), "{error}");
    // Two headers and one block of data are in front of the checkpoint, and a local header
    // of 30 bytes in front of the name.
    assert_eq!(error.offset(), Some(3 * 512 + at as u64 - 30), "{error}");
    assert!(error.to_string().contains("m.ckpt"), "{error}");
}

#[test]
fn a_header_of_safetensors_with_the_magic_of_tar_is_of_safetensors() {
    let mut head = [b' '; 512];
    head[..9].copy_from_slice(b"\xff\x01\0\0\0\0\0\0{");
    head[257..262].copy_from_slice(b"ustar");
    let found = recognise(&head, 1 << 20).expect("a header");
    assert_eq!(found, FileKind::Safetensors);
}
