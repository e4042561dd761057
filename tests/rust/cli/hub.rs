//! `hf://` addresses, and the user's token.

use std::path::Path;
use std::process::Command;

use zstn_tests::command::{program, text};
use zstn_tests::hub::Hub;

use super::vector;

const TOKEN: &str = "hf_a-secret-token";
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// Runs a command with these environment variables, without the hub settings of this
/// process.
fn zstn(home: &Path, hub: &Hub, variables: &[(&str, &str)], arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new(program());
    for (name, _) in std::env::vars_os() {
        let is_of_hub = name.to_str().is_some_and(|name| name.starts_with("HF_"));
        if is_of_hub || name == "HUGGING_FACE_HUB_TOKEN" || name == "XDG_CACHE_HOME" {
            command.env_remove(name);
        }
    }
    let out = command
        .env("HOME", home)
        .env("USERPROFILE", home) // home folder on Windows
        .env("HF_ENDPOINT", format!("{}/", hub.endpoint()))
        .envs(variables.iter().copied())
        .args(arguments)
        .current_dir(home)
        .output()
        .unwrap();
    let said = text(&out.stdout) + &text(&out.stderr);
    assert!(!said.contains(TOKEN), "{said}");
    (out.status.code().unwrap_or(-1), said)
}

/// Returns a hub with a packed model that requires the token.
fn hub() -> Hub {
    let hub = Hub::start();
    let files: [(&str, &[u8]); 1] = [("m.zstn", &vector("float_weights.zstn"))];
    hub.add("o/n", "main", COMMIT, &files);
    hub.add("o/n", COMMIT, COMMIT, &files);
    hub.server.demand(&format!("Bearer {TOKEN}"));
    hub
}

#[test]
fn every_verb_reads_a_file_in_a_hub() {
    let hub = hub();
    let home = tempfile::tempdir().unwrap();
    for arguments in [
        &["ls"][..],
        &["info", "--json"],
        &["verify"],
        &["unpack"],
        &["convert", "--to", "zt", "-o", "m.zt"],
        &["compress", "-o", "m.z4ai"],
    ] {
        let arguments = [arguments, &["hf://o/n/m.zstn"]].concat();
        let (status, said) = zstn(home.path(), &hub, &[("HF_TOKEN", TOKEN)], &arguments);
        assert_eq!(status, 0, "{arguments:?}: {said}");
    }
    // The result is in the current directory, under the file's name.
    assert!(home.path().join("m.safetensors").exists());
    let arguments = ["ls", "hf://o/n@/m.zstn"];
    let (status, said) = zstn(home.path(), &hub, &[], &arguments);
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("hf://OWNER/NAME@REVISION/FILE"), "{said}");
}

#[test]
fn the_token_is_where_the_tools_of_the_hub_keep_it() {
    let hub = hub();
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name).display().to_string();
    for (path, text) in [
        ("own/token", TOKEN),
        ("moved", &format!(" {TOKEN}\n")),
        ("caches/huggingface/token", TOKEN),
        ("blank", " \n"),
        ("wrong", "hf_another"),
    ] {
        let path = home.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let (own, moved, caches) = (at("own"), at("moved"), at("caches"));
    let (blank, wrong, missing) = (at("blank"), at("wrong"), at("missing"));
    let run = |variables: &[(&str, &str)], expected: i32| {
        let (status, said) = zstn(home.path(), &hub, variables, &["ls", "hf://o/n/m.zstn"]);
        assert_eq!(status, expected, "{variables:?}: {said}");
        said
    };
    run(&[], 3);
    for variables in [
        &[("HF_TOKEN", TOKEN)][..],
        &[("HF_TOKEN", TOKEN), ("HF_TOKEN_PATH", &wrong)],
        &[("HF_TOKEN", ""), ("HF_TOKEN_PATH", &moved)],
        &[("HF_TOKEN", " "), ("HF_TOKEN_PATH", &moved)],
        &[("HF_TOKEN_PATH", &moved), ("HF_HOME", &missing)],
        &[("HF_TOKEN_PATH", "~/moved")],
        &[("HF_HOME", &own)],
        &[("XDG_CACHE_HOME", &caches)],
        &[("HF_TOKEN", TOKEN), ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "0")],
    ] {
        run(variables, 0);
    }
    for variables in [
        &[("HF_TOKEN_PATH", &*wrong)][..],
        &[("HF_TOKEN_PATH", &wrong), ("HF_HOME", &own)],
        &[("HF_TOKEN_PATH", &blank), ("HF_HOME", &own)],
        &[("HF_TOKEN_PATH", &missing)],
        // A folder cannot be read as a token file.
        &[("HF_TOKEN_PATH", &own)],
    ] {
        run(variables, 3);
    }
    let said = run(
        &[("HF_TOKEN", TOKEN), ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")],
        3,
    );
    assert!(said.contains("HF_HUB_DISABLE_IMPLICIT_TOKEN"), "{said}");
    // An empty token file counts as no token, so no token is sent.
    hub.server.expect_rounds(&[]);
    run(&[("HF_TOKEN_PATH", &blank)], 3);
    let requests = hub.server.finished_rounds();
    assert_eq!(requests[0].header("authorization"), None);
    // The default token file is in the user's home directory.
    let folder = home.path().join(".cache/huggingface");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("token"), TOKEN).unwrap();
    run(&[], 0);
    let header = "Authorization: Bearer hf_another";
    let arguments = ["ls", "hf://o/n/m.zstn", "--header", header];
    assert_eq!(zstn(home.path(), &hub, &[], &arguments).0, 3);
}

#[test]
fn the_address_of_the_hub_is_checked() {
    let hub = hub();
    let home = tempfile::tempdir().unwrap();
    let arguments = ["ls", "hf://o/n/m.zstn"];
    let (status, said) = zstn(
        home.path(),
        &hub,
        &[("HF_ENDPOINT", "hub.example")],
        &arguments,
    );
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("https://huggingface.co"), "{said}");
}
