//! Plans for accelerators: a decoder that knows only the lists of a plan restores the
//! same bytes as the decoder of the core, and refuses the same damage.

use std::collections::BTreeMap;

use zstn_core::bytes::part;
use zstn_core::dtype::Dtype;
use zstn_core::frame::plan::{Coding, DevicePlan, PlacedFrame, Placement, Reason};
use zstn_core::frame::select::{Effort, encode};
use zstn_core::frame::{ContainedFrame, Edition, Families, Family, decompress};
use zstn_core::pure::Pure;
use zstn_core::{ErrorKind, TensorRef};
use zstn_tests::rng::Rng;
use zstn_tests::{cases, checkpoints, native, tier};

mod executor;
#[cfg(unix)]
mod kernels;

use executor::{coding, execute};

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
    let family = format!("{:?}", Placement::Cpu(Reason::Family));
    let others = placements.remove(&family).unwrap_or(0);
    println!("{on_device} on the device, {others} of other families, {placements:?}");
    assert!(on_device >= 190, "{on_device} {placements:?}");
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

/// Returns normally distributed weights of a dtype.
fn weights(rng: &mut Rng, dtype: Dtype, count: usize) -> Vec<u8> {
    #[allow(clippy::cast_possible_truncation)]
    let mut value = || rng.normal(0.02) as f32;
    match dtype {
        Dtype::Bf16 => rng.bf16_weights(count),
        Dtype::F16 => (0..count)
            .flat_map(|_| half::f16::from_f32(value()).to_le_bytes())
            .collect(),
        Dtype::F32 => (0..count).flat_map(|_| value().to_le_bytes()).collect(),
        _ => (0..count).map(|_| e4m3(value() * 500.0)).collect(),
    }
}

/// Rounds a number towards zero to a float of 4 exponent and 3 mantissa bits.
fn e4m3(value: f32) -> u8 {
    let bits = value.to_bits();
    let sign = (bits >> 24 & 0x80).to_le_bytes()[0];
    let scaled = (bits & 0x7FFF_FFFF).saturating_sub(120 << 23) >> 20;
    sign | scaled.min(0x7E).to_le_bytes()[0]
}

const EFFORTS: [Effort; 3] = [Effort::Fast, Effort::Balanced, Effort::Max];
const DTYPES: [Dtype; 4] = [Dtype::Bf16, Dtype::F16, Dtype::F32, Dtype::F8E4M3];

#[test]
fn weights_of_every_dtype_and_effort_are_decoded_by_the_device() {
    let engine = native();
    for dtype in DTYPES {
        let bytes = weights(&mut Rng(7), dtype, 300_003);
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
fn damage_is_refused_as_the_decoder_refuses_it() {
    let mut rng = Rng(11);
    let (mut refused_by_plan, mut refused_later, mut accepted) = (0, 0, 0);
    for (dtype, effort) in [
        (Dtype::Bf16, Effort::Balanced),
        (Dtype::Bf16, Effort::Max),
        (Dtype::F32, Effort::Max),
        (Dtype::F8E4M3, Effort::Fast),
    ] {
        let bytes = weights(&mut rng, dtype, 5_001);
        let frame = encode(&native(), TensorRef::flat(&bytes, Some(dtype)), effort);
        let (_, placement) = planned(&frame, bytes.len()).expect("a plan");
        assert_eq!(placement, Placement::Device);
        for at in tier::stepped(0..frame.len(), 61) {
            assert!(planned(&frame[..at], bytes.len()).is_err(), "cut at {at}");
        }
        for bit in tier::stepped(0..8 * frame.len(), 199) {
            let mut damaged = frame.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let len = bytes.len() as u64;
            let by_core =
                ContainedFrame::parse(&damaged, len, Edition::Extended).and_then(|frame| {
                    let mut out = vec![0; bytes.len()];
                    frame.decode(&Pure, &mut out).map(|()| out)
                });
            let mut output = vec![0; bytes.len()];
            match planned(&damaged, bytes.len()) {
                Ok((plan, Placement::Device)) => {
                    let result = execute(&Pure, &plan, &damaged, &mut output);
                    assert_eq!(result.is_ok(), by_core.is_ok(), "bit {bit}: {result:?}");
                    match by_core {
                        Ok(expected) => {
                            assert!(output == expected, "bit {bit}");
                            accepted += 1;
                        }
                        Err(_) => refused_later += 1,
                    }
                }
                Ok(_) => {}
                Err(_) => {
                    assert!(by_core.is_err(), "bit {bit}: only the plan is refused");
                    refused_by_plan += 1;
                }
            }
        }
    }
    assert!(refused_by_plan > 0 && refused_later > 0 && accepted > 0);
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
