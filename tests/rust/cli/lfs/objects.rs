//! Intact and damaged objects in a store.

use serde_json::json;
use zstn_tests::{many_kinds, sha256};

use super::{Agent, download, folder_with_store, stored, unfinished, upload, zstn_bytes};

/// Returns the names of an agent's unfinished files.
fn made(folder: &tempfile::TempDir) -> Vec<String> {
    let entries = std::fs::read_dir(unfinished(folder.path())).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != "lock").collect()
}

#[test]
fn objects_come_back_bit_for_bit() {
    let folder = folder_with_store();
    let model = many_kinds(300_000);
    let packed = zstn_bytes(&model);
    let objects: [&[u8]; 9] = [
        &model,
        &model[..200_000],
        &packed,
        b"",
        b"x",
        b"ZSTN",
        b"ZLFS",
        b"ZLFS\x01\0\0\0",
        b"text",
    ];
    let mut agent = Agent::ready(folder.path(), &["--store", "store"]);
    for bytes in objects {
        let path = folder.path().join("object");
        let reply = agent.transfer(&upload(&path, bytes));
        assert_eq!(reply, json!({"event": "complete", "oid": sha256(bytes)}));
        assert!(std::fs::read(&path).unwrap() == bytes);
    }
    for bytes in objects {
        let reply = agent.transfer(&download(bytes));
        let path = reply["path"].as_str().unwrap_or_else(|| panic!("{reply}"));
        assert!(std::fs::read(path).unwrap() == bytes);
        std::fs::remove_file(path).unwrap();
    }
    let first = std::fs::read(stored(&folder, &sha256(&model))).unwrap();
    assert!(first.starts_with(b"ZSTN") && first.len() < model.len());
    assert_eq!(agent.end(), (0, String::new()));
    // Only the store and the uploaded file remain.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn damaged_objects_are_named() {
    let folder = folder_with_store();
    let model = many_kinds(100_000);
    let packed = zstn_bytes(&model);
    let path = stored(&folder, &sha256(&model));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut agent = Agent::ready(folder.path(), &["--store", "store"]);
    let mut flipped = packed.clone();
    flipped[packed.len() / 2] ^= 1;
    let other = zstn_bytes(&many_kinds(90_000));
    let longer = [&model[..], &[0; 9]].concat();
    let changed = [&model[..model.len() - 1], b"?"].concat();
    let envelope = [b"ZLFS\x01\0\0\0", &changed[..]].concat();
    for (damaged, reason) in [
        (&flipped[..], ""),
        (&packed[..packed.len() / 2], ""),
        (b"ZSTN", ""),
        (&changed, "have the SHA-256"),
        (&envelope, "have the SHA-256"),
    ] {
        std::fs::write(&path, damaged).unwrap();
        let said = agent.fails(&download(&model));
        assert!(
            said.contains(" is damaged: ") && said.contains(reason),
            "{said}"
        );
        assert!(said.contains("git lfs push --object-id"), "{said}");
    }
    // These objects may be intact while the pointer is wrong.
    for (other, reason) in [
        (&other[..], "bytes instead of"),
        (&longer, "more than the original"),
        (&model[1..], "bytes instead of"),
        (b"", "bytes instead of"),
    ] {
        std::fs::write(&path, other).unwrap();
        let said = agent.fails(&download(&model));
        assert!(said.contains("does not match its pointer"), "{said}");
        assert!(said.contains(reason), "{said}");
    }
    // This object is intact, so the message must not suggest deleting it.
    std::fs::write(&path, b"ZLFS\x02\0\0\0").unwrap();
    let said = agent.fails(&download(&model));
    assert!(said.contains("use a newer one"), "{said}");
    assert!(
        !said.contains("damaged") && !said.contains("delete"),
        "{said}"
    );
    // The failed downloads left no files in the folder for unfinished files.
    assert_eq!(made(&folder), Vec::<String>::new());
    std::fs::write(&path, &packed).unwrap();
    assert!(agent.transfer(&download(&model))["error"].is_null());
    // An existing object is not sent again, but it must restore the original, because
    // git-lfs may then prune the local copy.
    let local = folder.path().join("object");
    let restored = made(&folder);
    assert!(agent.transfer(&upload(&local, &model))["error"].is_null());
    for damaged in [b"damaged", &flipped[..], &changed, &other] {
        std::fs::write(&path, damaged).unwrap();
        let said = agent.fails(&upload(&local, &model));
        assert!(said.contains("git lfs push --object-id"), "{said}");
        assert!(std::fs::read(&path).unwrap() == damaged);
    }
    assert_eq!(made(&folder), restored);
    assert_eq!(agent.end(), (0, String::new()));
}
