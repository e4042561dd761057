//! Deltas whose records are decoded from other bytes of the base than the tensor of their
//! name: renamed tensors, other numbers of rows, parts of a fused tensor
//! (docs/formats/zstn-delta.md 7).

use serde_json::{Map, json};
use zstn::{Job, PackOptions, Reader, Sink};
use zstn_core::bytes::part;
use zstn_core::catalog::FileOpener;
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

/// A base, and a target of each kind with the kinds of its records that version 3 needs.
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
    let named = |tensors: &[(&str, &[u8])]| {
        let owned = tensors
            .iter()
            .map(|(name, bytes)| ((*name).into(), bytes.to_vec()));
        file(&owned.collect::<Vec<Rows>>())
    };
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
    let len = file.len() as u64;
    let head = part(file, 0..FileOpener::head_len_bytes(len)).to_vec();
    let mut opener = FileOpener::new(len, head)?;
    loop {
        let needs = opener.needs()?;
        if needs.is_empty() {
            let file = opener.finish(&Pure)?;
            return ModelBuilder::new(vec![file], None, None)?.finish(&Pure);
        }
        for range in needs {
            opener.supply(range.start, part(file, range.clone()))?;
        }
    }
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

/// Every flip and every cut is refused, or does not change the restored data.
#[test]
fn damage_is_refused_or_changes_nothing() {
    let Family { base, targets } = family(16);
    for (what, target, _) in &targets {
        let delta = packed(target, &base, true);
        let truth = data(target);
        for at in 0..delta.len() {
            // Every bit of the trailer, and one of each other byte.
            let is_trailer = at + 300 > delta.len();
            for bit in (0..8).filter(|bit| is_trailer || at % 8 == *bit) {
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
    let end = delta.len() - usize::try_from(TRAILER_END_BYTES).expect("short");
    // The sources are 37 bytes of the first record, then a zero. Their digest is before them.
    let forged = |from_end: usize, bytes: &[u8]| {
        let mut forged = delta.clone();
        forged[end - from_end..][..bytes.len()].copy_from_slice(bytes);
        let digest = shortened(&digest::of_pieces([&forged[end - 38..end]]));
        forged[end - 54..end - 38].copy_from_slice(&digest);
        forged
    };
    let [of_base, length, start, number, count] = [17, 25, 33, 37, 38];
    assert_refused(
        &forged(number, &9u32.to_le_bytes()),
        &base,
        Rule::DeltaBaseTensor,
    );
    assert_refused(
        &forged(start, &1u64.to_le_bytes()),
        &base,
        Rule::DeltaBaseTensor,
    );
    assert_refused(
        &forged(length, &0u64.to_le_bytes()),
        &base,
        Rule::DeltaBaseTensor,
    );
    assert_refused(
        &forged(length, &u64::MAX.to_le_bytes()),
        &base,
        Rule::DeltaBaseTensor,
    );
    assert_refused(&forged(count, &[2]), &base, Rule::DeltaSeal);
    assert_refused(&forged(count, &[0]), &base, Rule::DeltaSeal);
    // The digest of the base's tensor only decides how rows are read.
    assert!(restored(&forged(of_base, &[0; 16]), &base).is_ok());
    let mut flipped = delta.clone();
    flipped[end - start] ^= 1;
    assert_refused(&flipped, &base, Rule::DeltaSeal);
    // Another version than the records need.
    for version in [1, 2] {
        let mut other = delta.clone();
        other[VERSION] = version;
        assert_refused(&other, &base, Rule::DeltaKind);
    }
    let mut plain = packed(&targets[1].1, &base, false);
    plain[VERSION] = 3;
    assert_refused(&plain, &base, Rule::DeltaSeal);
}
