//! Decode tasks: the serialized data that another thread needs to decode one tensor,
//! for every file format.

use std::path::Path;

use zstn::Reader;
use zstn_core::catalog::FrameTask;
use zstn_core::model::{DecodeTask, ModelBuilder, Verify};
use zstn_core::pure::Pure;
use zstn_tests::cases::{self, text};
use zstn_tests::foreign::{GOOD, model_folder};

/// Decodes every tensor directly and by its task. Returns the number of tensors and the
/// length in bytes of the longest task, without names.
fn compare(reader: &Reader, files: &[Vec<u8>], base: Option<&Reader>) -> (usize, usize) {
    let model = reader.model();
    let mut longest = 0;
    for (number, tensor) in model.tensors().iter().enumerate() {
        let part = |file: usize, range: core::ops::Range<u64>| {
            let bounds = |at: u64| usize::try_from(at).expect("in memory");
            &files[file][bounds(range.start)..bounds(range.end)]
        };
        let parts = tensor.parts.iter();
        let parts: Vec<&[u8]> = parts.map(|p| part(p.file, p.stored.clone())).collect();
        let base = tensor.base.and(base);
        let base = base.map(|base| base.read(&tensor.name).expect("the base").bytes);
        let bytes = model.decode_task(number).expect("a tensor").to_bytes();
        longest = longest.max(bytes.len().saturating_sub(3 * tensor.name.len()));
        let task = DecodeTask::from_bytes(&bytes).expect("a task");
        let expected = model.decode(&Pure, number, &parts, base.as_deref());
        let decoded = task.decode(&Pure, &parts, base.as_deref());
        match (decoded, expected) {
            (Ok(decoded), Ok(expected)) => assert!(decoded == expected, "{}", tensor.name),
            (Err(error), Err(expected)) => assert_eq!(error.to_string(), expected.to_string()),
            (decoded, _) => panic!("{}: {:?}", tensor.name, decoded.err()),
        }
        if let Some((first, rest)) = parts.split_first() {
            let mut damaged = first.to_vec();
            if let Some(byte) = damaged.last_mut() {
                *byte ^= 0x55;
            }
            let parts: Vec<&[u8]> = core::iter::once(damaged.as_slice())
                .chain(rest.iter().copied())
                .collect();
            let expected = model.decode(&Pure, number, &parts, base.as_deref());
            let decoded = task.decode(&Pure, &parts, base.as_deref());
            assert_eq!(
                decoded.map_err(|e| e.to_string()),
                expected.map_err(|e| e.to_string())
            );
        }
    }
    (model.tensors().len(), longest)
}

/// Opens a file if it is a model by itself.
fn open(path: &Path) -> Option<Reader> {
    let reader = Reader::open(path).ok();
    reader.filter(|reader| reader.model().files().len() == 1)
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("a vector")
}

#[test]
fn one_tensor_of_any_file() {
    let (mut all, mut longest) = (0, 0);
    for (folder, ending) in [
        ("zstn", "zstn"),
        ("zstn", "safetensors"),
        ("ztensor", "zt"),
        ("gauss", "gauss"),
        ("gguf", "gguf"),
        ("onnx", "onnx"),
        ("pytorch", "pt"),
    ] {
        let mut count = 0;
        for entry in std::fs::read_dir(cases::path(folder)).expect("vectors") {
            let path = entry.expect("an entry").path();
            let is_wanted = path.extension().is_some_and(|e| e == ending);
            let Some(reader) = is_wanted.then(|| open(&path)).flatten() else {
                continue;
            };
            let (tensors, len) = compare(&reader, &[read(&path)], None);
            count += tensors;
            longest = longest.max(len);
        }
        assert!(count > 40, "{count} tensors in .{ending} files");
        all += count;
    }
    assert!(all > 400, "{all} tensors");
    // A Gauss tensor with many shards has one mixture per shard.
    assert!(longest < 8192, "{longest} bytes");
}

#[test]
fn records_of_deltas() {
    let mut count = 0;
    for case in cases::deltas("zstn", "z4dm") {
        let path = |entry: &str| cases::path("zstn").join(text(&case[entry]["file"]));
        let Some(base) = open(&path("base")) else {
            continue;
        };
        let Some(reader) = open(&path("container")) else {
            continue;
        };
        count += compare(&reader, &[read(&path("container"))], Some(&base)).0;
    }
    assert!(count > 40, "{count} tensors");
}

#[test]
fn weights_of_several_parts() {
    let mut count = 0;
    for case in cases::entries(GOOD, "vectors") {
        let name = text(&case["name"]);
        let folder = model_folder(GOOD, &name);
        let path = folder.path().join("model.safetensors");
        let reader = open(&path).expect("a model");
        let (tensors, longest) = compare(&reader, &[read(&path)], None);
        assert!(longest < 2048, "{name}: {longest} bytes");
        count += tensors;
    }
    assert!(count > 40, "{count} tensors");
}

/// Decodes every tensor of packed files by the task of its frame, whole and damaged.
#[test]
fn tensors_by_their_frames() {
    let (mut count, mut with_digests) = (0, 0);
    for entry in std::fs::read_dir(cases::path("zstn")).expect("vectors") {
        let path = entry.expect("an entry").path();
        let is_wanted = path.extension().is_some_and(|e| e == "zstn");
        let Some(reader) = is_wanted.then(|| open(&path)).flatten() else {
            continue;
        };
        let bytes = read(&path);
        let builder = ModelBuilder::new(reader.model().files().to_vec(), None, None);
        let builder = builder.expect("a model").verify(Verify::Stored);
        let model = builder.finish(&Pure).expect("a model");
        for (number, tensor) in model.tensors().iter().enumerate() {
            let task = model.frame_task(number).expect("a frame");
            let task = FrameTask::from_bytes(&task.to_bytes()).expect("a task");
            let bounds = |at: u64| usize::try_from(at).expect("in memory");
            let stored = tensor.parts[0].stored.clone();
            let mut stored = bytes[bounds(stored.start)..bounds(stored.end)].to_vec();
            for damage in [0, 0x55] {
                if let Some(byte) = stored.last_mut() {
                    *byte ^= damage;
                }
                let expected = model.decode(&Pure, number, &[&stored], None);
                let expected = expected.map_err(|error| error.to_string());
                let decoded = task.decode(&Pure, &stored);
                assert_eq!(
                    decoded.map_err(|error| error.to_string()),
                    expected.map(Into::into),
                    "{}",
                    tensor.name
                );
            }
            assert!(task.decode(&Pure, &stored[1..]).is_err());
            count += 1;
            let has_digest = model.tensor_digest(number).is_some();
            assert_eq!(reader.model().frame_task(number).is_none(), has_digest);
            with_digests += usize::from(has_digest);
        }
    }
    assert!(count > 40, "{count} tensors");
    assert!(with_digests < count, "files of z4ai have no digests");
}

#[test]
fn other_bytes_are_not_a_task() {
    assert!(FrameTask::from_bytes(&[0; 41]).is_err());
    let reader = open(&cases::path("zstn").join("all_dtypes.zstn")).expect("a model");
    let bytes = reader.model().decode_task(0).expect("a tensor").to_bytes();
    for len in 0..bytes.len() {
        assert!(DecodeTask::from_bytes(&bytes[..len]).is_err());
    }
}
