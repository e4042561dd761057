//! Times many clients that read ranges of one model at the same time: from `zstn serve`
//! with the original file, and from `zstn gateway` with the packed file.
//!
//! ```sh
//! cargo build --release -p zstn-cli
//! ZSTN_BIN=target/release/zstn cargo run --release -p zstn-bench --example readers
//! ```
//!
//! The defaults are `--clients 1000 --megabytes 1000 --cache 256 --rounds 3`. `--cache`
//! is the size of each of the gateway's two caches, in MB.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use zstn::{Job, PackOptions};
use zstn_bench::BF16;
use zstn_tests::rng::Rng;

const TENSOR_BYTES: usize = 16 << 20;
const STACK_BYTES: usize = 256 << 10;

/// A pattern of range requests.
struct Pattern {
    name: &'static str,
    /// Length of a range in bytes.
    range_bytes: u64,
    /// Number of ranges that each client reads.
    ranges: u64,
    is_random: bool,
}

const PATTERNS: [Pattern; 2] = [
    Pattern {
        name: "1 MiB, one after another",
        range_bytes: 1 << 20,
        ranges: 4,
        is_random: false,
    },
    Pattern {
        name: "64 KiB, anywhere",
        range_bytes: 64 << 10,
        ranges: 4,
        is_random: true,
    },
];

fn main() {
    let option = |name: &str, default: u64| {
        let mut arguments = std::env::args().skip_while(|argument| argument != name);
        arguments
            .nth(1)
            .map_or(default, |value| value.parse().expect("a number"))
    };
    let clients = option("--clients", 1000);
    let len_bytes = option("--megabytes", 1000) * 1_000_000;
    let cache_mb = option("--cache", 256);
    let rounds = option("--rounds", 3);
    let program = std::env::var("ZSTN_BIN").unwrap_or("target/release/zstn".into());

    let folder = tempfile::tempdir().expect("a folder");
    let original = folder.path().join("plain/model.safetensors");
    let packed = folder.path().join("hub/me/model/model.zstn");
    for path in [&original, &packed] {
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    }
    write_model(&original, len_bytes);
    let job = Job::new();
    zstn::pack(&job, &original, &packed, &PackOptions::default()).expect("a packed file");
    let len_bytes = original.metadata().expect("a file").len();
    let packed_bytes = packed.metadata().expect("a file").len();
    println!(
        "{clients} clients, {len_bytes} bytes, packed {packed_bytes}, caches of {cache_mb} MB\n"
    );

    let plain = Server::start(&program, &["serve", "--port", "0", "--json"], &original);
    let cache = format!("{cache_mb}M");
    let gateway = [
        "gateway",
        "--port",
        "0",
        "--json",
        "--cache",
        &cache,
        "--upstream-cache",
        &cache,
        "--upstream",
    ];
    let gateway = Server::start(&program, &gateway, &folder.path().join("hub/x"));
    let paths = [
        "/model.safetensors",
        "/me/model/resolve/main/model.safetensors",
    ];
    println!("| reads | `serve` | `gateway` | ratio | errors | most memory of the gateway |");
    println!("|---|--:|--:|--:|--:|--:|");
    for pattern in &PATTERNS {
        let mut rates = [Vec::new(), Vec::new()];
        let mut errors = [0, 0];
        for round in 0..rounds {
            for (number, server) in [&plain, &gateway].into_iter().enumerate() {
                let read = server.read(paths[number], len_bytes, clients, pattern, round);
                rates[number].push(read.bytes as f64 / read.seconds / 1e6);
                errors[number] += read.errors;
            }
        }
        let [plain_rate, gateway_rate] = rates.map(median);
        println!(
            "| {} | {plain_rate:.0} MB/s | {gateway_rate:.0} MB/s | {:.2} | {} and {} | {} MB |",
            pattern.name,
            gateway_rate / plain_rate,
            errors[0],
            errors[1],
            gateway.peak_bytes() / 1_000_000,
        );
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Writes a checkpoint of bfloat16 weights, tensor by tensor.
fn write_model(path: &Path, len_bytes: u64) {
    let count = usize::try_from(len_bytes).expect("a length") / TENSOR_BYTES;
    let entries: Vec<String> = (0..count)
        .map(|number| {
            let start = number * TENSOR_BYTES;
            format!(
                "\"layer.{number}\":{{\"dtype\":\"BF16\",\"shape\":[{}],\"data_offsets\":[{start},{}]}}",
                TENSOR_BYTES / 2,
                start + TENSOR_BYTES
            )
        })
        .collect();
    let header = format!("{{{}}}", entries.join(","));
    let mut file = fs::File::create(path).expect("a file");
    file.write_all(&(header.len() as u64).to_le_bytes())
        .expect("space");
    file.write_all(header.as_bytes()).expect("space");
    let tensor = BF16.tensor(TENSOR_BYTES);
    for number in 0..count {
        // Rotating the bytes makes each tensor different at no cost.
        let turn = number * 2 * 7919 % TENSOR_BYTES;
        file.write_all(&tensor[turn..]).expect("space");
        file.write_all(&tensor[..turn]).expect("space");
    }
}

struct Server {
    process: Child,
    address: String,
}

/// The bytes that all clients of a round read, and their errors.
struct Outcome {
    bytes: u64,
    errors: u64,
    seconds: f64,
}

impl Server {
    /// Starts a server for the folder of `file`.
    fn start(program: &str, arguments: &[&str], file: &Path) -> Self {
        let folder: PathBuf = file.parent().expect("a folder").into();
        let mut process = Command::new(program)
            .args(arguments)
            .arg(folder)
            .stdout(Stdio::piped())
            .spawn()
            .expect("ZSTN_BIN is a program");
        let mut output = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        let address = line
            .split("http://")
            .nth(1)
            .and_then(|rest| rest.split('/').next());
        let address = address.expect("an address").to_owned();
        // The log must be read, or the server would block when the pipe is full.
        thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        Self { process, address }
    }

    fn read(&self, path: &str, len: u64, clients: u64, pattern: &Pattern, round: u64) -> Outcome {
        let (bytes, errors) = (AtomicU64::new(0), AtomicU64::new(0));
        let first_error = Mutex::new(None);
        let start = Instant::now();
        thread::scope(|scope| {
            for client in 0..clients {
                let (bytes, errors, first_error) = (&bytes, &errors, &first_error);
                let read =
                    move || match self.read_ranges(path, len, client, clients, pattern, round) {
                        Ok(read) => drop(bytes.fetch_add(read, Ordering::Relaxed)),
                        Err(error) => {
                            errors.fetch_add(1, Ordering::Relaxed);
                            let mut first = first_error.lock().expect("no panic");
                            first.get_or_insert(error);
                        }
                    };
                let thread = thread::Builder::new().stack_size(STACK_BYTES);
                thread.spawn_scoped(scope, read).expect("a thread");
            }
        });
        if let Some(error) = first_error.into_inner().expect("no panic") {
            eprintln!("{error}");
        }
        Outcome {
            bytes: bytes.into_inner(),
            errors: errors.into_inner(),
            seconds: start.elapsed().as_secs_f64(),
        }
    }

    fn read_ranges(
        &self,
        path: &str,
        len: u64,
        client: u64,
        clients: u64,
        pattern: &Pattern,
        round: u64,
    ) -> std::io::Result<u64> {
        let mut stream = TcpStream::connect(&self.address)?;
        let mut rng = Rng(client * 1_000_003 + round + 1);
        let mut start = len / clients * client;
        let mut buffer = vec![0; 64 << 10];
        let mut total = 0;
        for _ in 0..pattern.ranges {
            if pattern.is_random {
                start = rng.next_u64() % len;
            }
            let end = (start + pattern.range_bytes).min(len);
            let request = format!(
                "GET {path} HTTP/1.1\r\nHost: localhost\r\nRange: bytes={start}-{}\r\n\r\n",
                end - 1
            );
            let head = match ask(&mut stream, &request) {
                Ok(head) => head,
                // A server may close a connection between two requests.
                Err(_) => {
                    stream = TcpStream::connect(&self.address)?;
                    ask(&mut stream, &request)?
                }
            };
            if !head.starts_with(b"HTTP/1.1 206") {
                let head = String::from_utf8_lossy(&head).into_owned();
                return Err(std::io::Error::other(head));
            }
            let mut left = end - start;
            while left > 0 {
                let piece =
                    usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
                stream.read_exact(&mut buffer[..piece])?;
                left -= piece as u64;
            }
            total += end - start;
            start = if end == len { 0 } else { end };
        }
        Ok(total)
    }

    /// Returns the peak memory of the process in bytes.
    fn peak_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    }
}

/// Sends a request and returns the head of the answer.
fn ask(stream: &mut TcpStream, request: &str) -> std::io::Result<Vec<u8>> {
    stream.set_nodelay(true)?;
    stream.write_all(request.as_bytes())?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(head)
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
