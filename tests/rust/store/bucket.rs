//! A separate bucket for every test, and the command line as run by a user with an
//! account at a store.

use std::env;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};
use tempfile::TempDir;
use zstn_store::{Address, Environment, Object, StoreOptions, Upload, UploadOptions, list};
use zstn_tests::command::{program, text};
use zstn_tests::store_proxy::Proxy;

/// The well-known account name and key of Azurite.
const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Minimum length of a part, in bytes.
pub const PART_BYTES: usize = 5 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Memory,
    S3,
    Azure,
}

/// An empty S3 bucket, Azure container, or folder in memory.
pub struct Bucket {
    pub kind: Kind,
    pub name: String,
    /// Address of the server as `host:port`.
    pub server: String,
    pub environment: Vec<(String, String)>,
}

impl Bucket {
    pub fn memory() -> Self {
        Self::existing(Kind::Memory, &new_name(), "")
    }

    pub fn s3() -> Self {
        let bucket = Self::existing(Kind::S3, &new_name(), &server("ZSTN_MOTO"));
        let answer = bucket.request("PUT", &format!("/{}", bucket.name), &[]);
        assert!(answer.contains(" 200 "), "{answer}");
        bucket
    }

    pub fn azure() -> Self {
        let bucket = Self::existing(Kind::Azure, &new_name(), &server("ZSTN_AZURITE"));
        let path = format!("/{ACCOUNT}/{}", bucket.name);
        let date = "Sun, 22 Nov 2026 12:00:00 GMT";
        let signed = format!(
            "PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:{date}\nx-ms-version:2020-10-02\n\
             /{ACCOUNT}{path}\nrestype:container"
        );
        let signature = to_base64(&hmac(&from_base64(KEY), signed.as_bytes()));
        let authorization = format!("SharedKey {ACCOUNT}:{signature}");
        let headers = [
            ("x-ms-date", date),
            ("x-ms-version", "2020-10-02"),
            ("Authorization", &authorization),
        ];
        let answer = bucket.request("PUT", &format!("{path}?restype=container"), &headers);
        assert!(answer.contains(" 201 "), "{answer}");
        bucket
    }

    /// Returns the same bucket, accessed through a proxy.
    pub fn through(&self, proxy: &Proxy) -> Self {
        Self::existing(self.kind, &self.name, &proxy.address())
    }

    /// Returns a bucket that already exists.
    pub fn existing(kind: Kind, name: &str, server: &str) -> Self {
        Self {
            kind,
            name: name.into(),
            server: server.into(),
            environment: match kind {
                Kind::Memory => Vec::new(),
                Kind::S3 => s3_environment(server),
                Kind::Azure => azure_environment(server),
            },
        }
    }

    /// Returns another bucket on the same server.
    pub fn with_name(&self, name: &str) -> Self {
        Self::existing(self.kind, name, &self.server)
    }

    pub fn address(&self, name: &str) -> Address {
        let scheme = match self.kind {
            Kind::Memory => "memory",
            Kind::S3 => "s3",
            Kind::Azure => "az",
        };
        Address::parse(&format!("{scheme}://{}/{name}", self.name)).expect("an address")
    }

    pub fn options(&self) -> StoreOptions {
        StoreOptions::with_environment(Environment::from_pairs(self.environment.clone()))
    }

    /// Returns upload options with parts of 5 MiB.
    pub fn upload_options(&self) -> UploadOptions {
        let mut options = UploadOptions::default();
        options.store = self.options();
        options.part_bytes = PART_BYTES as u64;
        options
    }

    /// Returns upload options with a journal and one part at a time.
    pub fn journal_options(&self, folder: &Path) -> UploadOptions {
        let mut options = self.upload_options();
        options.journal_folder = Some(folder.into());
        options.parts_at_once = 1;
        options
    }

    /// Creates or replaces an object.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let mut options = self.upload_options();
        options.replace = true;
        let mut upload = Upload::begin(&self.address(name), &options).expect("begun");
        upload.write(bytes).expect("written");
        upload.finish().expect("finished");
    }

    /// Returns the number of incomplete multipart uploads; 0 on services that cannot
    /// list them.
    pub fn unfinished_uploads(&self) -> usize {
        self.upload_ids().len()
    }

    fn upload_ids(&self) -> Vec<String> {
        if self.kind != Kind::S3 {
            return Vec::new();
        }
        let listed = self.request("GET", &format!("/{}?uploads", self.name), &[]);
        assert!(listed.contains("ListMultipartUploadsResult"), "{listed}");
        let ids = listed.split("<UploadId>").skip(1);
        ids.filter_map(|rest| Some(rest.split_once('<')?.0.to_owned()))
            .collect()
    }

    /// Makes the server forget the parts of an incomplete object.
    pub fn remove_unfinished_uploads(&self, name: &str) {
        for id in self.upload_ids() {
            let path = format!("/{}/{name}?uploadId={id}", self.name);
            let answer = self.request("DELETE", &path, &[]);
            assert!(answer.contains(" 204 "), "{answer}");
        }
        if self.kind == Kind::Azure {
            // Another writer's object removes the uncommitted blocks.
            self.put(name, &[0; PART_BYTES + 1]);
            let deleted = zstn_store::delete(&self.address(name), &self.options());
            deleted.expect("deleted");
        }
    }

    /// Sends a plain request to the server, and returns the answer.
    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> String {
        let mut stream = TcpStream::connect(&self.server).expect("the server");
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.server);
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("Content-Length: 0\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        String::from_utf8_lossy(&answer).into_owned()
    }
}

/// Returns options for an S3 server at the address of a proxy.
pub fn proxied(proxy: &Proxy) -> StoreOptions {
    StoreOptions::with_environment(Environment::from_pairs(s3_environment(&proxy.address())))
}

/// Returns arbitrary credentials, which moto accepts.
pub fn s3_environment(server: &str) -> Vec<(String, String)> {
    pairs(&[
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "the-secret-key"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ENDPOINT_URL", &format!("http://{server}")),
        ("AWS_ALLOW_HTTP", "true"),
    ])
}

pub fn azure_environment(server: &str) -> Vec<(String, String)> {
    pairs(&[
        ("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT),
        ("AZURE_STORAGE_ACCOUNT_KEY", KEY),
        (
            "AZURE_STORAGE_ENDPOINT",
            &format!("http://{server}/{ACCOUNT}"),
        ),
        ("AZURE_ALLOW_HTTP", "true"),
    ])
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| ((*name).into(), (*value).into()))
        .collect()
}

fn server(variable: &str) -> String {
    env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set; `cargo xtask test` starts the server and sets it")
    })
}

/// Returns a unique name, because the servers outlive a run of the tests.
fn new_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a clock");
    format!("t{}-{}", now.as_micros(), NEXT.fetch_add(1, Relaxed))
}

/// Returns random bytes, so that all parts are different.
pub fn content(len_bytes: usize) -> Vec<u8> {
    zstn_tests::rng::Rng(len_bytes as u64 + 1).bytes(len_bytes)
}

fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut padded = [0; 64];
    padded[..key.len().min(64)].copy_from_slice(&key[..key.len().min(64)]);
    let pad = |with: u8| padded.map(|byte| byte ^ with);
    let inner = Sha256::new()
        .chain_update(pad(0x36))
        .chain_update(text)
        .finalize();
    let outer = Sha256::new()
        .chain_update(pad(0x5c))
        .chain_update(inner)
        .finalize();
    outer.to_vec()
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn to_base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let mut three = [0; 3];
        three[..group.len()].copy_from_slice(group);
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for place in 0..4 {
            let digit = (bits >> (18 - 6 * place) & 63) as usize;
            text.push(if place <= group.len() {
                ALPHABET[digit] as char
            } else {
                '='
            });
        }
    }
    text
}

fn from_base64(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for digit in text
        .bytes()
        .filter_map(|c| ALPHABET.iter().position(|known| *known == c))
    {
        bits = bits << 6 | u32::try_from(digit).expect("below 64");
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 255) as u8);
        }
    }
    bytes
}

/// A user's machine with an account at a store.
pub struct Machine<'a> {
    pub bucket: &'a Bucket,
    folder: TempDir,
}

impl<'a> Machine<'a> {
    pub fn new(bucket: &'a Bucket) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { bucket, folder }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns a `zstn` command with the account's environment variables and no others.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command
            .args(arguments.iter().map(|argument| self.address(argument)))
            .current_dir(self.path())
            .env("XDG_STATE_HOME", self.path().join("state"))
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .envs(self.bucket.environment.iter().cloned())
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("zstn runs")
    }

    /// Returns the message of an error, without the address of the bucket.
    pub fn refusal(&self, arguments: &[&str]) -> String {
        let out = self.run(arguments);
        assert!(!out.status.success(), "{arguments:?} succeeds");
        let said = text(&out.stderr).replace(&self.address("at:"), "at:");
        said.trim_end().to_owned()
    }

    /// Replaces the prefix `at:` with the address of the bucket.
    pub fn address(&self, argument: &str) -> String {
        match argument.strip_prefix("at:") {
            Some(name) => format!("{}/{name}", self.bucket.address("").url()),
            None => argument.into(),
        }
    }

    pub fn done(&self, arguments: &[&str]) -> Output {
        let out = self.run(arguments);
        assert!(out.status.success(), "{arguments:?}: {}", text(&out.stderr));
        out
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        let object = Object::open(&self.bucket.address(name), &self.bucket.options()).unwrap();
        object.read(0..object.len_bytes()).unwrap()
    }

    pub fn names(&self, folder: &str) -> Vec<String> {
        let listed = list(&self.bucket.address(folder), &self.bucket.options()).unwrap();
        listed.into_iter().map(|object| object.path).collect()
    }
}
