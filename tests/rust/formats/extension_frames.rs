//! Files with extension frames: their versions, which writers produce them, and damage
//! (docs/formats/extensions.md).

use zstn::{Job, PackOptions, Sink};
use zstn_core::bytes::part;
use zstn_core::catalog::{Extension, FileCatalog, FileOpener};
use zstn_core::container::model_delta;
use zstn_core::container::model_delta::{
    Base, DeltaOptions, DeltaPacker, IncrementalDeltaPacker, ModelDelta, RecordKind,
};
use zstn_core::container::zstn::{ContainerOptions, IncrementalPacker, pack, unpack};
use zstn_core::engine::Engine;
use zstn_core::frame::Edition;
use zstn_core::frame::select::{Effort, EncodeOptions};
use zstn_core::pure::Pure;
use zstn_core::{Result, Rule};
use zstn_tests::checkpoints::{fine_tuned, one_lattice, quantised, usual};

/// Offset of the version in a file.
const VERSION: usize = 4;

fn extended() -> ContainerOptions {
    ContainerOptions::default().extended(true)
}

fn packed() -> Vec<u8> {
    pack(&Pure, &quantised(), extended()).expect("packs")
}

/// Returns the delta of the fine-tune, and its base.
fn delta(options: impl Into<EncodeOptions>) -> (Vec<u8>, Vec<u8>) {
    let (base, tuned) = fine_tuned();
    let parsed = Base::parse(&base).expect("a base");
    let delta = model_delta::pack(&Pure, &tuned, &parsed, options).expect("packs");
    (delta, base)
}

fn extended_delta() -> (Vec<u8>, Vec<u8>) {
    delta(EncodeOptions::default().extended(true))
}

fn restored(delta: &[u8], base: &[u8]) -> Result<Vec<u8>> {
    ModelDelta::parse(delta)?.unpack(&Pure, &Base::parse(base)?)
}

fn opened(file: &[u8]) -> Result<FileCatalog> {
    let len = file.len() as u64;
    let head = part(file, 0..FileOpener::head_len_bytes(len)).to_vec();
    let mut opener = FileOpener::new(len, head)?;
    loop {
        let needs = opener.needs()?;
        if needs.is_empty() {
            return opener.finish(&Pure);
        }
        for range in needs {
            opener.supply(range.start, part(file, range.clone()))?;
        }
    }
}

/// Reads every tensor through the catalog.
fn read(engine: &impl Engine, file: &[u8]) -> Result<Vec<Vec<u8>>> {
    let catalog = opened(file)?;
    let numbers = 0..catalog.tensors().len();
    let tensors = numbers.map(|number| {
        let stored = part(file, catalog.tensors()[number].stored.clone());
        catalog.decode(engine, number, stored).map(Vec::from)
    });
    tensors.collect()
}

fn with_version(file: &[u8], version: u8) -> Vec<u8> {
    let mut file = file.to_vec();
    file[VERSION] = version;
    file
}

#[test]
fn a_file_is_of_the_version_that_its_frames_need() {
    let original = quantised();
    let plain = pack(&Pure, &original, ContainerOptions::default()).expect("packs");
    let packed = packed();
    assert_eq!((plain[VERSION], packed[VERSION]), (3, 4));
    assert!(packed.len() < plain.len());
    for file in [&plain, &packed] {
        assert!(unpack(&Pure, file).expect("unpacks") == original);
    }
    let catalog = opened(&packed).expect("opens");
    assert_eq!(catalog.edition(), Some(Edition::Extended));
    let extension = |number| {
        let head = part(&packed, catalog.frame_head(number)?);
        Extension::of_frame(head)
    };
    let extensions = [extension(0), extension(1), extension(2)];
    let lattice = Some(Extension::Lattice);
    assert_eq!(extensions, [None, lattice, lattice]);
    assert_eq!(opened(&plain).expect("opens").frame_head(1), None);
}

#[test]
fn without_a_smaller_extension_frame_the_option_changes_nothing() {
    let original = usual();
    let plain = pack(&Pure, &original, ContainerOptions::default()).expect("packs");
    assert!(pack(&Pure, &original, extended()).expect("packs") == plain);
    // A delta whose tensors are all equal to the base's has no extension frames either.
    let (base, target) = (usual(), usual());
    let base = Base::parse(&base).expect("a base");
    let pack = |options| model_delta::pack(&Pure, &target, &base, options).expect("packs");
    let plain = pack(EncodeOptions::default());
    assert!(pack(EncodeOptions::default().extended(true)) == plain);
    assert_eq!(plain[VERSION], 1);
}

#[test]
fn piece_by_piece_the_first_bytes_come_last() {
    for original in [quantised(), usual()] {
        let mut packing = IncrementalPacker::new(original.len() as u64, extended());
        let mut out = Vec::new();
        while let Some(range) = packing.needs() {
            out.extend(
                packing
                    .supply(&Pure, part(&original, range))
                    .expect("packs"),
            );
        }
        let whole = pack(&Pure, &original, extended()).expect("packs");
        assert!([packing.prefix(), &out].concat() == whole);
        assert!(!packing.prefix().is_empty());
    }
}

#[test]
fn files_and_streams_get_the_same_bytes() {
    let engine = zstn::Engine::new(2).expect("threads");
    let job = Job::new().engine(&engine);
    let folder = tempfile::tempdir().expect("a folder");
    let options = PackOptions::default().extended(true);
    for original in [quantised(), usual()] {
        let path = folder.path().join("m.zstn");
        zstn::pack(&job, original.clone(), Sink::path(&path), &options).expect("packs");
        let mut stream = Vec::new();
        let sink = Sink::writer(&mut stream);
        zstn::pack(&job, original.clone(), sink, &options).expect("packs");
        let file = std::fs::read(&path).expect("a file");
        assert!(file == stream);
        let whole = pack(&engine, &original, extended());
        assert!(whole.expect("packs") == file);
    }
    let (base, tuned) = fine_tuned();
    let options = options.base(base.clone());
    let path = folder.path().join("m.z4dm");
    zstn::pack(&job, tuned.clone(), Sink::path(&path), &options).expect("packs");
    let mut stream = Vec::new();
    zstn::pack(&job, tuned.clone(), Sink::writer(&mut stream), &options).expect("packs");
    let file = std::fs::read(&path).expect("a file");
    assert!(file == stream);
    assert_eq!(file[VERSION], 2);
    assert!(restored(&file, &base).expect("restores") == tuned);
}

#[test]
fn an_extension_frame_in_version_3_is_refused_by_name() {
    let options = extended().integrity(false);
    let file = pack(&Pure, &quantised(), options).expect("packs");
    let forged = with_version(&file, 3);
    for error in [
        unpack(&Pure, &forged).expect_err("refused"),
        read(&Pure, &forged).expect_err("refused"),
    ] {
        assert_eq!(error.rule(), Some(Rule::ZstnFrameKind));
        assert!(error.to_string().contains("up"), "{error}");
    }
    // The integrity section detects the change first.
    let error = unpack(&Pure, &with_version(&packed(), 3)).expect_err("refused");
    assert_eq!(error.rule(), Some(Rule::ZstnHeadChecksum));
    for version in [0, 2, 5, 255] {
        let error = unpack(&Pure, &with_version(&file, version)).expect_err("refused");
        assert_eq!(error.rule(), Some(Rule::ZstnVersion));
        assert!(error.to_string().contains("versions 3 and 4"), "{error}");
    }
}

#[test]
fn version_4_need_not_hold_an_extension_frame() {
    let original = usual();
    let options = ContainerOptions::default().integrity(false);
    let file = pack(&Pure, &original, options).expect("packs");
    let file = with_version(&file, 4);
    assert!(unpack(&Pure, &file).expect("unpacks") == original);
    assert_eq!(read(&Pure, &file).expect("reads").len(), 2);
}

#[test]
fn a_delta_holds_differences_and_lattices_in_version_2() {
    let (file, base) = extended_delta();
    let (plain, _) = delta(EncodeOptions::default());
    assert_eq!((plain[VERSION], file[VERSION]), (1, 2));
    assert!(file.len() < plain.len());
    let kinds = |file: &[u8]| {
        let delta = ModelDelta::parse(file).expect("a delta");
        delta.records().iter().map(|r| r.kind).collect::<Vec<_>>()
    };
    assert_eq!(
        kinds(&plain),
        [RecordKind::Copy, RecordKind::Delta, RecordKind::Full]
    );
    assert_eq!(
        kinds(&file),
        [RecordKind::Copy, RecordKind::Difference, RecordKind::Full]
    );
    let tuned = fine_tuned().1;
    assert!(restored(&file, &base).expect("restores") == tuned);
    let catalog = opened(&file).expect("opens");
    let extension = |number| Extension::of_frame(part(&file, catalog.frame_head(number)?));
    let expected = [None, Some(Extension::Difference), Some(Extension::Lattice)];
    assert_eq!([extension(0), extension(1), extension(2)], expected);

    // z4ai would interpret the record as another type.
    let forged = with_version(&file, 1);
    let error = ModelDelta::parse(&forged).expect_err("refused");
    assert_eq!(error.rule(), Some(Rule::DeltaKind));
    assert!(error.to_string().contains("up"), "{error}");
    let error = opened(&forged).expect_err("refused");
    assert_eq!(error.rule(), Some(Rule::DeltaKind));
    // Version 2 is allowed without a record of kind 3.
    assert!(restored(&with_version(&plain, 2), &base).expect("restores") == tuned);
}

#[test]
fn a_lattice_in_a_delta_of_version_1_is_refused_by_name() {
    let (_, tuned) = fine_tuned();
    let base = usual();
    let parsed = Base::parse(&base).expect("a base");
    let options = EncodeOptions::default().extended(true);
    let file = model_delta::pack(&Pure, &tuned, &parsed, options).expect("packs");
    assert_eq!(file[VERSION], 2);
    let error = restored(&with_version(&file, 1), &base).expect_err("refused");
    assert_eq!(error.rule(), Some(Rule::ZstnFrameKind));
    assert!(error.to_string().contains("new"), "{error}");
}

#[test]
fn a_delta_piece_by_piece_has_the_same_bytes() {
    let (base, tuned) = fine_tuned();
    let options = DeltaOptions::new(Effort::Balanced).extended(true);
    for prefix_last in [false, true] {
        let options = options.prefix_last(prefix_last);
        let (target_len, base_len) = (tuned.len() as u64, base.len() as u64);
        let mut packing = IncrementalDeltaPacker::new(target_len, base_len, options);
        let mut out = Vec::new();
        while let Some(needs) = packing.needs() {
            let target = part(&tuned, needs.target);
            let base = part(&base, needs.base);
            out.extend(
                packing
                    .supply(&Pure, target.into(), base.into())
                    .expect("packs"),
            );
        }
        assert!([packing.prefix(), &out].concat() == extended_delta().0);
    }
}

#[test]
fn a_caller_that_writes_records_itself_learns_the_version() {
    let (base, tuned) = fine_tuned();
    let parsed = Base::parse(&base).expect("a base");
    let packing = DeltaPacker::of_file(&tuned).expect("a checkpoint");
    let options = EncodeOptions::default().extended(true);
    let pairs = packing.pairs(parsed.header(), options);
    let coded = |number: usize| {
        let tensor = &packing.tensors()[number];
        let bytes = part(&tuned, packing.range(tensor));
        let pair = pairs.get(tensor);
        let reference = pair.map(|pair| (pair, part(&base, pair.tensor.clone())));
        model_delta::code(&Pure, tensor, bytes, reference, options).expect("coded")
    };
    let editions = [0, 1, 2].map(|number| coded(number).edition);
    let expected = [Edition::Plain, Edition::Extended, Edition::Extended];
    assert_eq!(editions, expected);
    assert_eq!(model_delta::version(Edition::Extended), 2);
}

/// Every bit flip and every truncation is refused, or does not change the restored
/// data.
#[test]
fn damage_is_refused_or_changes_nothing() {
    let original = quantised();
    let file = packed();
    let good = unpack(&Pure, &file).expect("unpacks");
    assert!(good == original);
    for at in (0..file.len()).step_by(97).chain(0..64) {
        let mut damaged = file.clone();
        damaged[at] ^= 1 << (at % 8);
        if let Ok(restored) = unpack(&Pure, &damaged) {
            assert!(restored == original, "byte {at}");
        }
        let _ = read(&Pure, &damaged);
    }
    for len in (0..file.len()).step_by(89) {
        assert!(unpack(&Pure, &file[..len]).is_err(), "{len} bytes");
    }
    let (file, base) = extended_delta();
    let tuned = fine_tuned().1;
    for at in (0..file.len()).step_by(97).chain(0..64) {
        let mut damaged = file.clone();
        damaged[at] ^= 1 << (at % 8);
        if let Ok(restored) = restored(&damaged, &base) {
            assert!(restored == tuned, "byte {at}");
        }
    }
    for len in (0..file.len()).step_by(89) {
        // A delta that lost its trailer is a valid delta of z4ai.
        if let Ok(restored) = restored(&file[..len], &base) {
            assert!(restored == tuned, "{len} bytes");
        }
    }
}

#[test]
fn rows_of_a_lattice_are_read_without_the_rest() {
    const ROW_BYTES: u64 = 512;
    let original = one_lattice(12 << 10);
    let file = pack(&Pure, &original, extended()).expect("packs");
    let catalog = opened(&file).expect("opens");
    let stored = catalog.tensors()[0].stored_len_bytes();
    let integrity = catalog.integrity().expect("an integrity section");
    let table = part(&file, integrity.table(0).expect("a block table"));
    let data = &original[original.len() - 512 * (12 << 10)..];
    for rows in [0..1, 5..8, 4095..4097, 12_287..12_288, 0..12_288] {
        let span = rows.start * ROW_BYTES..rows.end * ROW_BYTES;
        let plan = catalog.plan(0, span.clone(), Some(table));
        let plan = plan.expect("a table").expect("parts");
        let fetched: Vec<&[u8]> = plan
            .ranges()
            .iter()
            .map(|range| part(&file, range.clone()))
            .collect();
        let read = plan.decode(&Pure, &fetched, None).expect("decodes");
        assert!(read == part(data, span), "{rows:?}");
        let read_bytes: usize = fetched.iter().map(|bytes| bytes.len()).sum();
        let is_all = rows == (0..12_288);
        assert!(
            is_all || (read_bytes as u64) < stored / 2,
            "{read_bytes} of {stored}"
        );
        let mut damaged = fetched[0].to_vec();
        damaged[7] ^= 1;
        let mut damaged_parts = fetched.clone();
        damaged_parts[0] = &damaged;
        assert!(
            plan.decode(&Pure, &damaged_parts, None).is_err(),
            "{rows:?}"
        );
    }
    for bit in 0..table.len() * 8 {
        let mut damaged = table.to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let plan = catalog.plan(0, 0..ROW_BYTES, Some(&damaged));
        assert_eq!(
            plan.unwrap_err().rule(),
            Some(Rule::ZstnBlockTable),
            "{bit}"
        );
    }
}
