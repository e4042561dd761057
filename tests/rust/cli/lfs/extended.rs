//! LFS objects with extension frames (docs/formats/extensions.md).

use std::path::Path;
use std::process::Command;

use serde_json::json;
use zstn_tests::command::text;
use zstn_tests::extended::{quantised, usual};
use zstn_tests::sha256;

use super::filter::filter_with;
use super::{Agent, download, folder_with_store, lfs, stored, upload, zstn_bytes_with};

#[test]
fn the_agent_writes_them_if_it_may_and_always_reads_them() {
    let folder = folder_with_store();
    let mut agent = Agent::ready(folder.path(), &["--store", "store", "--extended"]);
    let path = folder.path().join("object");
    for (model, version) in [(quantised(), 4), (usual(), 3)] {
        let reply = agent.transfer(&upload(&path, &model));
        assert_eq!(reply, json!({"event": "complete", "oid": sha256(&model)}));
        let object = std::fs::read(stored(&folder, &sha256(&model))).unwrap();
        assert_eq!(object[4], version);
        assert!(object == zstn_bytes_with(&model, true));
    }
    assert_eq!(agent.end(), (0, String::new()));
    let mut agent = Agent::ready(folder.path(), &["--store", "store"]);
    for model in [quantised(), usual()] {
        let reply = agent.transfer(&download(&model));
        let path = reply["path"].as_str().unwrap_or_else(|| panic!("{reply}"));
        assert!(std::fs::read(path).unwrap() == model);
    }
    assert_eq!(agent.end(), (0, String::new()));
}

#[test]
fn the_filter_writes_them_if_it_may_and_always_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    let model = quantised();
    let packed = filter_with(folder.path(), &["clean", "--extended"], &model);
    assert!(packed.status.success(), "{}", text(&packed.stderr));
    assert_eq!(packed.stdout[4], 4);
    assert!(packed.stdout == zstn_bytes_with(&model, true));
    let usual = filter_with(folder.path(), &["clean"], &model);
    assert_eq!(usual.stdout[4], 3);
    let back = filter_with(folder.path(), &["smudge"], &packed.stdout);
    assert!(back.status.success() && back.stdout == model);
}

/// Returns a git setting of the repository in `folder`.
fn setting(folder: &Path, name: &str) -> String {
    let mut git = Command::new("git");
    git.args(["config", "--get", name]).current_dir(folder);
    text(&git.output().unwrap().stdout).trim().to_owned()
}

#[test]
fn install_passes_the_option_on() {
    let folder = folder_with_store();
    let mut init = Command::new("git");
    init.args(["init", "--quiet"]).current_dir(folder.path());
    assert!(init.status().unwrap().success());
    let install = |arguments: &[&str]| {
        let arguments = [&["install"], arguments].concat();
        let out = lfs(folder.path(), &arguments).output().unwrap();
        assert!(out.status.success(), "{}", text(&out.stderr));
    };
    let (agent, clean) = ("lfs.customtransfer.zstn.args", "lfs.extension.zstn.clean");
    install(&["--store", "store", "--extended"]);
    let arguments = setting(folder.path(), agent);
    assert!(
        arguments.starts_with("lfs agent --extended --store "),
        "{arguments}"
    );
    install(&["--store", "store"]);
    assert!(setting(folder.path(), agent).starts_with("lfs agent --store "));
    install(&["--filter", "--extended"]);
    assert!(setting(folder.path(), clean).ends_with(" lfs filter clean --extended -- %f"));
    let smudge = setting(folder.path(), "lfs.extension.zstn.smudge");
    assert!(smudge.ends_with(" lfs filter smudge -- %f"));
}
