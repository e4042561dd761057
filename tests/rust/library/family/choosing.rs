//! Which member of a family is chosen as the base.

use zstn::Input;

use super::*;

#[test]
fn the_nearest_of_several_is_chosen() {
    let folder = Folder::new();
    let (base, other) = (Weights::new(1), Weights::new(2));
    let tuned = base.tuned(3, 1.0, 0.02);
    let later = tuned.tuned(4, 0.3, 0.002);
    folder.write("models/a-unrelated.safetensors", &other.file("BF16"));
    folder.write("models/b-base.safetensors", &base.file("BF16"));
    folder.write("models/c-tuned.safetensors", &tuned.file("BF16"));
    // The same weights in another dtype, from which only extended deltas are computed.
    folder.write("models/d-f32.safetensors", &tuned.file("F32"));
    folder.write("models/README.md", b"# models");
    folder.write("new.safetensors", &later.file("BF16"));
    let choice = folder.choose("new.safetensors");
    assert_eq!(base_of(&choice), Some("c-tuned.safetensors"));
    assert_eq!((choice.compared, choice.left_out.len()), (4, 0));
    let extended = FamilyOptions::default().extended(true);
    let near = folder.choose_with("new.safetensors", &extended).unwrap();
    assert_eq!(base_of(&near), Some("c-tuned.safetensors"));
    // Without the closest member, the base of both is chosen.
    std::fs::remove_file(folder.at("models/c-tuned.safetensors")).unwrap();
    let rounded = folder.choose_with("new.safetensors", &extended).unwrap();
    assert_eq!(base_of(&rounded), Some("d-f32.safetensors"));
    let estimates = [&near, &rounded].map(|choice| choice.base.as_ref().unwrap().estimate);
    assert_eq!(estimates[0], estimates[1]);
    let choice = folder.choose("new.safetensors");
    assert_eq!(base_of(&choice), Some("b-base.safetensors"));
    let packed = folder.pack("new.safetensors", "new.z4dm", &choice);
    assert!(packed < choice.plain.packed_bytes * 9 / 10);
    // A packed base works as well.
    zstn::pack(
        &job(),
        folder.at("models/b-base.safetensors"),
        folder.at("models/b-base.zstn"),
        &PackOptions::default(),
    )
    .unwrap();
    std::fs::remove_file(folder.at("models/b-base.safetensors")).unwrap();
    let again = folder.choose("new.safetensors");
    assert_eq!(base_of(&again), Some("b-base.zstn"));
    assert_eq!(again.base.unwrap().estimate, choice.base.unwrap().estimate);
}

#[test]
fn only_a_safetensors_file_needs_a_base_of_its_own_format() {
    let folder = Folder::new();
    let old = Weights::new(1);
    let new = old.tuned(2, 1.0, 0.01);
    folder.write("new.gguf", &new.gguf());
    folder.write("models/unrelated.safetensors", &Weights::new(3).file("F32"));
    let choice = folder.choose("new.gguf");
    assert_eq!((base_of(&choice), choice.compared), (None, 1));
    let alone = folder.pack("new.gguf", "new.gguf.zstn", &choice);
    folder.write("models/old.safetensors", &old.renamed().file("F32"));
    folder.write("old.gguf", &old.gguf());
    for base in ["old.safetensors", "old.gguf.zstn"] {
        let choice = folder.choose("new.gguf");
        assert_eq!(base_of(&choice), Some(base));
        let expected = choice.base.as_ref().unwrap().estimate.packed_bytes;
        let packed = folder.pack("new.gguf", "new.gguf.z4dm", &choice);
        assert!(packed < alone * 9 / 10, "{packed} of {alone} bytes");
        assert!(
            packed.abs_diff(expected) < expected / 5,
            "{packed}, {expected}"
        );
        if base == "old.safetensors" {
            // Equally good, and the first by name.
            let packed = folder.at("models/old.gguf.zstn");
            let options = PackOptions::default();
            zstn::pack(&job(), folder.at("old.gguf"), packed, &options).unwrap();
        }
    }
    std::fs::remove_file(folder.at("models/old.safetensors")).unwrap();
    folder.write("new.safetensors", &new.file("F32"));
    let choice = folder.choose("new.safetensors");
    assert_eq!((base_of(&choice), choice.compared), (None, 1));
    let [(name, reason)] = &choice.left_out[..] else {
        panic!("{:?}", choice.left_out);
    };
    assert_eq!(name, "old.gguf.zstn");
    assert!(reason.contains("another format"), "{reason}");
    folder.pack("new.safetensors", "new.zstn", &choice);
}

#[test]
fn no_base_is_chosen_among_unrelated_ones() {
    let folder = Folder::new();
    folder.write("new.safetensors", &Weights::new(1).file("BF16"));
    let choice = folder.choose("new.safetensors");
    assert_eq!((base_of(&choice), choice.compared), (None, 0));
    for seed in 2..5 {
        let name = format!("models/{seed}.safetensors");
        folder.write(&name, &Weights::new(seed).file("BF16"));
    }
    let other = checkpoint(&[("x", "U8", &[7; 500])]);
    folder.write("models/other.safetensors", &other);
    let choice = folder.choose("new.safetensors");
    assert_eq!((base_of(&choice), choice.compared), (None, 4));
    let packed = folder.pack("new.safetensors", "new.zstn", &choice);
    let expected = choice.plain.packed_bytes;
    assert!(
        packed.abs_diff(expected) < expected / 20,
        "{packed}, {expected}"
    );
}

#[test]
fn of_equal_ones_the_first_name_is_chosen() {
    let folder = Folder::new();
    let base = Weights::new(1);
    for name in ["c", "b", "d"] {
        folder.write(&format!("models/{name}.safetensors"), &base.file("BF16"));
    }
    folder.write("new.safetensors", &base.tuned(2, 0.1, 0.01).file("BF16"));
    for _ in 0..3 {
        assert_eq!(
            base_of(&folder.choose("new.safetensors")),
            Some("b.safetensors")
        );
    }
}

#[test]
fn members_that_cannot_be_compared_are_named_with_the_reason() {
    let folder = Folder::new();
    let base = Weights::new(1);
    for name in ["damaged", "good", "stale"] {
        folder.write(&format!("models/{name}.safetensors"), &base.file("BF16"));
    }
    folder.write("models/broken.zstn", b"ZSTN and nothing else");
    folder.write("models/unknown.z4dm", b"Z4DM");
    folder.write("models/damaged.sketch", b"ZSTNSKCH?");
    folder.write("models/m.safetensors.index.json", b"{}");
    // The sketch belongs to another checkpoint and describes more than the file
    // contains.
    folder.write("new.safetensors", &base.tuned(2, 0.1, 0.01).file("BF16"));
    folder.write("other.safetensors", &checkpoint(&[("x", "U8", &[1; 100])]));
    folder.sketch("new.safetensors", &[]);
    std::fs::copy(folder.at("new.sketch"), folder.at("models/stale.sketch")).unwrap();
    folder.write(
        "models/stale.safetensors",
        &checkpoint(&[("x", "U8", &[1; 100])]),
    );
    let choice = folder.choose("new.safetensors");
    assert_eq!(base_of(&choice), Some("good.safetensors"));
    for (name, part) in [
        ("broken.zstn", "broken.zstn: "),
        ("damaged.safetensors", "version"),
        ("m.safetensors.index.json", "weight_map"),
        ("stale.safetensors", "make it again"),
        ("unknown.z4dm", "without a sketch"),
    ] {
        let reason = choice
            .left_out
            .iter()
            .find(|(left_out, _)| left_out == name);
        let reason = &reason
            .unwrap_or_else(|| panic!("{name}: {:?}", choice.left_out))
            .1;
        assert!(reason.contains(part), "{name}: {reason}");
    }
    assert_eq!(choice.left_out.len(), 5);
    // Members that turn out to be unusable count only as left out.
    assert_eq!(choice.compared, 1);
}

#[test]
fn sketches_are_saved_when_asked_for_and_then_used() {
    let folder = Folder::new();
    let base = Weights::new(1);
    folder.write("models/a.safetensors", &base.file("BF16"));
    folder.write("new.safetensors", &base.tuned(2, 0.1, 0.01).file("BF16"));
    let names = || std::fs::read_dir(folder.at("models")).unwrap().count();
    let first = folder.choose("new.safetensors");
    assert_eq!((names(), first.saved.len()), (1, 0));
    let save = FamilyOptions::default().save_sketches(true);
    let choice = folder.choose_with("new.safetensors", &save).unwrap();
    assert_eq!(choice.saved, [folder.at("models/a.sketch")]);
    let file = std::fs::read(folder.at("models/a.sketch")).unwrap();
    let saved = Sketch::parse(&engine(), &file).unwrap();
    assert_eq!(saved, sketch_of(&folder.at("models/a.safetensors")));
    let again = folder.choose_with("new.safetensors", &save).unwrap();
    assert!(again.saved.is_empty());
    assert_eq!(again.base.unwrap().estimate, first.base.unwrap().estimate);
}

#[test]
fn a_base_with_the_same_shards_is_preferred_to_others() {
    let folder = Folder::new();
    let base = Weights::new(1);
    let write = |name: &str, weights: &Weights| {
        std::fs::create_dir_all(folder.at(name)).unwrap();
        let (first, second) = weights.0.split_at(2);
        let mut map = Vec::new();
        for (number, part) in [first, second].into_iter().enumerate() {
            let file = format!("model-{number}.safetensors");
            for (tensor, _) in part {
                map.push(format!("{tensor:?}:{file:?}"));
            }
            folder.write(
                &format!("{name}/{file}"),
                &Weights(part.to_vec()).file("BF16"),
            );
        }
        let index = format!("{{\"weight_map\":{{{}}}}}", map.join(","));
        folder.write(
            &format!("{name}/model.safetensors.index.json"),
            index.as_bytes(),
        );
    };
    write("models/base", &base);
    write("models/far", &Weights::new(9));
    folder.write("models/whole.safetensors", &base.file("BF16"));
    write("new", &base.tuned(2, 0.2, 0.01));
    let choice = folder.choose("new");
    assert_eq!((base_of(&choice), choice.compared), (Some("base"), 3));
    assert!(choice.left_out.is_empty());
    let packed = folder.pack("new", "new-z4dm", &choice);
    let expected = choice.base.unwrap().estimate.packed_bytes;
    assert!(
        packed.abs_diff(expected) < packed / 5,
        "{packed}, {expected}"
    );
    assert!(folder.at("new-z4dm/model-1.z4dm").exists());
    // In another division, it is still better than another model.
    std::fs::remove_dir_all(folder.at("models/base")).unwrap();
    let choice = folder.choose("new");
    assert_eq!(
        (base_of(&choice), choice.compared),
        (Some("whole.safetensors"), 2)
    );
    let again = folder.pack("new", "again-z4dm", &choice);
    assert!(again.abs_diff(packed) < packed / 50, "{again}, {packed}");
    write("models/base", &base);
    // The family itself is a folder with an index.
    let choice = family::choose(
        &job(),
        folder.at("new/model.safetensors.index.json"),
        folder.at("models/base"),
        &FamilyOptions::default(),
    );
    let choice = choice.unwrap();
    assert_eq!(base_of(&choice), Some("model.safetensors.index.json"));
    assert_eq!(choice.compared, 1);
}

#[test]
fn what_cannot_be_a_family_or_a_target_is_refused() {
    let folder = Folder::new();
    folder.write("new.safetensors", &Weights::new(1).file("BF16"));
    let options = FamilyOptions::default();
    let choose = |input: Input, family: zstn::Location| {
        family::choose(&job(), input, family, &options)
            .unwrap_err()
            .to_string()
    };
    let models = zstn::Location::from(folder.at("models"));
    let target: Input = folder.at("new.safetensors").into();
    let refusal = choose(
        target.clone(),
        zstn::Location::url("https://localhost/models/"),
    );
    assert!(refusal.contains("cannot be listed"), "{refusal}");
    let refusal = choose(target, zstn::Location::from(folder.at("missing")));
    assert!(refusal.contains("missing"), "{refusal}");
    let refusal = choose(zstn::Location::Stdin.into(), models);
    assert!(refusal.contains("read only once"), "{refusal}");
}

#[test]
fn a_sketch_that_cannot_be_saved_is_used_all_the_same() {
    let folder = Folder::new();
    let base = Weights::new(1);
    folder.write("models/a.safetensors", &base.file("BF16"));
    folder.write("new.safetensors", &base.tuned(2, 0.1, 0.01).file("BF16"));
    std::fs::create_dir(folder.at("models/a.sketch")).unwrap();
    let save = FamilyOptions::default().save_sketches(true);
    let choice = folder.choose_with("new.safetensors", &save).unwrap();
    assert_eq!(
        (base_of(&choice), choice.compared, choice.saved.len()),
        (Some("a.safetensors"), 1, 0)
    );
    assert!(choice.left_out.is_empty(), "{:?}", choice.left_out);
    assert_eq!(choice.unsaved[0].0, "a.safetensors");
}

/// Returns `weights` with another prefix, and with more rows in the first tensor.
fn renamed_and_grown(weights: &Weights) -> Weights {
    let mut changed = weights.clone();
    for (name, _) in &mut changed.0 {
        *name = format!("language_model.{name}");
    }
    let more = Weights::new(9).0.swap_remove(1).1;
    changed.0[0].1.extend(&more[..1000]);
    changed
}

#[test]
fn extended_deltas_have_renamed_and_grown_tensors_of_their_base() {
    let folder = Folder::new();
    let base = Weights::new(1);
    folder.write("models/base.safetensors", &base.file("BF16"));
    let other = Weights::new(2).file("BF16");
    folder.write("models/another.safetensors", &other);
    let tuned = renamed_and_grown(&base.tuned(3, 1.0, 0.01));
    folder.write("new.safetensors", &tuned.file("BF16"));
    let plain = folder.choose("new.safetensors");
    assert_eq!((base_of(&plain), plain.compared), (None, 2));
    let options = FamilyOptions::default().extended(true);
    let choice = folder.choose_with("new.safetensors", &options).unwrap();
    assert_eq!(base_of(&choice), Some("base.safetensors"));
    let expected = choice.base.as_ref().unwrap().estimate;
    assert_eq!((expected.differing_tensors, expected.whole_tensors), (6, 0));
    let packing = choice.add_to(PackOptions::default().extended(true));
    let (input, output) = (folder.at("new.safetensors"), folder.at("new.z4dm"));
    let report = zstn::pack(&job(), input, output, &packing).unwrap();
    let (packed, expected) = (report.packed_bytes(), expected.packed_bytes);
    assert!(
        packed.abs_diff(expected) < packed / 8 && packed < plain.plain.packed_bytes * 2 / 3,
        "{packed}, {expected}"
    );
}

#[test]
fn the_sources_of_a_merge_are_chosen_together() {
    let folder = Folder::new();
    let base = Weights::new(1);
    let tuned = [2, 3].map(|seed| base.tuned(seed, 1.0, 0.05));
    folder.write("models/base.safetensors", &base.file("BF16"));
    folder.write(
        "models/unrelated.safetensors",
        &Weights::new(9).file("BF16"),
    );
    for (name, weights) in ["code", "math"].iter().zip(&tuned) {
        folder.write(&format!("models/{name}.safetensors"), &weights.file("BF16"));
    }
    let mut merged = base.clone();
    let mut arithmetic = base.clone();
    for (number, (_, values)) in merged.0.iter_mut().enumerate() {
        for (place, value) in values.iter_mut().enumerate() {
            let stored =
                |weights: &Weights| half::bf16::from_f32(weights.0[number].1[place]).to_f32();
            let [base, code, math] = [&base, &tuned[0], &tuned[1]].map(stored);
            *value = code * 0.4 + math * 0.6;
            arithmetic.0[number].1[place] = base + 0.7 * (code - base) + 0.5 * (math - base);
        }
    }
    for (name, weights, sources) in [
        ("merged", &merged, &["code", "math"][..]),
        ("arithmetic", &arithmetic, &["base", "code", "math"]),
    ] {
        let input = format!("{name}.safetensors");
        folder.write(&input, &weights.file("BF16"));
        let choice = folder.choose(&input);
        let found = choice.base.clone().unwrap();
        let mut names: Vec<String> = found
            .chain
            .iter()
            .map(|one| one.file_name().unwrap())
            .collect();
        names.sort();
        let expected: Vec<String> = sources
            .iter()
            .map(|one| format!("{one}.safetensors"))
            .collect();
        assert_eq!((names, found.sources), (expected, sources.len()), "{name}");
        let packed = folder.pack(&input, &format!("{name}.z4dm"), &choice);
        assert!(packed * 20 < choice.plain.packed_bytes, "{name}: {packed}");
        let error = packed.abs_diff(found.estimate.packed_bytes);
        assert!(
            error < choice.plain.packed_bytes / 50,
            "{name}: {found:?}, {packed}"
        );
    }
    // A fine-tune of one of them is not a merge.
    folder.write(
        "new.safetensors",
        &tuned[0].tuned(7, 1.0, 0.02).file("BF16"),
    );
    let choice = folder.choose("new.safetensors");
    assert_eq!(base_of(&choice), Some("code.safetensors"));
}

#[test]
fn equal_tensors_of_several_checkpoints_are_found() {
    let folder = Folder::new();
    let (language, vision) = (Weights::new(1), Weights::new(2));
    // More checkpoints than are combined are nearer than the one with the vision tower.
    for seed in 10..20 {
        let sibling = language.tuned(seed, 1.0, 0.02);
        folder.write(&format!("models/{seed}.safetensors"), &sibling.file("BF16"));
    }
    folder.write("models/language.safetensors", &language.file("BF16"));
    let mut tower = Weights(vision.0[1..5].to_vec());
    for (name, _) in &mut tower.0 {
        *name = name.replace("layer", "encoder.block");
    }
    folder.write("models/tower.safetensors", &tower.file("BF16"));
    let mut both = language.tuned(3, 0.1, 0.01);
    for (name, _) in &mut both.0 {
        *name = format!("language_model.{name}");
    }
    both.0.extend(tower.0.iter().map(|(name, values)| {
        let name = format!("vision_tower.{name}");
        (name, values.clone())
    }));
    folder.write("new.safetensors", &both.file("BF16"));
    let choice = folder.choose("new.safetensors");
    let found = choice.base.clone().expect("a base");
    assert_eq!(found.sources, 2, "{found:?}");
    let mut names = found.chain.iter().map(|one| one.file_name().unwrap());
    assert!(names.any(|name| name == "tower.safetensors"), "{found:?}");
    assert_eq!(found.estimate.equal_tensors, tower.0.len());
    let packed = folder.pack("new.safetensors", "new.z4dm", &choice);
    let plain = choice.plain.packed_bytes;
    assert!(packed * 2 < plain, "{packed}, {plain}");
    assert!(packed.abs_diff(found.estimate.packed_bytes) < plain / 50);
}
