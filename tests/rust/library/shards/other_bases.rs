//! Bases that are sharded differently from the checkpoint, or not at all.

use zstn::{Error, Reader, ReaderOptions, Storage, VerifyOptions};

use super::*;

/// The tensors of [`model`] with their bytes.
fn tensors(tuned: bool) -> Vec<(String, Vec<u8>)> {
    let files = model(tuned);
    let mut tensors = Vec::new();
    for shard in [FIRST, SECOND, THIRD] {
        let reader = Reader::open(files[shard].clone()).unwrap();
        for tensor in reader.tensors() {
            tensors.push((
                tensor.name.clone(),
                reader.read(&tensor.name).unwrap().bytes,
            ));
        }
    }
    tensors
}

/// Returns a model with these tensors, some in each file.
fn divided(tensors: &[(String, Vec<u8>)], files: &[(&str, &[&str])]) -> Files {
    let mut made = Files::new();
    let mut weights = Vec::new();
    for (file, names) in files {
        let of = |name: &&str| {
            let (name, bytes) = tensors.iter().find(|(known, _)| known == name).unwrap();
            weights.push(format!("\"{name}\": \"{file}\""));
            (&**name, "BF16", &**bytes)
        };
        let listed: Vec<_> = names.iter().map(of).collect();
        made.insert((*file).into(), checkpoint(&listed));
    }
    if files.len() > 1 {
        let index = format!("{{\"weight_map\": {{{}}}}}", weights.join(", "));
        made.insert(INDEX.into(), index.into_bytes());
    }
    made
}

/// The same base in one file, and in two kinds of shards that the model does not have.
fn divisions() -> [(&'static str, Files); 3] {
    let tensors = tensors(false);
    let all = ["up", "extra", "embed", "head", "norm"];
    let (a, b) = (
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
    );
    [
        ("one", divided(&tensors, &[("model.safetensors", &all)])),
        (
            "two",
            divided(
                &tensors,
                &[(a, &["head", "embed"]), (b, &["norm", "up", "extra"])],
            ),
        ),
        // The same file names as in the model, but the tensors are in different files.
        (
            "moved",
            divided(
                &tensors,
                &[
                    (FIRST, &["norm", "up"]),
                    (SECOND, &["extra"]),
                    (THIRD, &["embed", "head"]),
                ],
            ),
        ),
    ]
}

fn with<T>(options: T, bases: &[PathBuf], add: impl Fn(T, PathBuf) -> T) -> T {
    bases.iter().cloned().fold(options, add)
}

fn pack_with(input: &Path, bases: &[PathBuf], target: &Path) -> PackReport {
    let options = with(PackOptions::default(), bases, PackOptions::base);
    zstn::pack(&job(), input, target, &options).unwrap()
}

/// Checks that `packed` restores the folder or file at `original`, and that its tensors
/// and rows can be read.
fn check(packed: &Path, bases: &[PathBuf], original: &Path) {
    let scratch = tempfile::tempdir().unwrap();
    let back = scratch.path().join("back");
    let options = with(UnpackOptions::default(), bases, UnpackOptions::base);
    zstn::unpack(&job(), packed, &back, &options).unwrap();
    match original.is_dir() {
        true => assert!(read(&back) == read(original)),
        false => assert!(std::fs::read(&back).unwrap() == std::fs::read(original).unwrap()),
    }
    let options = with(VerifyOptions::default(), bases, VerifyOptions::base);
    let verified = zstn::verify(&job(), packed, &options.original(original)).unwrap();
    assert!(verified.compared);

    let options = with(ReaderOptions::default(), bases, ReaderOptions::base);
    let reader = options.open(packed).unwrap();
    let expected = Reader::open(original).unwrap();
    assert_eq!(reader.tensors().len(), expected.tensors().len());
    for tensor in expected.tensors() {
        let name = &tensor.name;
        let [read, same] = [&reader, &expected].map(|reader| reader.read(name).unwrap().bytes);
        assert!(read == same, "{name}");
        let rows = |reader: &Reader| reader.read_rows(name, 1..3).unwrap().bytes;
        assert!(rows(&reader) == rows(&expected), "{name}");
        let only = with(Reader::options(), bases, ReaderOptions::base).only(name);
        assert!(
            only.open(packed).unwrap().read(name).unwrap().bytes == same,
            "{name}"
        );
    }
}

#[test]
fn a_base_may_be_divided_in_another_way() {
    let (scratch, input) = scratch(&model(true));
    let at = |name: &str| scratch.path().join(name);
    let mut results = BTreeMap::new();
    for (name, files) in divisions() {
        write(&at(name), &files);
        pack(&at(name), &at(&format!("{name}-packed"))).unwrap();
        for base in [name.to_owned(), format!("{name}-packed")] {
            let packed = at(&format!("against-{base}"));
            let report = pack_with(&input, &[at(&base)], &packed);
            assert!(
                report.packed_bytes() * 10 < report.original_bytes(),
                "{base}"
            );
            check(&packed, &[at(name)], &input);
            check(&packed, &[at(&format!("{name}-packed"))], &input);
            results.insert(base, read(&packed));
        }
        assert!(results[name] == results[&format!("{name}-packed")]);
    }
    // All files together are one base, however it is sharded.
    assert!(results["two"] == results["moved"]);
    check(&at("against-two"), &[at("moved-packed")], &input);
    let reader = ReaderOptions::default().base(at("one"));
    let refused = reader.open(at("against-two")).err().expect("another base");
    assert!(refused.to_string().contains("made against"), "{refused}");
    let options = UnpackOptions::default().base(at("one"));
    let refused = zstn::unpack(&job(), at("against-two"), at("x"), &options).unwrap_err();
    assert!(refused.to_string().contains("made against"), "{refused}");
}

#[test]
fn so_may_checkpoints_in_subfolders() {
    let (scratch, _) = scratch(&model(true));
    let at = |name: &str| scratch.path().join(name);
    let below = |top: &str, files: &Files| {
        write(&at(top).join("text_encoder"), files);
        std::fs::write(at(top).join("model_index.json"), "{}").unwrap();
    };
    let all = ["up", "extra", "embed", "head", "norm"];
    let whole = divided(&tensors(true), &[("encoder.safetensors", &all)]);
    below("sharded", &model(true));
    below("whole", &whole);
    for (name, files) in divisions() {
        below(name, &files);
        pack(&at(name), &at(&format!("{name}-packed"))).unwrap();
        for input in ["sharded", "whole"] {
            for base in [name.to_owned(), format!("{name}-packed")] {
                let packed = at(&format!("{input}-against-{base}"));
                let report = pack_with(&at(input), &[at(&base)], &packed);
                assert!(
                    report.packed_bytes() * 10 < report.original_bytes(),
                    "{input} {base}"
                );
                let options = UnpackOptions::default().base(at(&base));
                let back = at(&format!("{input}-{base}-back"));
                zstn::unpack(&job(), &packed, &back, &options).unwrap();
                let inside = |folder: &Path| read(&folder.join("text_encoder"));
                assert!(inside(&back) == inside(&at(input)), "{input} {base}");
            }
        }
    }
}

#[test]
fn variants_in_a_subfolder_have_bases_of_their_own() {
    let (scratch, _) = scratch(&model(true));
    let at = |name: &str| scratch.path().join(name);
    for (name, is_tuned) in [("base", false), ("tuned", true)] {
        let mut others = tensors(is_tuned);
        for (_, bytes) in &mut others {
            bytes.iter_mut().for_each(|byte| *byte ^= 0x5a);
        }
        let (a, b) = (
            "model.fp16-00001-of-00002.safetensors",
            "model.fp16-00002-of-00002.safetensors",
        );
        let files = [(a, &["up", "norm"][..]), (b, &["extra", "embed", "head"])];
        let mut variant = divided(&others, &files);
        let index = variant.remove(INDEX).unwrap();
        variant.insert("model.safetensors.index.fp16.json".into(), index);
        variant.extend(model(is_tuned));
        write(&at(name).join("text_encoder"), &variant);
    }
    let report = pack_with(&at("tuned"), &[at("base")], &at("packed"));
    assert!(report.packed_bytes() * 10 < report.original_bytes());
}

#[test]
fn one_file_may_have_a_base_in_several_files() {
    let (scratch, _) = scratch(&model(true));
    let at = |name: &str| scratch.path().join(name);
    let names = ["norm", "head", "extra", "up", "embed"];
    let whole = divided(&tensors(true), &[("tuned.safetensors", &names)]);
    write(scratch.path(), &whole);
    write(&at("base"), &model(false));
    pack(&at("base"), &at("packed")).unwrap();
    let input = at("tuned.safetensors");
    for base in [at("base"), at("base").join(INDEX), at("packed")] {
        let packed = at("tuned.z4dm");
        let report = pack_with(&input, std::slice::from_ref(&base), &packed);
        assert!(report.packed_bytes() * 10 < report.original_bytes());
        check(&packed, &[base], &input);
        std::fs::remove_file(packed).unwrap();
    }
}

#[test]
fn deltas_in_several_files_are_bases_too() {
    let (scratch, input) = scratch(&model(true));
    let at = |name: &str| scratch.path().join(name);
    let [_, (_, two), (_, moved)] = divisions();
    write(&at("two"), &two);
    write(&at("moved"), &moved);
    // `moved` as deltas against `two`, and the model against these.
    pack_with(&at("moved"), &[at("two")], &at("step"));
    let chain = [at("step"), at("two")];
    pack_with(&input, &chain, &at("last"));
    check(&at("last"), &chain, &input);
    let options = UnpackOptions::default().base(at("step"));
    let refused = zstn::unpack(&job(), at("last"), at("x"), &options).unwrap_err();
    assert!(matches!(refused, Error::NeedsBase { .. }), "{refused}");
    let options = with(
        UnpackOptions::default(),
        &[at("moved"), at("two")],
        UnpackOptions::base,
    );
    let refused = zstn::unpack(&job(), at("last"), at("x"), &options).unwrap_err();
    assert!(refused.to_string().contains("takes no base"), "{refused}");
}

#[test]
fn renamed_tensors_are_found_in_other_files_of_the_base() {
    let renamed = tensors(true).into_iter();
    let renamed: Vec<_> = renamed
        .map(|(name, bytes)| (format!("model.{name}.weight"), bytes))
        .collect();
    let base = tensors(false).into_iter();
    let base: Vec<_> = base
        .map(|(name, bytes)| (format!("{name}.weight"), bytes))
        .collect();
    let (a, b) = ("model-1-of-2.safetensors", "model-2-of-2.safetensors");
    let input = divided(
        &renamed,
        &[
            (a, &["model.head.weight", "model.norm.weight"]),
            (
                b,
                &[
                    "model.up.weight",
                    "model.extra.weight",
                    "model.embed.weight",
                ],
            ),
        ],
    );
    let base = divided(
        &base,
        &[
            (a, &["up.weight", "extra.weight"]),
            (b, &["embed.weight", "head.weight", "norm.weight"]),
        ],
    );
    let (scratch, input) = scratch(&input);
    let at = |name: &str| scratch.path().join(name);
    write(&at("base"), &base);
    let options = PackOptions::default().base(at("base")).extended(true);
    let report = zstn::pack(&job(), &input, at("packed"), &options).unwrap();
    let whole = report.files.iter().map(|file| match file.storage {
        Storage::Delta { whole, .. } => whole,
        _ => file.tensors,
    });
    // `norm` and `extra` are too short to be compared with tensors of other names.
    assert_eq!(whole.sum::<usize>(), 2);
    check(&at("packed"), &[at("base")], &input);
}

#[test]
fn damage_in_any_file_of_the_base_is_found() {
    let (scratch, input) = scratch(&model(true));
    let at = |name: &str| scratch.path().join(name);
    let [_, (_, two), _] = divisions();
    write(&at("base"), &two);
    pack_with(&input, &[at("base")], &at("packed"));
    for name in two.keys().filter(|name| name.ends_with(".safetensors")) {
        let mut damaged = two.clone();
        let bytes = damaged.get_mut(name).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        write(&at("base"), &damaged);
        let options = UnpackOptions::default().base(at("base"));
        let refused = zstn::unpack(&job(), at("packed"), at("x"), &options).unwrap_err();
        assert_eq!(rule(&refused), Some(Rule::DeltaReference), "{refused}");
        assert!(!at("x").exists());
    }
}
