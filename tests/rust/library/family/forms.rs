//! Other forms of the input, such as its packed file, are not chosen as its base.

use super::*;

#[test]
fn a_checkpoint_is_not_its_own_base() {
    let folder = Folder::new();
    let base = Weights::new(1);
    folder.write("models/a.safetensors", &base.file("BF16"));
    folder.write(
        "models/b.safetensors",
        &base.tuned(2, 0.1, 0.01).file("BF16"),
    );
    let packed = PackOptions::default();
    zstn::pack(
        &job(),
        folder.at("models/b.safetensors"),
        folder.at("models/b.zstn"),
        &packed,
    )
    .unwrap();
    let choice = folder.choose("models/b.safetensors");
    assert_eq!(
        (base_of(&choice), choice.compared),
        (Some("a.safetensors"), 1)
    );
}

/// Creates a folder `one/y` with a single file and a folder `fam/x` with an index,
/// which contain the same weights.
fn folders() -> Folder {
    let folder = Folder::new();
    let weights = Weights::new(1);
    for name in ["one/y", "fam/x"] {
        std::fs::create_dir_all(folder.at(name)).unwrap();
        folder.write(&format!("{name}/model.safetensors"), &weights.file("BF16"));
    }
    let names = weights.0.iter();
    let map: Vec<String> = names
        .map(|(name, _)| format!("{name:?}:\"model.safetensors\""))
        .collect();
    let index = format!("{{\"weight_map\":{{{}}}}}", map.join(","));
    folder.write("fam/x/model.safetensors.index.json", index.as_bytes());
    folder
}

fn pack(folder: &Folder, input: &str, output: &str) {
    let options = PackOptions::default();
    zstn::pack(&job(), folder.at(input), folder.at(output), &options).unwrap();
}

#[test]
fn no_form_of_a_checkpoint_is_its_base() {
    let folder = folders();
    pack(&folder, "fam/x", "fam/x-zstn");
    pack(&folder, "one/y", "one/y-zstn");
    pack(&folder, "one/y/model.safetensors", "one/y/model.zstn");
    for (input, family) in [
        ("fam/x", "fam"),
        ("fam/x", "fam/x"),
        ("fam/x/model.safetensors.index.json", "fam"),
        ("fam/x/model.safetensors.index.json", "fam/x"),
        ("one/y", "one"),
        ("one/y", "one/y"),
        ("one/y/model.safetensors", "one"),
        ("one/y/model.safetensors", "one/y"),
    ] {
        let choice = family::choose(
            &job(),
            folder.at(input),
            folder.at(family),
            &FamilyOptions::default(),
        );
        let choice = choice.unwrap();
        assert_eq!(base_of(&choice), None, "{input} in {family}");
        assert_eq!(choice.compared, 0, "{input} in {family}");
        assert!(choice.left_out.is_empty(), "{input} in {family}");
    }
    // There is no base until another checkpoint with the same weights exists.
    let choice = family::choose(
        &job(),
        folder.at("one/y"),
        folder.at("one"),
        &FamilyOptions::default(),
    );
    assert!(choice.unwrap().base.is_none());
    folder.write("one/z.safetensors", &Weights::new(1).file("BF16"));
    let choice = family::choose(
        &job(),
        folder.at("one/y/model.safetensors"),
        folder.at("one"),
        &FamilyOptions::default(),
    );
    assert_eq!(base_of(&choice.unwrap()), Some("z.safetensors"));
}

#[test]
fn links_lead_to_the_same_checkpoint() {
    let folder = Folder::new();
    folder.write("new.safetensors", &Weights::new(1).file("BF16"));
    let link = std::fs::hard_link(
        folder.at("new.safetensors"),
        folder.at("models/other-name.safetensors"),
    );
    link.unwrap();
    let choice = folder.choose("new.safetensors");
    assert_eq!((base_of(&choice), choice.compared), (None, 0));
}

#[test]
fn excluded_checkpoints_are_no_bases_in_any_form() {
    let folder = Folder::new();
    let base = Weights::new(1);
    folder.write("models/a.safetensors", &base.file("BF16"));
    pack(&folder, "models/a.safetensors", "models/a.zstn");
    folder.write("new.safetensors", &base.tuned(2, 0.1, 0.01).file("BF16"));
    assert_eq!(
        base_of(&folder.choose("new.safetensors")),
        Some("a.safetensors")
    );
    let options = FamilyOptions::default().exclude(folder.at("models/a.safetensors"));
    let choice = folder.choose_with("new.safetensors", &options).unwrap();
    assert_eq!((base_of(&choice), choice.compared), (None, 0));
    assert_eq!(choice.excluded, 2);
}

#[test]
fn a_checkpoint_next_to_its_difference_is_no_base() {
    let folder = folders();
    let base = Weights::new(1);
    folder.write("models/a.safetensors", &base.file("BF16"));
    folder.write("new.safetensors", &base.tuned(2, 0.1, 0.01).file("BF16"));
    let against = PackOptions::default().base(folder.at("new.safetensors"));
    let (from, to) = (
        folder.at("models/a.safetensors"),
        folder.at("models/a.z4dm"),
    );
    zstn::pack(&job(), from, to, &against).unwrap();
    let choice = folder.choose("new.safetensors");
    assert_eq!((base_of(&choice), choice.compared), (None, 0));
    let reason = &choice
        .left_out
        .iter()
        .find(|(name, _)| name == "a.safetensors");
    let reason = &reason.unwrap().1;
    assert!(reason.contains("in the same folder"), "{reason}");
    // The packed file contains all of its weights, so it can be the base.
    pack(&folder, "models/a.safetensors", "models/a.zstn");
    assert_eq!(base_of(&folder.choose("new.safetensors")), Some("a.zstn"));
    // The same rule applies to folders.
    std::fs::create_dir(folder.at("other")).unwrap();
    folder.write(
        "other/model.safetensors",
        &base.tuned(3, 0.1, 0.01).file("BF16"),
    );
    let choose = || {
        let options = FamilyOptions::default();
        family::choose(&job(), folder.at("other"), folder.at("one"), &options).unwrap()
    };
    assert_eq!(base_of(&choose()), Some("y"));
    let against = PackOptions::default().base(folder.at("other"));
    zstn::pack(
        &job(),
        folder.at("one/y"),
        folder.at("one/y-z4dm"),
        &against,
    )
    .unwrap();
    assert_eq!(base_of(&choose()), None);
}
