//! The kernels of `native/gpu`, compiled for the host with address checks, decode the
//! same bytes and report the same damage as the executor of this folder.

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};

use zerocopy::IntoBytes as _;
use zstn_core::frame::plan::{Coding, DevicePlan, HostSegment, NONE, Placement, Space};
use zstn_core::frame::plane::Method;
use zstn_core::frame::select::encode;
use zstn_core::frame::{Families, Family};
use zstn_core::pure::Pure;
use zstn_core::{Result, TensorRef};
use zstn_gpu::{Jobs, difference_shared_bytes, stream_shared_bytes};
use zstn_tests::rng::Rng;
use zstn_tests::{cases, native, repository, tier};

use super::deltas::{self, differences, short_digest, xors};
use super::executor::{Damage, coding, execute};
use super::frames::{frames_of_all_codecs, lattice_frames, other_frames, weights};
use super::{DTYPES, EFFORTS, damaged_copies, planned, short_frames};
use crate::rans;

/// The kernels as a program on the host. An access outside of a buffer ends it.
struct Emulator {
    program: Child,
    _folder: tempfile::TempDir,
}

/// The number of threads of a block, and whether they run in reverse order.
#[derive(Debug, Clone, Copy)]
struct Threads(u64, bool);

impl Emulator {
    /// Compiles and starts the program.
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("emulator");
        let gpu = repository().join("native/gpu");
        let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
        let status = Command::new(compiler)
            .args(["-std=c++17", "-O1", "-g"])
            .args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all"])
            .args(["-x", "c++", "-I"])
            .arg(gpu.join("kernels"))
            .arg(gpu.join("emulator/main.cpp"))
            .arg("-o")
            .arg(&program)
            .status();
        assert!(status.expect("a C++ compiler, set by $CXX").success());
        let program = Command::new(&program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        Self {
            program: program.expect("the emulator starts"),
            _folder: folder,
        }
    }

    /// Decodes `plan` into a buffer of `output_len` bytes. Returns the lowest indices of
    /// damaged segments, tensors and blocks, and of digests of other bytes, and the output.
    ///
    /// # Errors
    /// A segment that is left to the host is damaged.
    fn decode(
        &mut self,
        plan: &DevicePlan,
        source: &[u8],
        output_len: usize,
        threads: Threads,
    ) -> Result<([u32; 4], Vec<u8>)> {
        self.decode_onto(plan, source, vec![0xAA; output_len], threads)
    }

    /// Decodes `plan` into a buffer that contains the base.
    fn decode_onto(
        &mut self,
        plan: &DevicePlan,
        source: &[u8],
        mut output: Vec<u8>,
        Threads(threads, is_reversed): Threads,
    ) -> Result<([u32; 4], Vec<u8>)> {
        let jobs = Jobs::new(plan);
        let mut scratch = vec![0xAA; index(jobs.scratch_len_bytes)];
        for host in plan.host_segments() {
            let segment = plan.segments()[host.segment as usize];
            let plane = jobs.planes[segment.plane as usize];
            let buffer = match plane.space == Space::Output as u32 {
                true => &mut output,
                false => &mut scratch,
            };
            let out = &mut buffer[index(plane.at + segment.position)..][..index(host.len)];
            let coded = &source[index(host.source)..][..index(host.source_len)];
            host.decode(&Pure, coded, out)?;
        }
        let mut lists = plan.list_bytes();
        lists[1] = jobs.planes.as_bytes();
        let parts = lists.into_iter().chain([
            jobs.segments.as_bytes(),
            jobs.copies.as_bytes(),
            jobs.rans.as_bytes(),
            jobs.bfloat16.as_bytes(),
            jobs.joins.as_bytes(),
            jobs.lattices.as_bytes(),
            jobs.sparse.as_bytes(),
            jobs.sparse_sums.as_bytes(),
            jobs.differences.as_bytes(),
            jobs.xors.as_bytes(),
            jobs.digests.as_bytes(),
            jobs.digest_sums.as_bytes(),
            source,
            &scratch,
            &output,
        ]);
        let parts: Vec<&[u8]> = parts.collect();
        let mut request: Vec<u8> = Vec::new();
        let lens = parts.iter().map(|part| part.len() as u64);
        let head = [
            threads,
            is_reversed.into(),
            stream_shared_bytes(plan).into(),
            difference_shared_bytes(plan).into(),
        ];
        for number in head.into_iter().chain(lens) {
            request.extend_from_slice(&number.to_ne_bytes());
        }
        request.extend(parts.into_iter().flatten());
        let stdin = self.program.stdin.as_mut().expect("a pipe");
        stdin.write_all(&request).expect("the emulator runs");
        stdin.flush().expect("the emulator runs");
        let mut damage = [0u32; 4];
        let answers = self.program.stdout.as_mut().expect("a pipe");
        answers
            .read_exact(damage.as_mut_bytes())
            .expect("no invalid access");
        answers.read_exact(&mut output).expect("no invalid access");
        Ok((damage, output))
    }

    fn finish(mut self) {
        drop(self.program.stdin.take());
        assert!(self.program.wait().expect("the emulator ends").success());
    }
}

fn index(value: u64) -> usize {
    usize::try_from(value).expect("a position in memory")
}

const ALL_THREADS: [Threads; 4] = [
    Threads(512, false),
    Threads(512, true),
    Threads(32, true),
    Threads(1, false),
];

#[test]
fn kernels_restore_tensors_and_report_damage() {
    let mut emulator = Emulator::start();
    restores_vectors_and_weights(&mut emulator);
    reports_damage(&mut emulator);
    refuses_large_states(&mut emulator);
    restores_deltas(&mut emulator);
    reports_damaged_differences(&mut emulator);
    compares_digests(&mut emulator);
    emulator.finish();
}

fn restores_vectors_and_weights(emulator: &mut Emulator) {
    let mut frames = Vec::new();
    for name in cases::frames().into_keys() {
        let frame = cases::read("z4ai", &format!("{name}.z4ai"));
        let family = Family::recognise(&frame).expect("a frame");
        if Families::CONTAINER.contains(family) {
            frames.push((name, frame));
        }
    }
    frames.extend(lattice_frames());
    for dtype in DTYPES {
        let bytes = weights(&mut Rng(7), dtype, 300_003);
        for effort in EFFORTS {
            let frame = encode(&native(), TensorRef::flat(&bytes, Some(dtype)), effort);
            frames.push((format!("{} {effort:?}", dtype.name()), frame));
        }
    }
    let all = frames_of_all_codecs(70_001).into_iter();
    let all = all.chain(other_frames(40_001));
    frames.extend(all.map(|(name, frame, _)| (name, frame)));
    let mut codings = Vec::new();
    for (number, (name, frame)) in frames.iter().enumerate() {
        let expected = zstn_core::frame::decompress(&Pure, frame, 1 << 30).expect("decodes");
        let (plan, placement) = planned(frame, expected.len()).expect("a plan");
        if placement != Placement::Device {
            continue;
        }
        codings.extend(plan.segments().iter().map(coding));
        // Every frame runs with one number of threads, and the kernels with all of them.
        let threads = ALL_THREADS[number % ALL_THREADS.len()];
        let decoded = emulator.decode(&plan, frame, expected.len(), threads);
        let (damage, output) = decoded.expect("no damage");
        assert_eq!(damage, [NONE; 4], "{name} {threads:?}");
        assert!(output == expected, "{name} {threads:?}: other bytes");
    }
    for wanted in [Coding::Stored, Coding::Flat, Coding::Huffman, Coding::Rans] {
        assert!(codings.contains(&wanted), "{wanted:?}");
    }
}

fn reports_damage(emulator: &mut Emulator) {
    let mut kinds = [0; 3];
    for (name, frame) in short_frames() {
        let bytes = zstn_core::frame::decompress(&Pure, &frame, 1 << 30).expect("decodes");
        let (plan, placement) = planned(&frame, bytes.len()).expect("a plan");
        if placement != Placement::Device {
            continue;
        }
        let copies = damaged_copies(&frame, &plan, tier::count(60, 900));
        for (number, damaged) in copies.into_iter().enumerate() {
            let Ok((plan, Placement::Device)) = planned(&damaged, bytes.len()) else {
                continue;
            };
            let mut expected = vec![0xAA; bytes.len()];
            let result = execute(&Pure, &plan, &damaged, &mut expected);
            let threads = ALL_THREADS[number % 2];
            let decoded = emulator.decode(&plan, &damaged, bytes.len(), threads);
            let Ok((damage, output)) = decoded else {
                assert!(result.is_err(), "{name}: copy {number}");
                continue;
            };
            let to_number = |index| u32::try_from(index).expect("small");
            let found = match result {
                Ok(()) => {
                    assert!(output == expected, "{name}: copy {number}");
                    kinds[0] += 1;
                    [NONE; 4]
                }
                Err((Damage::Segment(index), _)) => {
                    kinds[1] += 1;
                    [to_number(index), damage[1], NONE, NONE]
                }
                Err((Damage::Tensor(index), _)) => {
                    kinds[2] += 1;
                    [NONE, to_number(index), NONE, NONE]
                }
                Err((damage, _)) => panic!("{name}: copy {number}: {damage:?}"),
            };
            assert_eq!(damage, found, "{name}: copy {number} {threads:?}");
        }
    }
    assert!(kinds.iter().all(|&kind| kind > 20), "{kinds:?}");
}

/// A stream whose states are too large, but decode to the right final states, is refused
/// (docs/formats/z4ai-frames.md 5.4).
fn refuses_large_states(emulator: &mut Emulator) {
    let table: Vec<_> = (0..256).map(|symbol| (symbol, 64)).collect();
    for (state, more, damage) in [
        (1u32 << 23, &[0; 4][..], NONE),
        // A symbol of this frequency takes eight bits from a state.
        (1 << 31, &[], 0),
    ] {
        let stream = [&state.to_le_bytes().repeat(4), more].concat();
        let frame = rans::frame(Method::Rans, 4, &rans::shared(4, &table, &stream));
        let (plan, placement) = planned(&frame, 4).expect("a plan");
        assert_eq!(placement, Placement::Device);
        let decoded = emulator.decode(&plan, &frame, 4, Threads(32, false));
        let (found, output) = decoded.expect("no host segments");
        assert_eq!(found, [damage, NONE, NONE, NONE], "{state:#x}");
        assert!(damage != NONE || output == [0; 4]);
        let accepted = execute(&Pure, &plan, &frame, &mut [0; 4]).is_ok();
        assert_eq!(accepted, damage == NONE);
    }
}

fn restores_deltas(emulator: &mut Emulator) {
    let mut decoded = [0; 2];
    for (number, delta) in differences().into_iter().chain(xors()).enumerate() {
        let name = &delta.name;
        let (plan, placement) = delta.planned(&delta.frame).expect("a plan");
        // The host would overwrite the base before the emulator gets it.
        let is_output = |segment: &HostSegment| {
            let plane = plan.segments()[segment.segment as usize].plane;
            plan.planes()[plane as usize].space == Space::Output as u32
        };
        if placement != Placement::Device || plan.host_segments().iter().any(is_output) {
            continue;
        }
        decoded[usize::from(delta.is_xor)] += 1;
        let threads = ALL_THREADS[number % ALL_THREADS.len()];
        let mut decode = |base: Vec<u8>| {
            let decoded = emulator.decode_onto(&plan, &delta.frame, base, threads);
            decoded.expect("no damage of host segments")
        };
        let (damage, output) = decode(delta.base.clone());
        assert_eq!(damage, [NONE; 4], "{name} {threads:?}");
        assert!(output == delta.tensor, "{name} {threads:?}: other bytes");
        let mut other = delta.base.clone();
        *other.last_mut().expect("bytes") ^= 1;
        assert_eq!(decode(other).0[3], 0, "{name}: another base");
    }
    assert!(decoded[0] >= 28 && decoded[1] >= 60, "{decoded:?}");
}

fn reports_damaged_differences(emulator: &mut Emulator) {
    let mut kinds = [0; 3];
    let deltas = differences().into_iter();
    for delta in deltas.filter(|delta| delta.frame.len() < 1500) {
        let name = &delta.name;
        for (bit, damaged) in deltas::damaged_copies(&delta.frame, tier::count(31, 3)) {
            let Ok((plan, Placement::Device)) = delta.planned(&damaged) else {
                continue;
            };
            let mut expected = delta.base.clone();
            let result = execute(&Pure, &plan, &damaged, &mut expected);
            let threads = ALL_THREADS[bit % 2];
            let decoded = emulator.decode_onto(&plan, &damaged, delta.base.clone(), threads);
            let (damage, output) = decoded.expect("no host segments");
            let to_number = |index| u32::try_from(index).expect("small");
            let found = match result {
                Err((Damage::Block(index), _)) => {
                    kinds[1] += 1;
                    [NONE, NONE, to_number(index), damage[3]]
                }
                result => {
                    let digest = match result {
                        Ok(()) => NONE,
                        Err((Damage::Digest(index), _)) => to_number(index),
                        Err((damage, _)) => panic!("{name}: bit {bit}: {damage:?}"),
                    };
                    assert!(output == expected, "{name}: bit {bit}");
                    kinds[if digest == NONE { 0 } else { 2 }] += 1;
                    [NONE, NONE, NONE, digest]
                }
            };
            assert_eq!(damage, found, "{name}: bit {bit} {threads:?}");
        }
    }
    assert!(kinds.iter().all(|&kind| kind > 20), "{kinds:?}");
}

/// Compares digests of byte ranges whose lengths are close to multiples of a chunk and of a
/// tile, and which begin at odd places.
fn compares_digests(emulator: &mut Emulator) {
    const TILE: u64 = 1 << 18;
    let bytes = Rng(3).bytes(index(6 * TILE));
    let lens = [
        0,
        1,
        63,
        64,
        65,
        1023,
        1024,
        1025,
        2048,
        5000,
        TILE - 1,
        TILE,
    ];
    let longer = [TILE + 1, 2 * TILE, 3 * TILE + 5, 5 * TILE + 1024];
    for (number, len) in lens.into_iter().chain(longer).enumerate() {
        let start = number as u64 % 5;
        let place = index(start)..index(start + len);
        let digest = short_digest(&bytes[place.clone()]);
        let mut plan = DevicePlan::new();
        plan.add_digest(start..start + len, digest)
            .expect("a range");
        let threads = ALL_THREADS[number % ALL_THREADS.len()];
        let mut compare = |bytes: Vec<u8>| {
            let decoded = emulator.decode_onto(&plan, &[], bytes, threads);
            decoded.expect("no host segments").0
        };
        let output = bytes[..place.end].to_vec();
        assert_eq!(compare(output.clone()), [NONE; 4], "{len} bytes");
        for at in place.clone().step_by((place.len() / 3).max(1)).take(4) {
            let mut other = output.clone();
            other[at] ^= 0x80;
            let expected = [NONE, NONE, NONE, 0];
            assert_eq!(compare(other), expected, "{len} bytes, byte {at}");
        }
    }
}
