//! Deltas whose records are decoded from other bytes of the base than the tensor of their
//! name: renamed tensors, other numbers of rows, parts of a fused tensor
//! (docs/formats/zstn-delta.md 7).

use std::ops::Range;

use serde_json::{Map, json};
use zstn::{Job, PackOptions, Reader, Sink};
use zstn_core::bytes::part;
use zstn_core::catalog::Extension;
use zstn_core::container::model_delta::{
    self, Base, DeltaOptions, IncrementalDeltaPacker, ModelDelta, RecordKind, TRAILER_END_BYTES,
    shortened,
};
use zstn_core::container::zstn::{self as container, ContainerOptions};
use zstn_core::digest;
use zstn_core::frame::select::{Effort, EncodeOptions};
use zstn_core::model::{Model, ModelBuilder};
use zstn_core::pure::Pure;
use zstn_core::{Result, Rule};
use zstn_tests::foreign::open_in_trips;
use zstn_tests::rng::Rng;
use zstn_tests::with_header;

/// Offset of the version in a file.
const VERSION: usize = 4;
/// The length of a row in elements.
const WIDTH: usize = 64;

/// A name, and the rows of a tensor of BF16.
type Rows = (String, Vec<u8>);

fn file(tensors: &[Rows]) -> Vec<u8> {
    let (mut header, mut data) = (Map::new(), Vec::new());
    for (name, bytes) in tensors {
        let (start, end) = (data.len(), data.len() + bytes.len());
        let shape = [bytes.len() / 2 / WIDTH, WIDTH];
        let entry = json!({ "dtype": "BF16", "shape": shape, "data_offsets": [start, end] });
        header.insert(name.clone(), entry);
        data.extend_from_slice(bytes);
    }
    with_header(serde_json::to_vec(&header).expect("JSON"), data)
}

fn named(tensors: &[(&str, &[u8])]) -> Vec<u8> {
    let owned = tensors
        .iter()
        .map(|(name, bytes)| ((*name).into(), bytes.to_vec()));
    file(&owned.collect::<Vec<Rows>>())
}

/// Returns weights that differ a little from `weights` in every second element.
fn tuned(rng: &mut Rng, weights: &[u8]) -> Vec<u8> {
    let elements = weights.chunks_exact(2);
    let tuned = elements.flat_map(|element| {
        let step = rng.next_u64() % 4;
        let low = element[0].wrapping_add(u8::try_from(step / 2).unwrap_or_default());
        [low, element[1]]
    });
    tuned.collect()
}

/// A base, and targets with the kinds of their records.
struct Family {
    base: Vec<u8>,
    targets: Vec<(&'static str, Vec<u8>, Vec<RecordKind>)>,
}

/// Makes a family whose embedding has `rows` rows.
fn family(rows: usize) -> Family {
    let mut rng = Rng(42);
    let embedding = rng.bf16_weights(rows * WIDTH);
    let [q, k, v] = [4, 2, 2].map(|heads| rng.bf16_weights(heads * rows / 8 * WIDTH));
    let fused = [&q[..], &k, &v].concat();
    let name = "model.embed.weight";
    let qkv = "model.layers.0.qkv_proj.weight";
    let base = named(&[(name, &embedding), (qkv, &fused)]);
    let new = rng.bf16_weights(9 * WIDTH);
    let near = tuned(&mut rng, &embedding);
    let tuned_fused = tuned(&mut rng, &fused);
    let fewer = &near[..(rows - 5) * WIDTH * 2];
    let (q_len, k_len) = (q.len(), k.len());
    let (difference, copy, grown) = (RecordKind::Difference, RecordKind::Copy, RecordKind::Grown);
    let targets = vec![
        (
            "renamed, in another order",
            named(&[
                (
                    "language_model.model.layers.0.qkv_proj.weight",
                    &tuned_fused,
                ),
                ("language_model.model.embed.weight", &embedding),
            ]),
            vec![difference, copy],
        ),
        (
            "more rows",
            named(&[(name, &[&near[..], &new].concat()), (qkv, &fused)]),
            vec![grown, copy],
        ),
        (
            "more rows, the others unchanged, after a tensor that needs version 2",
            named(&[
                (qkv, &tuned_fused),
                ("embed.weight", &[&embedding[..], &new].concat()),
            ]),
            vec![difference, grown],
        ),
        (
            "fewer rows",
            named(&[(name, fewer), (qkv, &fused)]),
            vec![difference, copy],
        ),
        (
            "split",
            named(&[
                (name, &near),
                ("model.layers.0.q_proj.weight", &tuned_fused[..q_len]),
                (
                    "model.layers.0.k_proj.weight",
                    &tuned_fused[q_len..][..k_len],
                ),
                ("model.layers.0.v_proj.weight", &v),
            ]),
            vec![difference, difference, difference, copy],
        ),
    ];
    Family { base, targets }
}

fn packed(target: &[u8], base: &[u8], extended: bool) -> Vec<u8> {
    let options = EncodeOptions::default().extended(extended);
    let base = Base::parse(base).expect("a base");
    model_delta::pack(&Pure, target, &base, options).expect("packs")
}

fn restored(delta: &[u8], base: &[u8]) -> Result<Vec<u8>> {
    ModelDelta::parse(delta)?.unpack(&Pure, &Base::parse(base)?)
}

fn model(file: &[u8]) -> Result<Model> {
    ModelBuilder::new(vec![open_in_trips(file)?.0], None, None)?.finish(&Pure)
}

/// Opens a delta with its base, and reads every tensor of it.
fn tensors(delta: &[u8], base: &[u8]) -> Result<Vec<Vec<u8>>> {
    let of_base = model(base)?;
    let mut opened = model(delta)?;
    opened.attach_base(&of_base)?;
    let numbers = 0..opened.tensors().len();
    let read = numbers.map(|number| {
        let tensor = opened.tensor(number)?;
        let stored = part(delta, tensor.parts[0].stored.clone());
        let reference = match tensor.base {
            Some(_) => {
                let name = opened.name_in_base(number).expect("is a number");
                let number = of_base.find(name)?;
                Some(part(base, of_base.tensor(number)?.parts[0].stored.clone()))
            }
            None => None,
        };
        let decoded = opened.decode(&Pure, number, &[stored], reference)?;
        Ok(decoded.into_owned())
    });
    read.collect()
}

fn data(file: &[u8]) -> Vec<Vec<u8>> {
    let opened = model(file).expect("opens");
    let stored = opened.tensors().iter().map(|t| t.parts[0].stored.clone());
    stored.map(|range| part(file, range).to_vec()).collect()
}

#[test]
fn each_kind_is_smaller_in_version_3_and_restored() {
    let Family { base, targets } = family(512);
    for (what, target, kinds) in &targets {
        let (plain, paired) = (packed(target, &base, false), packed(target, &base, true));
        assert_eq!((plain[VERSION], paired[VERSION]), (1, 3), "{what}");
        assert!(paired.len() * 2 < plain.len(), "{what}");
        let parsed = ModelDelta::parse(&paired).expect("a delta");
        let found: Vec<_> = parsed.records().iter().map(|record| record.kind).collect();
        assert_eq!(found, *kinds, "{what}");
        assert!(
            restored(&paired, &base).expect("restores") == *target,
            "{what}"
        );
        assert!(
            tensors(&paired, &base).expect("reads") == data(target),
            "{what}"
        );
    }
}

#[test]
fn all_packers_write_the_same_bytes() {
    let Family { base, targets } = family(512);
    let engine = zstn::Engine::new(2).expect("threads");
    let job = Job::new().engine(&engine);
    let folder = tempfile::tempdir().expect("a folder");
    for (what, target, _) in &targets {
        let expected = packed(target, &base, true);
        for prefix_last in [false, true] {
            let options = DeltaOptions::new(Effort::Balanced).extended(true);
            let options = options.prefix_last(prefix_last);
            let (target_len, base_len) = (target.len() as u64, base.len() as u64);
            let mut packing = IncrementalDeltaPacker::new(target_len, base_len, options);
            let mut out = Vec::new();
            while let Some(needs) = packing.needs() {
                let bytes = part(target, needs.target);
                let of_base = part(&base, needs.base);
                let piece = packing.supply(&Pure, bytes.into(), of_base.into());
                out.extend(piece.expect("packs"));
            }
            assert!([packing.prefix(), &out].concat() == expected, "{what}");
        }
        let options = PackOptions::default().extended(true).base(base.clone());
        let path = folder.path().join("m.z4dm");
        zstn::pack(&job, target.clone(), Sink::path(&path), &options).expect("packs");
        let mut stream = Vec::new();
        zstn::pack(&job, target.clone(), Sink::writer(&mut stream), &options).expect("packs");
        let file = std::fs::read(&path).expect("a file");
        assert!(file == stream && file == expected, "{what}");
        std::fs::remove_file(path).expect("removed");
    }
}

/// A tensor that does not fit into memory is coded block by block.
#[test]
fn little_memory_gives_the_same_bytes() {
    let Family { base, targets } = family(90_000);
    let engine = zstn::Engine::new(2).expect("threads");
    let target = &targets[1].1;
    let options = PackOptions::default().extended(true).base(base);
    let [small, large] = [64 << 20, 1 << 30].map(|memory_bytes| {
        let job = Job::new().engine(&engine).memory_bytes(memory_bytes);
        let mut out = Vec::new();
        zstn::pack(&job, target.clone(), Sink::writer(&mut out), &options).expect("packs");
        out
    });
    assert!(small == large);
    assert_eq!(small[VERSION], 3);
}

#[test]
fn rows_are_read_from_the_blocks_that_hold_them() {
    let rows = 4096;
    let Family { base, targets } = family(rows);
    let engine = zstn::Engine::new(2).expect("threads");
    let base = container::pack(&engine, &base, ContainerOptions::default()).expect("packs");
    let plain_base = container::unpack(&engine, &base).expect("unpacks");
    let base_parsed = Base::parse(&plain_base).expect("a base");
    for (what, target, _) in &targets {
        let options = EncodeOptions::default().extended(true);
        let delta = model_delta::pack(&engine, target, &base_parsed, options).expect("packs");
        let reader = Reader::options().base(base.clone()).open(delta.clone());
        let reader = reader.expect("opens");
        let truth = Reader::open(target.clone()).expect("opens");
        for tensor in truth.tensors() {
            let count = tensor.shape[0];
            for rows in [0..3, count / 2..count / 2 + 1, count - 2..count] {
                let name = &tensor.name;
                let read = reader.read_rows(name, rows.clone()).expect("reads");
                let expected = truth.read_rows(name, rows.clone()).expect("reads");
                assert!(read.bytes == expected.bytes, "{what}: {name} {rows:?}");
            }
            // Shorter tensors are read as a whole.
            if tensor.len_bytes() > 256 << 10 {
                let plan = reader.plan_rows(&tensor.name, 0..1).expect("plans");
                assert!(!plan.is_whole(), "{what}: {}", tensor.name);
            }
        }
    }
}

/// Returns the range of the trailer's fields.
fn trailer_fields(delta: &[u8]) -> Range<usize> {
    let end = delta.len() - usize::try_from(TRAILER_END_BYTES).expect("short");
    end - length_at(delta, end)..end
}

fn length_at(delta: &[u8], at: usize) -> usize {
    let len = u64::from_le_bytes(delta[at..at + 8].try_into().expect("8 bytes"));
    usize::try_from(len).expect("short")
}

/// Returns the range of the value of `SRCS`.
fn sources(delta: &[u8]) -> Range<usize> {
    let mut at = trailer_fields(delta).start;
    loop {
        let value = at + 12..at + 12 + length_at(delta, at + 4);
        if delta[at..at + 4] == *b"SRCS" {
            return value;
        }
        at = value.end;
    }
}

/// Returns the delta with other entries of `SRCS`, and their digest.
fn with_entries(delta: &[u8], change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let Range { start, end } = sources(delta);
    let mut forged = delta.to_vec();
    change(&mut forged[start + 16..end]);
    let digest = shortened(&digest::of_pieces([&forged[start + 16..end]]));
    forged[start..start + 16].copy_from_slice(&digest);
    forged
}

/// Every flip and every cut is refused, or does not change the restored data.
#[test]
fn damage_is_refused_or_changes_nothing() {
    let Family { base, targets } = family(16);
    for (what, target, _) in &targets {
        let delta = packed(target, &base, true);
        let truth = data(target);
        let trailer = trailer_fields(&delta).start;
        for at in 0..delta.len() {
            // Every bit of the trailer, and one of each other byte.
            for bit in (0..8).filter(|bit| at >= trailer || at % 8 == *bit) {
                let mut damaged = delta.clone();
                damaged[at] ^= 1 << bit;
                if let Ok(restored) = restored(&damaged, &base) {
                    assert!(restored == *target, "{what}: byte {at}");
                }
                if let Ok(read) = tensors(&damaged, &base) {
                    assert!(read == truth, "{what}: byte {at}");
                }
            }
        }
        for len in 0..delta.len() {
            assert!(restored(&delta[..len], &base).is_err(), "{what}: {len}");
            assert!(model(&delta[..len]).is_err(), "{what}: {len}");
        }
    }
}

/// Rows are read without comparing the tensor with its digest, so the digest of `SRCS` has
/// to cover the places of the base's bytes.
#[test]
fn damaged_places_give_no_wrong_rows() {
    let Family { base, targets } = family(4160);
    let engine = zstn::Engine::new(2).expect("threads");
    let packed_base = container::pack(&engine, &base, ContainerOptions::default()).expect("packs");
    for (number, name) in [
        (1, "model.embed.weight"),
        (4, "model.layers.0.q_proj.weight"),
    ] {
        let (what, target, kinds) = &targets[number];
        let delta = packed(target, &base, true);
        let truth = Reader::open(target.clone()).expect("opens");
        let truth = truth.read_rows(name, 1..3).expect("reads").bytes;
        let read = |delta: &[u8]| -> zstn::Result<_> {
            let reader = Reader::options().base(packed_base.clone());
            let reader = reader.open(delta.to_vec())?;
            let is_whole = reader.plan_rows(name, 1..3)?.is_whole();
            Ok((is_whole, reader.read_rows(name, 1..3)?.bytes))
        };
        assert!(read(&delta).expect("reads") == (false, truth), "{what}");
        let parsed = ModelDelta::parse(&delta).expect("a delta");
        let payload = usize::try_from(parsed.records()[0].payload.start).expect("short");
        let head = match kinds[0] {
            RecordKind::Grown => payload..payload + 9,
            _ => 0..0,
        };
        for at in sources(&delta).chain(head) {
            for bit in 0..8 {
                let mut damaged = delta.clone();
                damaged[at] ^= 1 << bit;
                let outcome = read(&damaged);
                assert!(outcome.is_err(), "{what}: byte {at}, bit {bit}");
            }
        }
    }
}

/// Expects that the whole file and its single tensors are refused by the same rule.
fn assert_refused(delta: &[u8], base: &[u8], rule: Rule) {
    let error = restored(delta, base).expect_err("refused");
    assert_eq!(error.rule(), Some(rule), "{error}");
    let error = tensors(delta, base).expect_err("refused");
    assert_eq!(error.rule(), Some(rule), "{error}");
}

#[test]
fn sources_that_do_not_fit_are_refused() {
    let Family { base, targets } = family(256);
    let delta = packed(&targets[1].1, &base, true);
    // The first record has an entry of 37 bytes, and the second one a zero.
    let forged = |at: usize, bytes: &[u8]| {
        with_entries(&delta, |entries| {
            entries[at..][..bytes.len()].copy_from_slice(bytes);
        })
    };
    let [count, number, start, length, of_base] = [0, 1, 5, 13, 21];
    let outside = Rule::DeltaBaseTensor;
    assert_refused(&forged(number, &9u32.to_le_bytes()), &base, outside);
    assert_refused(&forged(start, &1u64.to_le_bytes()), &base, outside);
    let seal = Rule::DeltaSeal;
    assert_refused(&forged(length, &0u64.to_le_bytes()), &base, seal);
    assert_refused(&forged(length, &u64::MAX.to_le_bytes()), &base, seal);
    assert_refused(&forged(count, &[2]), &base, seal);
    assert_refused(&forged(count, &[0]), &base, seal);
    // The digest of the base's tensor only decides how rows are read.
    assert!(restored(&forged(of_base, &[0; 16]), &base).is_ok());
    let mut flipped = delta.clone();
    flipped[sources(&delta).start + 16 + start] ^= 1;
    assert_refused(&flipped, &base, seal);
    // Another version than the records need.
    for version in [1, 2] {
        let mut other = delta.clone();
        other[VERSION] = version;
        assert_refused(&other, &base, Rule::DeltaKind);
    }
    let mut plain = packed(&targets[1].1, &base, false);
    plain[VERSION] = 3;
    assert_refused(&plain, &base, seal);
}

/// Readers decode the whole tensor of the base for each record, however short its range is.
#[test]
fn tensors_of_the_base_are_used_a_limited_number_of_times() {
    let mut rng = Rng(3);
    let (long, short) = (rng.bf16_weights(512 * WIDTH), rng.bf16_weights(4 * WIDTH));
    let base = named(&[("a.weight", &long), ("b.weight", &short)]);
    let names: Vec<String> = (0..20)
        .map(|number| format!("x{number}.b.weight"))
        .collect();
    let target: Vec<_> = names.iter().map(|name| (&name[..], &short[..])).collect();
    let delta = packed(&named(&target), &base, true);
    let parsed = ModelDelta::parse(&delta).expect("a delta");
    assert!(parsed.records().iter().all(|r| r.kind == RecordKind::Copy));
    let forged = with_entries(&delta, |entries| {
        for entry in entries.chunks_exact_mut(37) {
            entry[1] = 0;
        }
    });
    assert_refused(&forged, &base, Rule::DeltaSeal);
    // The packer keeps to the limit.
    let rows = &long[..128 * WIDTH * 2];
    let names: Vec<String> = (0..40)
        .map(|number| format!("x{number}.a.weight"))
        .collect();
    let target: Vec<_> = names.iter().map(|name| (&name[..], rows)).collect();
    let target = named(&target);
    let delta = packed(&target, &base, true);
    let parsed = ModelDelta::parse(&delta).expect("a delta");
    let records = parsed.records().iter();
    assert_eq!(records.filter(|r| r.kind == RecordKind::Copy).count(), 16);
    assert!(restored(&delta, &base).expect("restores") == target);
}

/// A pair that saves nothing costs at most the digest of the places and their field.
#[test]
fn a_wrong_pair_costs_at_most_a_few_bytes() {
    let mut rng = Rng(4);
    for shared in (0..200).step_by(4) {
        let of_base = rng.bf16_weights(8 * WIDTH);
        let mut weights = rng.bf16_weights(8 * WIDTH);
        weights[..shared].copy_from_slice(&of_base[..shared]);
        let base = named(&[("a.weight", &of_base)]);
        let target = named(&[("x.a.weight", &weights)]);
        let (plain, paired) = (packed(&target, &base, false), packed(&target, &base, true));
        assert!(paired.len() <= plain.len() + 28, "{shared}");
    }
    // Short tensors are not paired.
    let short = rng.bf16_weights(WIDTH);
    let (base, target) = (named(&[("a", &short)]), named(&[("x.a", &short)]));
    assert_eq!(packed(&target, &base, true)[VERSION], 1);
}

#[test]
fn the_frame_of_a_tensor_with_more_rows_is_found() {
    let Family { base, targets } = family(512);
    let delta = packed(&targets[1].1, &base, true);
    let catalog = open_in_trips(&delta).expect("opens").0;
    let head = catalog.frame_head(0).expect("has a frame");
    let extension = Extension::of_frame(part(&delta, head));
    assert_eq!(extension, Some(Extension::Difference));
}

#[test]
fn a_delta_of_many_renamed_tensors_opens_in_two_round_trips() {
    let mut rng = Rng(5);
    let weights: Vec<_> = (0..2000).map(|_| rng.bf16_weights(2 * WIDTH)).collect();
    let of_prefix = |prefix: &str| {
        let tensors = weights.iter().enumerate();
        let tensors = tensors.map(|(number, rows)| (format!("{prefix}a{number}.w"), rows.clone()));
        file(&tensors.collect::<Vec<Rows>>())
    };
    let delta = packed(&of_prefix("x."), &of_prefix(""), true);
    assert_eq!(delta[VERSION], 3);
    let (catalog, trips) = open_in_trips(&delta).expect("opens");
    assert_eq!((catalog.tensors().len(), trips), (2000, 2));
}
