//! Sketches: written sketches are read back, and malformed ones are refused.

use proptest::prelude::*;
use zstn::{Engine, Job};
use zstn_core::dtype::Dtype;
use zstn_core::engine::Engine as _;
use zstn_core::pure::Pure;
use zstn_core::sketch::{Sketch, SketchedTensor, runs};
use zstn_core::{Error, ErrorKind, Rule};
use zstn_tests::rng::Rng;
use zstn_tests::with_header;

/// Returns a sketch entry for a tensor of random bytes.
fn tensor(rng: &mut Rng, name: &str, dtype: Dtype, shape: &[u64], digest: bool) -> SketchedTensor {
    let len = shape.iter().product::<u64>() * dtype.bits() / 8;
    let len: u64 = runs(dtype, len).iter().map(|run| run.end - run.start).sum();
    let bytes = rng.bytes(usize::try_from(len).unwrap());
    let digest = digest.then(|| rng.bytes(16).try_into().unwrap());
    SketchedTensor::new(name.into(), dtype, shape.to_vec(), digest, bytes).unwrap()
}

fn sample() -> Sketch {
    let mut rng = Rng(1);
    let tensors = vec![
        tensor(&mut rng, "z", Dtype::Bf16, &[300, 7], true),
        tensor(&mut rng, "", Dtype::F32, &[], false),
        tensor(&mut rng, "π", Dtype::F4, &[2, 8], true),
        tensor(&mut rng, "none", Dtype::I64, &[0, 1 << 40], true),
        tensor(&mut rng, "a", Dtype::Bf16, &[5], true),
    ];
    Sketch::new(1 << 40, Some([9; 16]), tensors).unwrap()
}

#[test]
fn every_cut_and_every_flip_is_refused() {
    let bytes = sample().to_bytes(&Pure);
    assert_eq!(Sketch::parse(&Pure, &bytes), Ok(sample()));
    for len in 0..bytes.len() {
        assert!(Sketch::parse(&Pure, &bytes[..len]).is_err(), "{len}");
    }
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(Sketch::parse(&Pure, &flipped).is_err(), "{bit}");
    }
    assert!(Sketch::parse(&Pure, &[&bytes[..], b"x"].concat()).is_err());
}

/// Recomputes the digest of a sketch after a change.
pub(crate) fn sealed(mut file: Vec<u8>) -> Vec<u8> {
    let digest = zstn_core::digest::of(&Pure, &file[25..]);
    file[9..25].copy_from_slice(&digest[..16]);
    file
}

#[test]
fn changes_under_a_right_digest_are_refused_or_mean_something() {
    let bytes = sample().to_bytes(&Pure);
    let engine = Engine::new(2).unwrap();
    let flips: Vec<usize> = (25 * 8..bytes.len() * 8).collect();
    let legal = engine.map(flips, |bit| {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let flipped = sealed(flipped);
        let parsed = Sketch::parse(&Pure, &flipped);
        // Both engines read the same sketch, but word zstd errors differently.
        if let (Ok(one), Ok(other)) = (&parsed, Sketch::parse(&engine, &flipped)) {
            assert_eq!(*one, other, "{bit}");
        }
        // An accepted sketch can be written and read again.
        parsed.is_ok_and(|sketch| Sketch::parse(&Pure, &sketch.to_bytes(&Pure)) == Ok(sketch))
    });
    assert!(legal.contains(&false) && legal.contains(&true));
    for len in 25..bytes.len() {
        let cut = sealed(bytes[..len].to_vec());
        assert!(Sketch::parse(&Pure, &cut).is_err(), "{len}");
    }
}

/// The sketch of [`golden_checkpoint`], whose encoding must not change.
const GOLDEN: &str = "\
    5a53544e534b434801a4efd953f6b012a752ef0907dfa24afbad000000000000008d000000000000\
    005a34414901000001010000000000000001ad000000000000006c0000000000000028b52ffd20ad\
    1d03005404a001000300610e01020a8414595f569ed468a44b7bd7ed23a3fb621100292e960b4456\
    e16092d5aed318ea5227046e6f6e65140003af1349b9f5f9a1a6a0404dea36dcc9490c00200be4cb\
    85a2edcca18534561158310381819c43910006ac80219e000000000000005a344149010001020200\
    0000000000000040000000000000004000000000000000de03284d7297bce1062b50759abfe409e7\
    0c31567ba0c5ea0f34597ea3c8ed126287acd1f61b40658aafd4f91e43688d6b90b5daff24496e93\
    b8dd02274c71960140000000000000002c0000000000000028b52ffd20401d0100a83c3d3e3f3f40\
    41424445464646464748494949494908100022820e0b6d8831e30e5825000000000000005a344149\
    01000001010000000000000000040000000000000004000000000000000000c03f";

/// Returns a checkpoint with 100 increasing bfloat16 values, a float, and an empty
/// tensor.
fn golden_checkpoint() -> Vec<u8> {
    let header = concat!(
        r#"{"a": {"dtype": "BF16", "shape": [10, 10], "data_offsets": [0, 200]}, "#,
        r#""b": {"dtype": "F32", "shape": [], "data_offsets": [200, 204]}, "#,
        r#""none": {"dtype": "I64", "shape": [0, 3], "data_offsets": [204, 204]}}"#
    );
    let steps = (0..100_u16).flat_map(|step| (0x3c00 + step * 37).to_le_bytes());
    let data: Vec<u8> = steps.chain(1.5_f32.to_le_bytes()).collect();
    with_header(header, data)
}

#[test]
fn sketches_that_were_written_are_read() {
    let digits = GOLDEN.as_bytes().chunks(2);
    let digits = digits.map(|pair| str::from_utf8(pair).unwrap());
    let file: Vec<u8> = digits
        .map(|pair| u8::from_str_radix(pair, 16).unwrap())
        .collect();
    let read = Sketch::parse(&Pure, &file).unwrap();
    let job = Job::new().engine(&Engine::new(1).unwrap());
    let input = zstn::Input::bytes("golden", golden_checkpoint());
    let made = zstn::family::sketch(&job, input, &Default::default()).unwrap();
    assert_eq!(read, made);
    let [a, b, none] = read.tensors() else {
        panic!("three tensors")
    };
    assert_eq!(
        (a.samples().len(), b.samples(), none.samples().len()),
        (128, &[0, 0, 0xc0, 0x3f][..], 0)
    );
    // Four runs of 16 elements start at elements 6, 27, 58 and 79.
    let first: Vec<u16> = a
        .samples()
        .chunks(32)
        .map(|run| u16::from_le_bytes([run[0], run[1]]))
        .collect();
    assert_eq!(first, [6, 27, 58, 79].map(|element| 0x3c00 + element * 37));
}

#[test]
fn engines_write_the_same_bytes() {
    let [one, two] = [1, 3].map(|threads| Engine::new(threads).unwrap());
    assert_eq!(sample().to_bytes(&one), sample().to_bytes(&two));
}

#[test]
fn wrong_tensors_are_refused() {
    let shape = vec![u64::MAX, 2];
    let error = SketchedTensor::new("x".into(), Dtype::U8, shape, None, Vec::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let error = SketchedTensor::new("x".into(), Dtype::U8, vec![3], None, vec![1]).unwrap_err();
    assert!(error.to_string().contains("sampled bytes"), "{error}");
    let twice = ["x", "x"].map(|name| tensor(&mut Rng(3), name, Dtype::U8, &[3], false));
    let error = Sketch::new(0, None, twice.into()).unwrap_err();
    assert_eq!(error.rule(), Some(Rule::SketchLayout));
}

/// A few bytes must not make a reader allocate disproportionate memory.
#[test]
fn lengths_have_to_be_earned() {
    let entry = |name: &str| {
        let shape = [1 << 20, 1 << 20];
        let len: u64 = runs(Dtype::F64, 8 << 40)
            .iter()
            .map(|r| r.end - r.start)
            .sum();
        let zeros = vec![0; usize::try_from(len).unwrap()];
        SketchedTensor::new(name.into(), Dtype::F64, shape.to_vec(), None, zeros).unwrap()
    };
    let many = (0..4000).map(|number| entry(&format!("{number:04}")));
    let sketch = Sketch::new(0, None, many.collect()).unwrap();
    let file = sketch.to_bytes(&Engine::new(1).unwrap());
    let parsed: Result<Sketch, Error> = Sketch::parse(&Pure, &file);
    match parsed {
        Ok(parsed) => assert_eq!(parsed, sketch),
        Err(error) => assert_eq!(error.rule(), Some(Rule::SketchLayout)),
    }
    // 32 MB of zeros in a short file.
    assert!(file.len() < 60_000, "{}", file.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn sketches_round_trip(seed: u64, count in 0..12_u64, len in 0..200_000_u64, base: bool) {
        let mut rng = Rng(seed);
        let tensors = (0..count).map(|number| {
            let dtype = Dtype::ALL[usize::try_from(rng.next_u64() % 22).unwrap()];
            let shape = [8 * (rng.next_u64() % (len + 1)), number % 3 + 1];
            let digest = rng.next_u64().is_multiple_of(2);
            tensor(&mut rng, &format!("t{number}"), dtype, &shape, digest)
        });
        let sketch = Sketch::new(seed, base.then_some([3; 16]), tensors.collect()).unwrap();
        let file = sketch.to_bytes(&Pure);
        prop_assert_eq!(Sketch::parse(&Pure, &file).unwrap(), sketch);
    }
}
