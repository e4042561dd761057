//! The integrity section: damage anywhere in a packed file causes an error or has no
//! effect, however the file is read. Invalid sections are refused, missing ones are
//! accepted (docs/formats/zstn-integrity.md).

mod agreement;
mod known_sha256;
mod section;

use std::borrow::Cow;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use section::{rule, section, with_records};
use tempfile::TempDir;
use zstn::{Engine, Input, Job, Reader, Source, Tensor, UnpackOptions, Verify, VerifyOptions};
use zstn_core::Rule;
use zstn_core::container::zstn::integrity::checksum;
use zstn_core::container::zstn::{pack, unpack};
use zstn_core::frame::select::Effort;
use zstn_core::pure::Pure;
use zstn_tests::checkpoint;
use zstn_tests::rng::Rng;
use zstn_tests::tier::stepped;

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
        fs::write(&path, file).expect("written");
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
        let bytes = fs::read(&restored).expect("restored");
        fs::remove_file(&restored).expect("there");
        Ok(bytes)
    }

    fn verify(&self, file: &[u8]) -> zstn::Result<bool> {
        let options = VerifyOptions::default();
        let report = zstn::verify(&Job::new().engine(&self.engine), self.write(file), &options)?;
        Ok(report.has_digests())
    }
}

#[test]
fn every_flipped_bit_is_refused() {
    let (packed, disk) = (packed(), Disk::new());
    let truth = read_all(&packed).expect("in order");
    assert!(truth.len() == 5 && packed.len() < 2500);
    assert!(disk.verify(&packed).expect("in order"));
    for bit in stepped(0..packed.len() * 8, 5) {
        let mut flipped = packed.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(unpack(&Pure, &flipped).is_err(), "bit {bit} in memory");
        assert!(disk.unpack(&flipped).is_err(), "bit {bit} unpacked");
        assert!(disk.verify(&flipped).is_err(), "bit {bit} verified");
        // A reader of tensors uses neither statistics nor block tables.
        let read = read_all(&flipped);
        assert!(
            !read.is_ok_and(|tensors| tensors != truth),
            "bit {bit} read"
        );
    }
    let left: Vec<_> = fs::read_dir(disk.folder.path()).expect("there").collect();
    assert_eq!(left.len(), 1, "refused files leave nothing behind");
}

#[test]
fn every_truncation_is_refused() {
    let (packed, disk) = (packed(), Disk::new());
    for len in 1..packed.len() {
        let cut = &packed[..len];
        assert!(read_all(cut).is_err(), "{len} bytes read");
        assert!(disk.unpack(cut).is_err(), "{len} bytes unpacked");
        assert!(disk.verify(cut).is_err(), "{len} bytes verified");
    }
}

/// Returns the file with one bit of the frame of `w` changed and the checksum
/// recomputed.
fn replaced() -> Vec<u8> {
    let packed = packed();
    let reader = Reader::open(Input::source(Memory(packed.clone()))).expect("in order");
    let stored = reader.find("w").expect("there").parts[0].stored.clone();
    let frame =
        usize::try_from(stored.start).expect("small")..usize::try_from(stored.end).expect("small");
    let truth = reader.read("w").expect("in order").bytes;
    let (_, mut records) = section(&packed);
    let frames = records
        .iter()
        .position(|record| record.0 == "FRMS")
        .expect("there");
    // The search starts at the end, where planes are stored uncompressed.
    for at in frame.clone().rev() {
        let mut file = packed.clone();
        file[at] ^= 1;
        let sum = checksum([&file[frame.clone()]]).to_le_bytes();
        records[frames].1[..8].copy_from_slice(&sum);
        let file = with_records(&file, 1, &records);
        let read = read_all_with(&file, Verify::Stored);
        if read.is_ok_and(|tensors| tensors[0].bytes != truth) {
            return file;
        }
    }
    panic!("every bit of the frame makes it malformed");
}

#[test]
fn only_the_digest_detects_a_replaced_frame() {
    let (file, disk) = (replaced(), Disk::new());
    let digest = (Some(Rule::ZstnTensorDigest), Some("w".into()));
    assert_eq!(rule(read_all_with(&file, Verify::Full)), digest);
    let options = Reader::options().engine(&native());
    let by_default = options.open(Input::source(Memory(file.clone())));
    assert_eq!(rule(by_default.and_then(|reader| reader.read("w"))), digest);
    // Unpacking and verifying always compare digests.
    assert_eq!(rule(disk.unpack(&file)), digest);
    assert_eq!(rule(disk.verify(&file)), digest);
    assert_eq!(unpack(&Pure, &file).expect_err("replaced").rule(), digest.0);
    // The tests of the other languages read this vector.
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/zstn-verify/replaced-frame.zstn");
    if std::env::var_os("ZSTN_WRITE_DIGESTS").is_some() {
        fs::write(&path, &file).expect("the vector can be written");
    }
    assert!(
        fs::read(path).expect("the vector") == file,
        "the vector is another file"
    );
}

#[test]
fn without_checksums_the_digests_are_compared_in_any_case() {
    let file = replaced();
    let (_, mut records) = section(&file);
    records.retain(|record| record.0 != "FRMS");
    let file = with_records(&file, 1, &records);
    let digest = (Some(Rule::ZstnTensorDigest), Some("w".into()));
    for verify in [Verify::Stored, Verify::Full] {
        assert_eq!(rule(read_all_with(&file, verify)), digest);
    }
}

#[test]
fn every_flipped_bit_of_a_frame_is_refused_by_its_checksum() {
    let packed = packed();
    let truth = read_all_with(&packed, Verify::Stored).expect("in order");
    assert_eq!(truth.len(), 5);
    for bit in 0..packed.len() * 8 {
        let mut flipped = packed.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let read = read_all_with(&flipped, Verify::Stored);
        assert!(!read.is_ok_and(|tensors| tensors != truth), "bit {bit}");
    }
}
