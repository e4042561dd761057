//! Unpacking and verifying accept the same files. The files are of every format and
//! have flipped bits, truncations and splices, with old or recomputed checksums.

use std::ops::Range;
use std::path::PathBuf;

use zstn::{Job, PackOptions, UnpackOptions, VerifyOptions};
use zstn_core::bytes::index;
use zstn_core::container::zstn::integrity::checksum;
use zstn_core::container::zstn::{
    ContainerOptions, ContainerPrefix, ContainerTail, RecordContent, pack, unpack,
};
use zstn_core::frame::select::Effort;
use zstn_core::pure::Pure;
use zstn_tests::checkpoint;
use zstn_tests::rng::Rng;
use zstn_tests::tier::count;

use super::section::section;
use super::{Disk, FOOTER_BYTES, native, original};

/// A packed file, its base if it is a delta, and whether its digests reveal damage that
/// leaves the checksums valid.
struct Subject {
    name: &'static str,
    packed: Vec<u8>,
    base: Option<PathBuf>,
    original: Vec<u8>,
    has_digests: bool,
}

/// Returns a checkpoint whose packed file has a block table, statistics bands and, with
/// `long_header`, a copy of the header in the section.
fn large(long_header: bool) -> Vec<u8> {
    let mut rng = Rng(8);
    let weights = rng.bf16_weights(600 * 300);
    let names: Vec<String> = (0..if long_header { 700 } else { 1 })
        .map(|number| format!("model.layers.{number}.norm.weight"))
        .collect();
    let norms: Vec<Vec<u8>> = names.iter().map(|_| rng.bf16_weights(4)).collect();
    let mut tensors: Vec<(&str, &str, &[u8])> = vec![("w", "BF16", &weights)];
    for (name, norm) in names.iter().zip(&norms) {
        tensors.push((name, "BF16", norm));
    }
    checkpoint(&tensors)
}

fn subjects(disk: &Disk) -> Vec<Subject> {
    let container = |name, original: Vec<u8>, options: ContainerOptions| Subject {
        name,
        packed: pack(&native(), &original, options).expect("packs"),
        base: None,
        original,
        has_digests: true,
    };
    let options = ContainerOptions::new(Effort::Fast);
    let mut subjects = vec![
        container("small", original(), options),
        container("tables", large(false), options),
        container("header copy", large(true), options),
    ];
    subjects.push(Subject {
        has_digests: false,
        ..container("no section", original(), options.integrity(false))
    });
    subjects.push(Subject {
        has_digests: false,
        ..container("single frame", [original(), vec![1; 9]].concat(), options)
    });
    for (name, extended) in [("delta", false), ("extended delta", true)] {
        let base = original();
        let mut target = base.clone();
        let data = target.len() - 450;
        for (at, byte) in target[data..].iter_mut().enumerate().step_by(7) {
            *byte ^= u8::try_from(at % 3).expect("small");
        }
        let [base_path, target_path, packed] =
            ["base.safetensors", "target.safetensors", name].map(|name| disk.path(name));
        std::fs::write(&base_path, &base).expect("written");
        std::fs::write(&target_path, &target).expect("written");
        let options = PackOptions::default().base(&*base_path).extended(extended);
        zstn::pack(
            &Job::new().engine(&disk.engine),
            &*target_path,
            &*packed,
            &options,
        )
        .expect("packs");
        subjects.push(Subject {
            name,
            packed: std::fs::read(&packed).expect("packed"),
            base: Some(base_path),
            original: target,
            has_digests: true,
        });
    }
    subjects
}

/// Damages the file as transfers, disks and careless tools do.
fn mutate(rng: &mut Rng, file: &[u8]) -> Vec<u8> {
    let mut out = file.to_vec();
    let mut below = |limit: usize| usize::try_from(rng.next_u64() % limit as u64).expect("small");
    let at = below(file.len());
    // Most of the important fields are near either end.
    let at = match below(3) {
        0 => at.min(300),
        1 => file.len() - 1 - at.min(400),
        _ => at,
    };
    let len = 1 + below(64).min(file.len() - at - 1);
    match below(6) {
        0 | 1 => out[at] ^= 1 << below(8),
        2 => out.truncate(at),
        3 => drop(out.drain(at..at + len)),
        4 => {
            let piece = file[at..at + len].to_vec();
            let to = below(file.len());
            out.splice(to..to, piece);
        }
        _ => {
            let to = below(file.len() - len);
            out.copy_within(at..at + len, to);
        }
    }
    out
}

/// Locations of the checksums in a file.
struct Checksums {
    /// Range of the section's version and records.
    covered: Range<usize>,
    /// The range that each checksum covers, and the offset of the checksum.
    places: Vec<(Range<usize>, usize)>,
}

impl Checksums {
    /// Locates the checksums in an undamaged file; `None` if it has no section.
    fn of(packed: &[u8]) -> Option<Self> {
        if packed.get(packed.len() - FOOTER_BYTES - 8..packed.len() - FOOTER_BYTES)? != b"ZSTNINTG"
        {
            return None;
        }
        let prefix = ContainerPrefix::parse(packed, packed.len() as u64).expect("in order");
        let tail = ContainerTail::of_file(&prefix, packed).expect("in order");
        let (place, records) = section(packed);
        let (mut at, mut values) = (place.start + 2, Vec::new());
        for (tag, value) in &records {
            values.push((tag.as_str(), at + 12));
            at += 12 + value.len();
        }
        let value = |tag| values.iter().find(|value| value.0 == tag).expect("there").1;
        let footer = packed.len() - FOOTER_BYTES;
        let index_start = u64::from_le_bytes(packed[footer..footer + 8].try_into().expect("8"));
        let mut places = vec![
            (0..index(prefix.end()), value("HEAD")),
            (index(index_start)..place.start, value("HEAD") + 8),
        ];
        let frames = tail
            .index
            .records()
            .iter()
            .filter_map(|r| match &r.content {
                RecordContent::Frame(frame) => Some(index(frame.start)..index(frame.end)),
                _ => None,
            });
        places.extend(frames.zip((value("FRMS")..).step_by(8)));
        Some(Self {
            covered: place.start..at,
            places,
        })
    }

    /// Returns a file of the same length with its checksums recomputed.
    fn renew(&self, file: &[u8]) -> Vec<u8> {
        let mut out = file.to_vec();
        for (covered, at) in self
            .places
            .iter()
            .chain([&(self.covered.clone(), self.covered.end)])
        {
            let sum = checksum([&out[covered.clone()]]);
            out[*at..*at + 8].copy_from_slice(&sum.to_le_bytes());
        }
        out
    }
}

#[test]
fn unpacking_and_verifying_accept_the_same_files() {
    let disk = Disk::new();
    let (mut accepted, mut refused) = (0, 0);
    for subject in subjects(&disk) {
        let name = subject.name;
        let input = disk.path("input");
        let output = disk.path("output.bin");
        let check = |file: &[u8], is_new: bool, what: &str| {
            std::fs::write(&input, file).expect("written");
            let (mut unpacking, mut verifying) =
                (UnpackOptions::default(), VerifyOptions::default());
            if let Some(base) = &subject.base {
                unpacking = unpacking.base(&**base);
                verifying = verifying.base(&**base);
            }
            let unpacked = zstn::unpack(
                &Job::new().engine(&disk.engine),
                &*input,
                &*output,
                &unpacking,
            );
            let verified = zstn::verify(&Job::new().engine(&disk.engine), &*input, &verifying);
            assert_eq!(
                unpacked.as_ref().err().map(ToString::to_string),
                verified.as_ref().err().map(ToString::to_string),
                "{name}, {what}: unpack and verify"
            );
            if subject.base.is_none() {
                let in_memory = unpack(&Pure, file);
                assert_eq!(
                    unpacked.is_ok(),
                    in_memory.is_ok(),
                    "{name}, {what}: file and memory, {in_memory:?}"
                );
            }
            if unpacked.is_ok() {
                let restored = std::fs::read(&output).expect("restored");
                std::fs::remove_file(&output).expect("there");
                let must_be_right = subject.has_digests && !is_new;
                assert!(
                    !must_be_right || restored == subject.original,
                    "{name}, {what}: other bytes"
                );
                let digests = verified.expect("verified").has_digests();
                assert!(
                    is_new || digests == subject.has_digests,
                    "{name}, {what}: lost its digests"
                );
            } else {
                assert!(!output.exists(), "{name}, {what}: output of a refused file");
            }
            unpacked.is_ok()
        };
        assert!(check(&subject.packed, false, "as packed"));
        if subject.base.is_none() {
            // The flag of a virtual header would leave the header out of the restored file.
            let mut flagged = subject.packed.clone();
            flagged[5] ^= 8;
            assert!(!check(&flagged, false, "another layout flag"));
        }
        let (checksums, len) = (Checksums::of(&subject.packed), subject.packed.len());
        let mut rng = Rng(subject.packed.len() as u64);
        for number in 0..count(150, 10_000) {
            let mutated = mutate(&mut rng, &subject.packed);
            if mutated == subject.packed {
                continue;
            }
            let is_accepted = check(&mutated, false, &format!("mutation {number}"));
            accepted += usize::from(is_accepted);
            refused += usize::from(!is_accepted);
            if let Some(sums) = checksums.as_ref().filter(|_| mutated.len() == len) {
                let renewed = sums.renew(&mutated);
                check(&renewed, true, &format!("mutation {number}, new checksums"));
            }
        }
    }
    assert!(
        refused > 5 * accepted,
        "{refused} refused, {accepted} accepted"
    );
}
