//! The memory of a server whose clients stop reading is little more than its cache,
//! however many clients there are.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use zstn::{Engine, Job, PackOptions, pack};
use zstn_serve::Server;
use zstn_tests::allocator::{Counting, peak_bytes};
use zstn_tests::checkpoint;
use zstn_tests::rng::Rng;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const TENSOR_BYTES: usize = 2 << 20;
const READERS: usize = 16;
/// Length of a range that exceeds the socket buffers on both ends.
const RANGE_BYTES: usize = 16 << 20;

/// Returns a checkpoint of 24 distinct tensors.
fn model() -> Vec<u8> {
    let pool = Rng(5).bf16_weights(TENSOR_BYTES / 2);
    let tensors: Vec<(String, Vec<u8>)> = (0..24)
        .map(|number| {
            let mut bytes = pool.clone();
            bytes.rotate_left(number * 2);
            (format!("layer.{number}"), bytes)
        })
        .collect();
    let tensors: Vec<_> = tensors
        .iter()
        .map(|(name, bytes)| (name.as_str(), "BF16", &bytes[..]))
        .collect();
    checkpoint(&tensors)
}

/// Requests a range that begins in tensor `number`, and reads its first byte.
fn begin(server: SocketAddr, number: usize) -> (BufReader<TcpStream>, usize) {
    let start = number * TENSOR_BYTES / 2 + 100_000;
    let last = start + RANGE_BYTES - 1;
    let mut stream = TcpStream::connect(server).unwrap();
    let request = format!(
        "GET /m.safetensors HTTP/1.1\r\nHost: localhost\r\nRange: bytes={start}-{last}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut reader = BufReader::with_capacity(16 << 10, stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert!(line.contains(" 206 "), "{line}");
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line).unwrap();
    }
    assert!(!reader.fill_buf().unwrap().is_empty());
    (reader, start)
}

#[test]
fn stalled_readers_do_not_hold_tensors_and_go_on_where_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let original = model();
    let plain = folder.path().join("plain");
    std::fs::write(&plain, &original).unwrap();
    let engine = Engine::new(2).unwrap();
    let packed = folder.path().join("m.zstn");
    let job = Job::new().engine(&engine);
    pack(&job, &plain, &packed, &PackOptions::default()).unwrap();

    let server = Server::bind(folder.path(), SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = server.url();
    let address = address.trim_start_matches("http://").trim_end_matches('/');
    let address = address.parse().unwrap();
    std::thread::spawn(move || server.with_cache(1 << 20).run(|_| ()));

    let (readers, held) = peak_bytes(|| {
        let readers = (0..READERS).map(|number| begin(address, number));
        readers.collect::<Vec<_>>()
    });
    // The allowance is two tensors plus the buffers of each connection.
    let most = 2 * TENSOR_BYTES + READERS * (512 << 10);
    assert!(held < most, "{held} bytes held, {most} allowed");

    let ((), held) = peak_bytes(|| {
        std::thread::scope(|scope| {
            for (mut reader, start) in readers {
                let expected = &original[start..start + RANGE_BYTES];
                scope.spawn(move || {
                    let mut buffer = vec![0; 64 << 10];
                    for part in expected.chunks(buffer.len()) {
                        let buffer = &mut buffer[..part.len()];
                        reader.read_exact(buffer).unwrap();
                        assert!(buffer == part);
                    }
                });
            }
        });
    });
    let most = most + READERS * (64 << 10);
    assert!(held < most, "{held} bytes held, {most} allowed");
}
