//! Files that packed files restore: listing them, reading ranges of them and converting
//! them takes memory that the input justifies.

use std::path::PathBuf;

use tempfile::TempDir;
use zstn::convert::Target;
use zstn::{ConvertOptions, Engine, Job, PackOptions, Reader};
use zstn_tests::allocator::{alone, peak_bytes};
use zstn_tests::archives::{Archive, StoredTensor, pickle};
use zstn_tests::gguf;

/// Returns a PyTorch file with `storage` and these tensors of 32-bit floats in it.
fn pytorch(storage: &[u8], tensors: &[StoredTensor]) -> Vec<u8> {
    let archive = Archive::default().aligned("m/data.pkl", &pickle(tensors));
    archive.aligned("m/data/0", storage).finish()
}

fn tensor<'a>(
    name: &'a str,
    storage: &[u8],
    shape: &'a [usize],
    strides: &'a [usize],
) -> StoredTensor<'a> {
    StoredTensor {
        name,
        class: "Float",
        key: "0",
        storage_len: storage.len() / 4,
        offset: 0,
        shape,
        strides,
    }
}

/// Packs `bytes` without checksums, and therefore without tables of blocks. Each entry can
/// then only be decoded as a whole.
fn packed(name: &str, bytes: Vec<u8>) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let plain = folder.path().join(name);
    std::fs::write(&plain, bytes).expect("written");
    let packed = folder.path().join(format!("{name}.zstn"));
    let options = PackOptions::default().integrity(false);
    zstn::pack(&Job::new(), &plain, &packed, &options).expect("packed");
    (folder, packed)
}

#[test]
fn a_long_entry_of_few_bytes_is_not_decoded_for_a_list() {
    let _alone = alone();
    // The header does not list the tensor that repeats an element, so the restored file
    // has to be opened, whose directory follows the storage.
    let len = 20 << 20;
    let storage = vec![0; 4 * len];
    let (_folder, path) = packed(
        "zeros.pt",
        pytorch(
            &storage,
            &[
                tensor("weight", &storage, &[len], &[1]),
                tensor("repeated", &storage, &[3, 5], &[0, 1]),
            ],
        ),
    );
    drop(storage);
    let (opened, peak) = peak_bytes(|| Reader::open(&path));
    let reader = opened.expect("the header lists a tensor");
    assert!(reader.names().eq(["weight"]));
    assert_eq!(reader.model().refused().count(), 1);
    assert!(peak < 32 << 20, "held {peak} bytes");
    let original = reader.original().map(drop).expect_err("a long entry");
    assert!(original.to_string().contains("zstn unpack"), "{original}");
}

#[test]
fn a_range_beyond_a_restored_file_takes_no_memory() {
    let _alone = alone();
    let file = gguf::file(&[], &[("w", gguf::F32, &[64], vec![1; 256])]);
    let (_folder, path) = packed("m.gguf", file);
    let reader = Reader::open(path).expect("opened");
    let original = reader.original().expect("read").expect("a GGUF file");
    let source = &original.sources()[0];
    for range in [0..1 << 40, source.len_bytes()..u64::MAX, 7..1 << 33] {
        let (result, peak) = peak_bytes(|| source.read(range.clone()).map(drop));
        result.expect_err("no such range");
        assert!(peak < 1 << 20, "{range:?} held {peak} bytes");
    }
}

/// Converts the file to safetensors on 16 threads with 64 MiB of memory. Its 32 tensors
/// take 2 MiB each as they are stored, once more inflated, and once more as values.
fn convert_in_little_memory(name: &str, file: Vec<u8>) {
    let folder = tempfile::tempdir().expect("a folder");
    let [path, out] = [name, "a.safetensors"].map(|name| folder.path().join(name));
    std::fs::write(&path, file).expect("written");
    let job = Job::new().engine(&Engine::new(16).expect("threads"));
    let job = job.memory_bytes(64 << 20);
    let (options, target) = (ConvertOptions::default(), Target::Safetensors);
    let (converted, peak) = peak_bytes(|| zstn::convert(&job, path, out, &target, &options));
    assert_eq!(converted.expect(name).tensors, 32);
    // A quarter of the memory is for inflated members and values.
    assert!(peak < 36 << 20, "{name} held {peak} bytes");
}

#[test]
fn conversions_count_inflated_members() {
    let _alone = alone();
    let zeros = vec![0; 2 << 20];
    let head = "{'descr': '|u1', 'fortran_order': False, 'shape': (2097152,), }";
    let head = format!("{head:<117}\n");
    let array = [&b"\x93NUMPY\x01\0\x76\0"[..], head.as_bytes(), &zeros].concat();
    let numbers: Vec<String> = (0..32).map(|number| number.to_string()).collect();
    let arrays = numbers.iter().fold(Archive::default(), |archive, number| {
        archive.deflated(&format!("{number}.npy"), &array)
    });
    convert_in_little_memory("a.npz", arrays.finish());

    let tensors = numbers.iter().map(|number| StoredTensor {
        key: number,
        ..tensor(number, &zeros, &[524_288], &[1])
    });
    let pickle = pickle(&tensors.collect::<Vec<_>>());
    let archive = Archive::default().aligned("m/data.pkl", &pickle);
    let storages = numbers.iter().fold(archive, |archive, number| {
        archive.deflated(&format!("m/data/{number}"), &zeros)
    });
    convert_in_little_memory("a.pt", storages.finish());
}
