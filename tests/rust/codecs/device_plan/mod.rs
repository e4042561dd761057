//! Plans for accelerators: a decoder that knows only the lists of a plan restores the
//! same bytes as the decoder of the core, and refuses the same damage.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};
use zstn_core::bytes::part;
use zstn_core::dtype::Dtype;
use zstn_core::frame::FrameFamily as _;
use zstn_core::frame::plan::{Coding, DevicePlan, PlacedFrame, Placement, Reason};
use zstn_core::frame::plane::Method;
use zstn_core::frame::select::{Effort, encode};
use zstn_core::frame::z4ai;
use zstn_core::frame::{ContainedFrame, Edition, Families, Family, decompress};
use zstn_core::pure::Pure;
use zstn_core::{ErrorKind, TensorRef};
use zstn_tests::rng::Rng;
use zstn_tests::{cases, checkpoints, native, repository, tier};

mod deltas;
// Other systems name the driver's library differently, or find it elsewhere.
#[cfg(all(
    target_os = "linux",
    target_endian = "little",
    target_pointer_width = "64"
))]
mod driver;
mod executor;
mod executor_differences;
mod frames;
mod host_device;
// The lists are in the byte order of the host, and GPUs are little-endian.
#[cfg(all(unix, target_endian = "little", target_pointer_width = "64"))]
mod kernels;
mod loading;
mod loading_deltas;

use crate::rans;
use executor::{coding, execute};
use frames::{LARGE_LATTICE, frames_of_all_codecs, lattice_frames, other_frames, weights};

#[test]
fn compiled_kernels_are_of_these_sources() {
    let mut files: Vec<_> = std::fs::read_dir(repository().join("native/gpu/kernels"))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    let mut sha256 = Sha256::new();
    for file in files {
        sha256.update(std::fs::read(file).expect("a file"));
    }
    let expected = sha256
        .finalize()
        .iter()
        .fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    let first = zstn_gpu::KERNELS.lines().next().expect("a line");
    assert_eq!(
        first,
        format!("// SHA-256 of the sources: {expected}"),
        "the kernels have changed: `cargo xtask gpu --write` compiles them"
    );
}

/// Returns a plan of one frame that decodes to `len` bytes, and where to decode it.
fn planned(frame: &[u8], len: usize) -> zstn_core::Result<(DevicePlan, Placement)> {
    let mut plan = DevicePlan::new();
    let placed = PlacedFrame {
        bytes: frame,
        source: 0,
        output: 0..len as u64,
        edition: Edition::Extended,
    };
    plan.add(&Pure, &placed).map(|placement| (plan, placement))
}

/// Asserts that the plan of `frame` restores `expected`. Returns the placement, and the
/// number of bytes of planes that the device and the host decode.
fn check(name: &str, frame: &[u8], expected: &[u8]) -> (Placement, [u64; 2]) {
    let (plan, placement) =
        planned(frame, expected.len()).unwrap_or_else(|error| panic!("{name}: {error}"));
    if placement != Placement::Device {
        assert!(plan.segments().is_empty() && plan.planes().is_empty());
        return (placement, [0; 2]);
    }
    let mut output = vec![0xAA; expected.len()];
    execute(&Pure, &plan, frame, &mut output).unwrap_or_else(|damage| panic!("{name}: {damage:?}"));
    assert!(
        output == expected,
        "{name}: the plan decodes to other bytes"
    );
    let mut decoded = [0; 2];
    for segment in plan.segments() {
        let by_host = coding(segment) == Coding::Host;
        decoded[usize::from(by_host)] += u64::from(segment.len);
    }
    (placement, decoded)
}

#[test]
fn plans_of_all_vectors_restore_them() {
    let mut placements = BTreeMap::new();
    for name in cases::frames().into_keys() {
        let frame = cases::read("z4ai", &format!("{name}.z4ai"));
        let family = Family::recognise(&frame).expect("a frame");
        if !Families::CONTAINER.contains(family) {
            continue;
        }
        let expected = decompress(&Pure, &frame, 1 << 30).expect("decodes");
        let (placement, _) = check(&name, &frame, &expected);
        *placements.entry(format!("{placement:?}")).or_insert(0) += 1;
    }
    let on_device = placements.remove("Device").unwrap_or(0);
    assert!(on_device >= 170, "{on_device} {placements:?}");
    assert_eq!(placements.get("Cpu(Family)"), None);
}

#[test]
fn tensors_of_containers_share_a_plan() {
    let engine = native();
    let mut tensors = 0;
    for case in cases::containers() {
        let packed = case.packed();
        let Ok(catalog) = checkpoints::open(packed.clone()) else {
            continue;
        };
        let mut plan = DevicePlan::new();
        let mut expected = Vec::new();
        for (number, tensor) in catalog.tensors().iter().enumerate() {
            let stored = part(&packed, tensor.stored.clone());
            if Family::recognise(stored).is_none() {
                continue;
            }
            let bytes = catalog.decode(&engine, number, stored).expect("decodes");
            let start = expected.len() as u64;
            let placed = PlacedFrame {
                bytes: stored,
                source: tensor.stored.start,
                output: start..start + bytes.len() as u64,
                edition: Edition::Extended,
            };
            if plan.add(&engine, &placed).expect("a plan") == Placement::Device {
                expected.extend_from_slice(&bytes);
                tensors += 1;
            }
        }
        let mut output = vec![0; expected.len()];
        let name = &case.name;
        execute(&engine, &plan, &packed, &mut output)
            .unwrap_or_else(|damage| panic!("{name}: {damage:?}"));
        assert!(
            output == expected,
            "{name}: the plan decodes to other bytes"
        );
    }
    assert!(tensors >= 100, "{tensors}");
}

#[test]
fn lattices_of_bytes_without_exceptions_have_a_plan() {
    let without_plan = ["exceptions", "f16-f32", "bf16-f32"];
    for (name, frame) in lattice_frames() {
        let expected = decompress(&Pure, &frame, 1 << 30).expect("decodes");
        let (placement, _) = check(&name, &frame, &expected);
        let expected = match without_plan.iter().any(|start| name.starts_with(start)) {
            true => Placement::Cpu(Reason::Family),
            false => Placement::Device,
        };
        assert_eq!(placement, expected, "{name}");
    }
}

/// Returns short frames of all kinds that may have a plan, with a name.
fn short_frames() -> Vec<(String, Vec<u8>)> {
    let frames = frames_of_all_codecs(1_501).into_iter();
    let frames = frames.chain(other_frames(1_501));
    let frames = frames.map(|(name, frame, _)| (name, frame));
    let lattices = lattice_frames().into_iter();
    let lattices = lattices.filter(|(name, _)| name != LARGE_LATTICE);
    frames.chain(lattices).collect()
}

#[test]
fn every_codec_of_every_transform_has_a_plan() {
    let mut by_host = 0;
    let frames = frames_of_all_codecs(20_003).into_iter();
    for (name, frame, bytes) in frames.chain(other_frames(20_003)) {
        let (placement, decoded) = check(&name, &frame, &bytes);
        by_host += decoded[1];
        let has_matches = name.contains("Search");
        assert!(
            placement == Placement::Device || has_matches,
            "{name}: {placement:?}"
        );
    }
    assert!(by_host > 0);
}

/// Returns damaged copies of a frame: bits are flipped all over it and at both ends of
/// streams of every coding, and its last payload gets a byte more.
fn damaged_copies(frame: &[u8], plan: &DevicePlan, flips: usize) -> Vec<Vec<u8>> {
    let mut bits: Vec<usize> = (0..8 * frame.len())
        .step_by((8 * frame.len() / flips) | 1)
        .collect();
    let mut seen = [0; 6];
    for segment in plan.segments() {
        let seen = &mut seen[segment.coding as usize];
        *seen += 1;
        if *seen <= 2 && segment.source_len > 2 {
            let start = 8 * usize::try_from(segment.source).unwrap();
            let end = start + 8 * segment.source_len as usize;
            bits.extend((start..start + 16).chain(end - 9..end));
        }
    }
    let flipped = bits.into_iter().map(|bit| {
        let mut copy = frame.to_vec();
        copy[bit / 8] ^= 1 << (bit % 8);
        copy
    });
    let longer = z4ai::Frame::parse(frame).ok().map(|parsed| {
        let last_len = parsed.planes().last().expect("a plane").stored_len_bytes();
        let mut longer = frame.to_vec();
        longer.push(0);
        let len_at = frame.len() - usize::try_from(last_len).unwrap() - 8;
        longer[len_at..len_at + 8].copy_from_slice(&(last_len + 1).to_le_bytes());
        longer
    });
    flipped.chain(longer).collect()
}

const EFFORTS: [Effort; 3] = [Effort::Fast, Effort::Balanced, Effort::Max];
const DTYPES: [Dtype; 4] = [Dtype::Bf16, Dtype::F16, Dtype::F32, Dtype::F8E4M3];

#[test]
fn weights_of_every_dtype_and_effort_are_decoded_by_the_device() {
    let engine = native();
    for dtype in DTYPES {
        let bytes = weights(&mut Rng(7), dtype, 200_003);
        for effort in EFFORTS {
            let frame = encode(&engine, TensorRef::flat(&bytes, Some(dtype)), effort);
            let name = format!("{} {effort:?}", dtype.name());
            let (placement, [by_device, by_host]) = check(&name, &frame, &bytes);
            assert_eq!(placement, Placement::Device, "{name}");
            assert!(by_device >= bytes.len() as u64, "{name}: {by_device}");
            assert_eq!(by_host, 0, "{name}");
        }
    }
}

#[test]
fn very_long_rans_chunks_are_left_to_the_cpu() {
    // A symbol with all of the frequency takes no bytes.
    let stream = (1u32 << 23).to_le_bytes().repeat(4);
    for symbols in [1 << 22, (1 << 22) + 1] {
        let payload = rans::shared(symbols, &[(7, 1 << 14)], &stream);
        let frame = rans::frame(Method::Rans, symbols, &payload);
        let bytes = vec![7; usize::try_from(symbols).expect("fits the memory")];
        let (placement, _) = check("one symbol", &frame, &bytes);
        let expected = match symbols > 1 << 22 {
            true => Placement::Cpu(Reason::LongChunk),
            false => Placement::Device,
        };
        assert_eq!(placement, expected, "{symbols}");
    }
}

#[test]
fn damage_is_refused_as_the_decoder_refuses_it() {
    let (mut refused_by_plan, mut refused_later, mut accepted) = (0, 0, 0);
    for (name, frame) in short_frames() {
        let bytes = decompress(&Pure, &frame, 1 << 30).expect("decodes");
        let (plan, placement) = planned(&frame, bytes.len()).expect("a plan");
        if placement != Placement::Device {
            continue;
        }
        for at in tier::stepped(0..frame.len(), 61) {
            assert!(
                planned(&frame[..at], bytes.len()).is_err(),
                "{name}: cut at {at}"
            );
        }
        for (number, damaged) in damaged_copies(&frame, &plan, tier::count(90, 900))
            .iter()
            .enumerate()
        {
            let len = bytes.len() as u64;
            let by_core =
                ContainedFrame::parse(damaged, len, Edition::Extended).and_then(|frame| {
                    let mut out = vec![0; bytes.len()];
                    frame.decode(&Pure, &mut out).map(|()| out)
                });
            let mut output = vec![0; bytes.len()];
            match planned(damaged, bytes.len()) {
                Ok((plan, Placement::Device)) => {
                    let result = execute(&Pure, &plan, damaged, &mut output);
                    match (result, by_core) {
                        (Ok(()), Ok(expected)) => {
                            assert!(output == expected, "{name}: copy {number}");
                            accepted += 1;
                        }
                        (Err(_), Err(_)) => refused_later += 1,
                        (result, by_core) => {
                            panic!("{name}: copy {number}: {result:?}, {:?}", by_core.err())
                        }
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    assert!(by_core.is_err(), "{name}: copy {number}: {error}");
                    refused_by_plan += 1;
                }
            }
        }
    }
    let counts = [refused_by_plan, refused_later, accepted];
    assert!(counts.iter().all(|&count| count > 100), "{counts:?}");
}

#[test]
fn a_refused_tensor_leaves_the_plan_as_it_was() {
    let bytes = weights(&mut Rng(3), Dtype::Bf16, 40_000);
    let frame = encode(
        &native(),
        TensorRef::flat(&bytes, Some(Dtype::Bf16)),
        Effort::Balanced,
    );
    let len = bytes.len() as u64;
    let place = |bytes, start| PlacedFrame {
        bytes,
        source: 64,
        output: start..start + len,
        edition: Edition::Plain,
    };
    let mut plan = DevicePlan::new();
    assert_eq!(plan.add(&Pure, &place(&frame, 100)), Ok(Placement::Device));
    let lists = |plan: &DevicePlan| plan.list_bytes().map(<[u8]>::to_vec);
    let before = (lists(&plan), plan.scratch_len_bytes());
    // The last stream loses its end mark; the number of sequences, 0, follows it.
    let mut damaged = frame.clone();
    let end_mark = damaged.len() - 2;
    damaged[end_mark] = 0;
    assert!(plan.add(&Pure, &place(&damaged, 100 + len)).is_err());
    let overlapping = plan
        .add(&Pure, &place(&frame, 99 + len))
        .expect_err("overlaps");
    assert_eq!(overlapping.kind(), ErrorKind::InvalidInput);
    assert_eq!(before, (lists(&plan), plan.scratch_len_bytes()));
    assert_eq!(
        plan.add(&Pure, &place(&frame, 100 + len)),
        Ok(Placement::Device)
    );
    let mut source = vec![0; 64];
    source.extend_from_slice(&frame);
    let mut output = vec![0; 100 + 2 * bytes.len()];
    execute(&Pure, &plan, &source, &mut output).expect("decodes");
    assert!(output[100..] == [&bytes[..], &bytes].concat());
}
