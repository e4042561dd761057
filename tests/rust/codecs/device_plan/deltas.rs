//! Plans of the records of deltas: tensors that are restored from tensors of the base.

use zstn_core::digest;
use zstn_core::dtype::Dtype;
use zstn_core::frame::difference::Difference;
use zstn_core::frame::plan::{DevicePlan, PlacedFrame, Placement, Reason};
use zstn_core::frame::{ContainedFrame, Edition};
use zstn_core::pure::Pure;
use zstn_core::{ErrorKind, Result, Rule};
use zstn_tests::frames::{DifferenceFrame, seal_block};
use zstn_tests::native;
use zstn_tests::rng::Rng;
use zstn_tests::tier;

use super::executor::{Damage, execute};
use super::frames::{frames_of_all_codecs, other_frames};
use crate::difference::{frame, trained, vectors};

/// A frame, its base, and the tensor that it restores.
pub struct Delta {
    pub name: String,
    pub frame: Vec<u8>,
    pub base: Vec<u8>,
    pub tensor: Vec<u8>,
    pub is_xor: bool,
}

impl Delta {
    /// Returns a plan of the frame, with the digest of the restored tensor.
    pub fn planned(&self, frame: &[u8]) -> Result<(DevicePlan, Placement)> {
        let output = 0..self.tensor.len() as u64;
        let placed = PlacedFrame {
            bytes: frame,
            source: 0,
            output: output.clone(),
            edition: Edition::Extended,
        };
        let mut plan = DevicePlan::new();
        let placement = match self.is_xor {
            true => plan.add_xor(&Pure, &placed)?,
            false => plan.add_difference(&placed)?,
        };
        if placement == Placement::Device {
            plan.add_digest(output, short_digest(&self.tensor))?;
        }
        Ok((plan, placement))
    }
}

/// Decodes a difference with the decoder of the core.
fn decoded(frame: &[u8], base: &[u8]) -> Result<Vec<u8>> {
    Difference::parse(frame)?.decode(&Pure, base)
}

pub fn short_digest(bytes: &[u8]) -> [u8; 16] {
    let digest = digest::of_pieces([bytes]);
    std::array::from_fn(|number| digest[number])
}

/// Returns all vectors of differences, and generated frames of every dtype and number of
/// states, with groups of several sizes, and with more blocks than a block of threads
/// decodes.
pub fn differences() -> Vec<Delta> {
    let vectors = vectors::made().into_iter().map(|vector| Delta {
        name: vector.name.to_owned(),
        frame: vector.frame,
        base: vector.base,
        tensor: vector.tensor,
        is_xor: false,
    });
    let mut deltas: Vec<_> = vectors.collect();
    let dtypes = [Dtype::Bf16, Dtype::F16, Dtype::F32];
    for (number, dtype) in (0..).zip(dtypes) {
        for (states, group, count) in [(8, 13, 9_001), (16, 100, 37_000), (32, 40_000, 40_000)] {
            let (base, tensor) = trained(&mut Rng(states), dtype, count, 1e-2);
            let fields = DifferenceFrame {
                dtype: number,
                states: usize::try_from(states).expect("small"),
                group,
                block: 4096,
                contexts: [0, 160],
                codes: (0..count.div_ceil(group))
                    .map(|group| [90, 91, 80, 254, 255][group % 5])
                    .collect(),
                means: None,
                codings: (0..161)
                    .map(|context| (context / 64, context % 5))
                    .collect(),
                low_rank: None,
            };
            deltas.push(Delta {
                name: format!("{dtype} {states} states, groups of {group}"),
                frame: fields.encode(&base, &tensor),
                base,
                tensor,
                is_xor: false,
            });
        }
        let (base, tensor) = trained(&mut Rng(77), dtype, 150_000, 1e-3);
        deltas.push(Delta {
            name: format!("{dtype} of the encoder"),
            frame: frame(&native(), dtype, &[1_500, 100], &base, &tensor),
            base,
            tensor,
            is_xor: false,
        });
    }
    deltas
}

/// Returns frames that decode to an exclusive or.
pub fn xors() -> Vec<Delta> {
    let frames = frames_of_all_codecs(3_001).into_iter();
    let deltas = frames.chain(other_frames(3_001)).map(|(name, frame, xor)| {
        let base = Rng(41).bytes(xor.len());
        let tensor = xor
            .iter()
            .zip(&base)
            .map(|(xor, base)| xor ^ base)
            .collect();
        Delta {
            name: format!("xor of {name}"),
            frame,
            base,
            tensor,
            is_xor: true,
        }
    });
    deltas.collect()
}

#[test]
fn plans_restore_tensors_from_their_bases() {
    let mut placements = [0; 2];
    for delta in differences().into_iter().chain(xors()) {
        let name = &delta.name;
        let (plan, placement) = delta.planned(&delta.frame).expect(name);
        if placement != Placement::Device {
            let expected = match delta.is_xor {
                true => Reason::Matches,
                false => Reason::LowRank,
            };
            assert_eq!(placement, Placement::Cpu(expected), "{name}");
            assert!(plan.digests().is_empty() && plan.difference_blocks().is_empty());
            continue;
        }
        placements[usize::from(delta.is_xor)] += 1;
        let mut output = delta.base.clone();
        execute(&Pure, &plan, &delta.frame, &mut output)
            .unwrap_or_else(|damage| panic!("{name}: {damage:?}"));
        assert!(output == delta.tensor, "{name}: other bytes");
        let mut other = delta.base.clone();
        other[0] ^= 1;
        let damage = execute(&Pure, &plan, &delta.frame, &mut other).expect_err("another base");
        assert!(
            matches!(damage.0, Damage::Block(_) | Damage::Digest(0)),
            "{name}: {damage:?}"
        );
    }
    assert!(placements[0] >= 28 && placements[1] >= 60, "{placements:?}");
}

#[test]
fn damaged_differences_are_refused_as_the_decoder_refuses_them() {
    let (mut refused, mut refused_later, mut accepted) = (0, 0, 0);
    let mut other_digests = 0;
    for delta in differences()
        .into_iter()
        .filter(|delta| delta.frame.len() < 1500)
    {
        let name = &delta.name;
        for len in 0..delta.frame.len() {
            let cut = &delta.frame[..len];
            let error = delta.planned(cut).expect_err("is cut");
            assert_eq!(
                Some(error),
                decoded(cut, &delta.base).err(),
                "{name}: {len}"
            );
        }
        for (bit, damaged) in damaged_copies(&delta.frame, tier::count(5, 1)) {
            let expected = decoded(&damaged, &delta.base);
            match delta.planned(&damaged) {
                Ok((_, Placement::Cpu(reason))) => assert_eq!(reason, Reason::LowRank),
                Ok((plan, Placement::Device)) => {
                    let mut output = delta.base.clone();
                    let result = execute(&Pure, &plan, &damaged, &mut output);
                    match (result, expected) {
                        (Ok(()) | Err((Damage::Digest(0), _)), Ok(expected)) => {
                            assert!(output == expected, "{name}: bit {bit}");
                            accepted += 1;
                        }
                        // A device does not compare the digest of the base in a frame.
                        (Ok(()), Err(error)) if error.rule() == Some(Rule::DeltaReference) => {
                            assert!(output == delta.tensor, "{name}: bit {bit}");
                            other_digests += 1;
                        }
                        (Err((Damage::Block(_), _)), Err(_)) => refused_later += 1,
                        (result, expected) => {
                            panic!("{name}: bit {bit}: {result:?}, {:?}", expected.err())
                        }
                    }
                }
                Err(error) => {
                    refused += 1;
                    let is_same = expected.as_ref().err() == Some(&error);
                    // The plan reads the fields in the decoder's order, except that the
                    // decoder looks at the length of the base first.
                    let rules = [Rule::ZstnDecodedLength, Rule::DifferenceBlockChecksum];
                    let is_later = error.rule().is_some_and(|rule| rules.contains(&rule));
                    assert!(
                        is_same || (is_later && expected.is_err()),
                        "{name}: bit {bit}: {error}"
                    );
                }
            }
        }
    }
    let counts = [refused, refused_later, accepted, other_digests];
    assert!(counts.iter().all(|&count| count > 100), "{counts:?}");
}

/// Returns copies of a frame of one block in which one bit is flipped, some with checksums
/// that have been computed again.
pub fn damaged_copies(
    frame: &[u8],
    step: usize,
) -> impl Iterator<Item = (usize, Vec<u8>)> + use<'_> {
    (0..16 * frame.len()).step_by(step).map(|number| {
        let (bit, is_sealed) = (number / 2, number % 2 == 0);
        let mut damaged = frame.to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        // Other lengths of the head leave no place for checksums.
        if is_sealed && !(44..48).contains(&(bit / 8)) {
            seal_block(&mut damaged);
        }
        (bit, damaged)
    })
}

#[test]
fn records_outside_of_their_places_are_refused() {
    let delta = &differences()[1];
    let place = |output| PlacedFrame {
        bytes: &delta.frame,
        source: 0,
        output,
        edition: Edition::Extended,
    };
    let len = delta.tensor.len() as u64;
    let mut plan = DevicePlan::new();
    let error = plan
        .add_difference(&place(0..len + 2))
        .expect_err("another length");
    assert_eq!(error.rule(), Some(Rule::ZstnDecodedLength));
    assert!(plan.digests().is_empty());
    assert_eq!(plan.add_difference(&place(0..len)), Ok(Placement::Device));
    let error = plan
        .add_difference(&place(1..len + 1))
        .expect_err("overlaps");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    #[allow(clippy::reversed_empty_ranges)] // is refused
    let error = plan.add_digest(9..8, [0; 16]).expect_err("no range");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let error = plan.add_digest(0..len - 2, [0; 16]);
    let error = error.expect_err("ends before the tensor");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!((plan.differences().len(), plan.digests().len()), (1, 0));
    assert!(ContainedFrame::parse(&delta.frame, len, Edition::Extended).is_err());
}
