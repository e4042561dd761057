//! The proof that a packed file restores an original, which is required before the
//! original is removed.

use std::path::Path;

use proptest::prelude::*;
use zstn::{Engine, Job, PackOptions, Sink};
use zstn_hub::proof::{StoredFile, check_restores};
use zstn_tests::rng::Rng;
use zstn_tests::{checkpoint, sha256};

/// The content stored under the name of a packed file.
#[derive(Debug, Clone, Copy)]
enum Stored {
    Good,
    /// The packed file with one flipped bit.
    Flipped,
    Cut,
    /// The packed file with extra bytes at its end.
    Longer,
    /// The packed file of another checkpoint.
    Other,
    /// The packed file of another checkpoint, which claims the SHA-256 of this one.
    Forged,
    /// The original, not packed.
    Plain,
    Empty,
    Missing,
    /// A delta, with its base.
    Delta,
    /// The delta without its base.
    DeltaAlone,
    /// The delta with a wrong base.
    DeltaOfOther,
}

/// The SHA-256 that the store lists for the original or for the packed bytes.
#[derive(Debug, Clone, Copy)]
enum Listed {
    Equal,
    Other,
    Missing,
}

fn stored() -> impl Strategy<Value = Stored> {
    prop::sample::select(vec![
        Stored::Good,
        Stored::Good,
        Stored::Flipped,
        Stored::Cut,
        Stored::Longer,
        Stored::Other,
        Stored::Forged,
        Stored::Plain,
        Stored::Empty,
        Stored::Missing,
        Stored::Delta,
        Stored::DeltaAlone,
        Stored::DeltaOfOther,
    ])
}

fn listed() -> impl Strategy<Value = Listed> {
    prop::sample::select(vec![
        Listed::Equal,
        Listed::Equal,
        Listed::Equal,
        Listed::Other,
        Listed::Missing,
    ])
}

fn weights(seed: u64) -> Vec<u8> {
    let mut random = Rng(seed);
    let (one, two) = (random.bf16_weights(600), random.bytes(50));
    checkpoint(&[("a", "BF16", &one), ("b", "U8", &two)])
}

fn packed(input: &[u8], options: &PackOptions) -> Vec<u8> {
    let mut packed = Vec::new();
    let sink = Sink::writer(&mut packed);
    zstn::pack(&Job::new(), input.to_vec(), sink, options).unwrap();
    packed
}

fn digest(hex: &str) -> [u8; 32] {
    zstn_core::container::zstn::parse_sha256(hex).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    /// An original may be removed if and only if the stored bytes restore it and the
    /// store does not list other packed bytes.
    #[test]
    fn an_original_may_be_removed_if_the_stored_bytes_restore_it(
        stored in stored(), original_listed in listed(), packed_listed in listed(),
        seed in 0_u64..4, at in any::<prop::sample::Index>(), bit in 0..8_u32,
    ) {
        let (ours, theirs) = (weights(seed), weights(seed + 100));
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().join("base.zstn");
        let other_base = folder.path().join("other.zstn");
        std::fs::write(&base, packed(&theirs, &PackOptions::default())).unwrap();
        std::fs::write(&other_base, packed(&weights(seed + 200), &PackOptions::default())).unwrap();
        let mut bytes = match stored {
            Stored::Plain => ours.clone(),
            Stored::Empty | Stored::Missing => Vec::new(),
            Stored::Other => packed(&theirs, &PackOptions::default()),
            Stored::Forged => {
                let claim = digest(&sha256(&ours));
                packed(&theirs, &PackOptions::default().sha256(claim))
            }
            Stored::Delta | Stored::DeltaAlone | Stored::DeltaOfOther => {
                packed(&ours, &PackOptions::default().base(&*base))
            }
            _ => packed(&ours, &PackOptions::default()),
        };
        match stored {
            Stored::Flipped => {
                let place = at.index(bytes.len());
                bytes[place] ^= 1 << bit;
            }
            Stored::Cut => bytes.truncate(at.index(bytes.len())),
            Stored::Longer => bytes.push(u8::try_from(bit).unwrap()),
            _ => {}
        }
        let path = folder.path().join("model.zstn");
        if !matches!(stored, Stored::Missing) {
            std::fs::write(&path, &bytes).unwrap();
        }
        let mut file = StoredFile::new(&*path);
        match packed_listed {
            Listed::Equal => file = file.sha256(sha256(&bytes)),
            Listed::Other => file = file.sha256(sha256(b"other bytes")),
            Listed::Missing => {}
        }
        match stored {
            Stored::Delta => file = file.base(&*base),
            Stored::DeltaOfOther => file = file.base(&*other_base),
            _ => {}
        }
        let original_sha256 = match original_listed {
            Listed::Equal => sha256(&ours),
            Listed::Other => sha256(&theirs[1..]),
            Listed::Missing => String::new(),
        };
        let decided = check_restores(&Engine::default(), &file, &original_sha256, &());
        // The SHA-256 of the restored bytes, computed without the function under test.
        let bases = match stored {
            Stored::Delta => Some(&*base),
            Stored::DeltaOfOther => Some(&*other_base),
            _ => None,
        };
        let restored = restored(&path, bases);
        let is_restored = restored.is_some_and(|bytes| sha256(&bytes) == original_sha256);
        let is_listed = !matches!(packed_listed, Listed::Other);
        prop_assert_eq!(decided.is_ok(), is_restored && is_listed, "{:?}", decided);
        // Valid combinations must be accepted.
        if matches!(stored, Stored::Good | Stored::Delta)
            && matches!((original_listed, packed_listed), (Listed::Equal, Listed::Equal | Listed::Missing))
        {
            prop_assert!(decided.is_ok());
        }
        if !matches!(stored, Stored::Good | Stored::Delta | Stored::Flipped) {
            prop_assert!(decided.is_err());
        }
    }
}

fn restored(path: &Path, base: Option<&Path>) -> Option<Vec<u8>> {
    let mut restored = Vec::new();
    let mut options = zstn::UnpackOptions::default();
    if let Some(base) = base {
        options = options.base(base);
    }
    let sink = Sink::writer(&mut restored);
    zstn::unpack(&Job::new(), path, sink, &options).ok()?;
    Some(restored)
}
