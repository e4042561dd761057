//! Files are loaded through the interface of NVIDIA's driver, which is emulated. Only a
//! new process can load the emulator, because the system's linker reads the variable
//! with its folder when a process starts.

use std::process::Command;
use std::thread;
use std::time::Duration;

use zstn::Reader;
use zstn_gpu::cuda::Gpu;
use zstn_gpu::load::load;
use zstn_gpu::{Device as _, Error};
use zstn_tests::{cases, repository};

use super::loading::{BUFFER_BYTES, model, open, options, packed};
use super::loading_deltas::{checkpoints_of_a_training, delta, open_delta};

#[test]
fn without_a_driver_the_error_names_its_library() {
    match Gpu::open(0) {
        Err(error @ Error::NoDriver { .. }) => {
            let message = error.to_string();
            assert!(
                message.contains("libcuda.so.1 cannot be loaded"),
                "{message}"
            );
        }
        // A machine with a driver has a GPU, or reports that it has none.
        Ok(gpu) => assert!(!gpu.name().is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// The variable is set in the child process, which loads the emulator as its driver.
const IS_CHILD: &str = "ZSTN_TEST_EMULATED_DRIVER";

/// The pinned memory of a queue in bytes.
const QUEUE_BYTES: u64 = 2 * BUFFER_BYTES as u64;
/// The most queues whose memory is pinned at the same time, in use or not.
const MOST_QUEUES: u64 = 4;

#[test]
fn files_are_loaded_by_an_emulated_driver() {
    if std::env::var_os(IS_CHILD).is_some() {
        return load_files();
    }
    let folder = tempfile::tempdir().expect("a folder");
    let gpu = repository().join("native/gpu");
    let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
    let status = Command::new(compiler)
        .args(["-std=c++17", "-O1", "-shared", "-fPIC", "-x", "c++", "-I"])
        .arg(gpu.join("kernels"))
        .arg(gpu.join("emulator/driver.cpp"))
        .arg("-o")
        .arg(folder.path().join("libcuda.so"))
        .status();
    assert!(status.expect("a C++ compiler, set by $CXX").success());
    let name = "device_plan::driver::files_are_loaded_by_an_emulated_driver";
    let output = Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", name, "--nocapture"])
        .env("LD_LIBRARY_PATH", folder.path())
        .env(IS_CHILD, "1")
        .env(
            "ZSTN_EMULATED_PINNED_BYTES",
            (MOST_QUEUES * QUEUE_BYTES).to_string(),
        )
        .output()
        .expect("starts");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
}

fn load_files() {
    let gpu = Gpu::open(0).expect("the emulator");
    assert_eq!(gpu.name(), "emulator");
    let error = Gpu::open(1).err().expect("there is one device").to_string();
    assert!(error.contains("the emulator has no such device"), "{error}");
    let original = model();
    let without_checksums = packed(&original, false);
    let files = [packed(&original, true), without_checksums.clone(), original];
    let vectors = cases::containers().into_iter().map(|case| case.packed());
    for file in files.into_iter().chain(vectors) {
        if let Ok(reader) = open(&file) {
            load_file(&gpu, &reader);
        }
    }
    load_deltas(&gpu);
    // Without checksums, only the kernels find damage in streams. The CPU then states it.
    let mut in_streams = 0;
    for at in (0..without_checksums.len()).step_by(10_007) {
        let mut damaged = without_checksums.clone();
        damaged[at] ^= 0x41;
        let Ok(reader) = open(&damaged) else { continue };
        let refusals = reader.names().filter_map(|name| reader.read(name).err());
        let refusals: Vec<String> = refusals.map(|error| error.to_string()).collect();
        if refusals.is_empty() {
            load_file(&gpu, &reader);
            continue;
        }
        let error = load(&gpu, &reader, &options()).err().expect("is refused");
        assert!(refusals.contains(&error.to_string()), "byte {at}: {error}");
        in_streams += usize::from(error.to_string().contains("a Huffman stream"));
    }
    assert!(in_streams >= 3, "{in_streams}");
    gpu.release_buffers();
    gpu.set_buffer_limit_bytes(0);
    let reader = open(&without_checksums).expect("opens");
    load_file(&gpu, &reader);
    limit_queues(&gpu, &reader);
}

/// Loads deltas with both kinds of records. With a wrong base, the digests differ, and the
/// CPU states the error.
fn load_deltas(gpu: &Gpu) {
    let [first, second, _] = checkpoints_of_a_training();
    let mut other = first.clone();
    let place = open(&first)
        .expect("opens")
        .find("long")
        .expect("a tensor")
        .parts[0]
        .stored
        .end;
    other[usize::try_from(place).expect("small") - 1] ^= 1;
    for extended in [true, false] {
        let one = delta(&second, &[&first], extended);
        for base in [first.clone(), packed(&first, true)] {
            load_file(
                gpu,
                &open_delta(&one, open(&base).expect("opens")).expect("fits"),
            );
        }
        let reader = open_delta(&one, open(&other).expect("opens")).expect("fits");
        let expected = reader.read("long").expect_err("another base").to_string();
        let error = load(gpu, &reader, &options()).err().expect("is refused");
        assert_eq!(error.to_string(), expected);
    }
}

/// The emulator ends the process if too much memory is pinned.
fn limit_queues(gpu: &Gpu, reader: &Reader) {
    gpu.set_queue_limit_bytes(MOST_QUEUES * QUEUE_BYTES);
    let queue = || gpu.queue(BUFFER_BYTES, Duration::ZERO).expect("no error");
    let mut queues: Vec<_> = (0..MOST_QUEUES).filter_map(|_| queue()).collect();
    assert_eq!(queues.len() as u64, MOST_QUEUES);
    assert!(queue().is_none());
    // A queue waits until another one is dropped.
    let first = queues.pop();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| gpu.queue(BUFFER_BYTES, Duration::from_secs(60)));
        drop(first);
        let found = waiting.join().expect("no panic").expect("no error");
        assert!(found.is_some());
    });
    drop(queues);
    // Each load has three threads.
    thread::scope(|scope| {
        for _ in 0..MOST_QUEUES + 2 {
            scope.spawn(|| load_file(gpu, reader));
        }
    });
    gpu.set_queue_limit_bytes(0);
    load_file(gpu, reader);
}

/// Loads a file and compares every tensor with the bytes that a reader returns.
fn load_file(gpu: &Gpu, reader: &Reader) {
    let loaded = load(gpu, reader, &options()).expect("loads");
    for tensor in &loaded.tensors {
        let expected = reader.read(&tensor.name).expect("reads");
        let bytes = loaded.memory.read(tensor.range.clone()).expect("copies");
        assert!(bytes == expected.bytes, "{}", tensor.name);
    }
    // Any thread may free the memory.
    let freed = thread::spawn(move || drop(loaded));
    freed.join().expect("frees");
}
