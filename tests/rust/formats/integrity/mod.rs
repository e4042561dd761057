//! The integrity section: damage anywhere in a packed file causes an error or has no
//! effect, however the file is read. Invalid sections are refused, missing ones are
//! accepted (docs/formats/zstn-integrity.md).

mod agreement;
mod claimed;
mod damage;
mod replaced;
mod section;

use std::borrow::Cow;
use std::ops::Range;
use std::path::PathBuf;

use tempfile::TempDir;
use zstn::{Engine, Input, Job, Reader, Source, Tensor, UnpackOptions, Verify, VerifyOptions};
use zstn_core::container::zstn::pack;
use zstn_core::frame::select::Effort;
use zstn_tests::checkpoint;
use zstn_tests::rng::Rng;

const TRAILER_BYTES: usize = 16;

const FOOTER_BYTES: usize = 20;

/// Returns a checkpoint of about 1 kB with frames of several families, a tied tensor
/// and an empty one.
fn original() -> Vec<u8> {
    let mut rng = Rng(31);
    let weights = rng.bf16_weights(120);
    let noise = rng.bytes(20);
    checkpoint(&[
        ("w", "BF16", &weights),
        ("noise", "U8", &noise),
        ("tied", "BF16", &weights),
        ("zeros", "F32", &[0; 200]),
        ("none", "F32", &[]),
    ])
}

fn packed() -> Vec<u8> {
    pack(&native(), &original(), Effort::Balanced).expect("packs")
}

fn native() -> Engine {
    Engine::new(1).expect("a thread")
}

/// A file in memory.
struct Memory(Vec<u8>);

impl Source for Memory {
    fn name(&self) -> &str {
        "memory"
    }

    fn len_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&self, range: Range<u64>) -> zstn::Result<Cow<'_, [u8]>> {
        Ok(Cow::Borrowed(zstn_core::bytes::part(&self.0, range)))
    }
}

/// Reads every tensor individually.
fn read_all(file: &[u8]) -> zstn::Result<Vec<Tensor>> {
    read_all_with(file, Verify::default())
}

fn read_all_with(file: &[u8], verify: Verify) -> zstn::Result<Vec<Tensor>> {
    let reader = Reader::options()
        .engine(&native())
        .verify(verify)
        .open(Input::source(Memory(file.into())))?;
    let names: Vec<&str> = reader.names().collect();
    names.into_iter().map(|name| reader.read(name)).collect()
}

/// A folder for the files under test, and an engine.
struct Disk {
    folder: TempDir,
    engine: Engine,
}

impl Disk {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a folder"),
            engine: native(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, file: &[u8]) -> PathBuf {
        let path = self.path("m.zstn");
        std::fs::write(&path, file).expect("written");
        path
    }

    fn unpack(&self, file: &[u8]) -> zstn::Result<Vec<u8>> {
        let restored = self.path("m.safetensors");
        let options = UnpackOptions::default();
        zstn::unpack(
            &Job::new().engine(&self.engine),
            self.write(file),
            &restored,
            &options,
        )?;
        let bytes = std::fs::read(&restored).expect("restored");
        std::fs::remove_file(&restored).expect("there");
        Ok(bytes)
    }

    fn verify(&self, file: &[u8]) -> zstn::Result<bool> {
        let options = VerifyOptions::default();
        let report = zstn::verify(&Job::new().engine(&self.engine), self.write(file), &options)?;
        Ok(report.has_digests())
    }
}
