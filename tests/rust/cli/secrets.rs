//! Passwords, signatures and tokens never appear in the output of any command.

use std::path::Path;
use std::process::{Command, Stdio};

use zstn_tests::command::{program, text};
use zstn_tests::round_server::{Page, RoundServer};
use zstn_tests::upload_server::{UploadServer, take};

use crate::network_options::{VERBS, files};

/// The password as it is sent, the password as written in a URL, and the secret in the
/// query.
const PASSWORD: &str = "pass:w@rd-1234";
const WRITTEN: &str = "pass%3Aw%40rd-1234";
const SIGNATURE: &str = "0a1b2c3d4e5f-signature";
const TOKEN: &str = "hf_a-secret-token";
/// `user:pass:w@rd-1234` in base64.
const BASIC: &str = "Basic dXNlcjpwYXNzOndAcmQtMTIzNA==";

/// Runs a command, and returns its status and all of its output. Checks that neither
/// the output nor any written file contains a secret.
fn run(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let out = Command::new(program())
        .args(arguments)
        .current_dir(folder)
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = text(&out.stderr) + &text(&out.stdout);
    let secrets = [PASSWORD, WRITTEN, SIGNATURE, TOKEN, BASIC, &BASIC[6..]];
    for secret in secrets {
        assert!(
            !said.contains(secret),
            "{arguments:?} shows {secret}: {said}"
        );
    }
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if let Ok(bytes) = std::fs::read(&path) {
            let found = text(&bytes);
            for secret in secrets {
                assert!(!found.contains(secret), "{arguments:?}: {}", path.display());
            }
        }
    }
    (out.status.code(), said)
}

/// Returns the URL of a file on a server, with every type of secret that a URL can
/// have.
fn secret_address(server: &str, file: &str) -> String {
    let host = server.trim_start_matches("http://");
    format!("http://user:{WRITTEN}@{host}{file}?X-Amz-Signature={SIGNATURE}#{SIGNATURE}")
}

#[test]
fn no_verb_shows_the_secrets_of_an_address() {
    let folder = files();
    let gone = "http://127.0.0.1:9/".to_owned();
    for (verb, file, more) in VERBS {
        let page = Page::File(std::fs::read(folder.path().join(file)).unwrap());
        let elsewhere = format!("http://user:{WRITTEN}@127.0.0.1:9/x?sig={SIGNATURE}");
        let echo = format!("X-Error-Message: Signature {SIGNATURE} of {elsewhere} is wrong");
        for (page, expected) in [
            (Some(page), Some(0)),
            (None, Some(3)),
            (Some(Page::Redirect(elsewhere.clone())), Some(3)),
            (
                Some(Page::Redirect(format!("ftp://u:{WRITTEN}@h/?{SIGNATURE}"))),
                Some(3),
            ),
            (
                Some(Page::Redirect(format!("http://u:{WRITTEN}@:/?{SIGNATURE}"))),
                Some(3),
            ),
            (
                Some(Page::Answer("403 Forbidden", vec![echo.clone()])),
                Some(3),
            ),
            (Some(Page::File(b"not a checkpoint".repeat(9))), None),
        ] {
            let server = RoundServer::start();
            let is_right = expected == Some(0);
            if is_right {
                server.demand(BASIC);
            }
            if let Some(page) = page {
                server.add(file, page);
            }
            let address = secret_address(&server.url, file);
            for json in [&[][..], &["--json"]] {
                let scratch = tempfile::tempdir().unwrap();
                let arguments = [&[verb, &address], more, &["--retries", "0"], json].concat();
                let (status, said) = run(scratch.path(), &arguments, &[]);
                match expected {
                    Some(expected) => assert_eq!(status, Some(expected), "{arguments:?}: {said}"),
                    None => assert_ne!(status, Some(101), "{arguments:?}: {said}"),
                }
            }
        }
        let scratch = tempfile::tempdir().unwrap();
        for address in [
            secret_address(&gone, file),
            format!("http://user:{WRITTEN}@h:port/x?{SIGNATURE}"),
            format!("http://user:pa/ss{WRITTEN}@h/x?{SIGNATURE}"),
            format!("foo://user:{WRITTEN}@h/x?{SIGNATURE}"),
            format!("s3://user:{WRITTEN}@b/x?sig={SIGNATURE}"),
            format!("hf://user:{WRITTEN}@h/x?sig={SIGNATURE}"),
            format!("file://user:{WRITTEN}@h/x?sig={SIGNATURE}"),
        ] {
            for json in [&[][..], &["--json"]] {
                let more = [more, &["--retries", "0"], json].concat();
                let endpoint = ("HF_ENDPOINT", "http://127.0.0.1:9");
                let (status, said) = run(
                    scratch.path(),
                    &[&[verb, &address], &more[..]].concat(),
                    &[endpoint],
                );
                assert!(matches!(status, Some(2 | 3)), "{verb} {address}: {said}");
                // clap quotes arguments that it does not understand.
                let more = [&more[..], &["--nonsense", &address]].concat();
                run(
                    scratch.path(),
                    &[&[verb, &address], &more[..]].concat(),
                    &[endpoint],
                );
                let flag = format!("--nonsense={address}");
                run(scratch.path(), &[verb, &flag], &[endpoint]);
            }
        }
    }
}

#[test]
fn no_verb_shows_the_secrets_of_an_output() {
    let folder = files();
    for arguments in [
        &["pack", "m.safetensors"][..],
        &["unpack", "m.zstn"],
        &["convert", "m.zstn", "--to", "zt"],
        &["compress", "m.safetensors"],
        &["decompress", "m.z4ai"],
    ] {
        for status in ["201 Created", "403 Forbidden", "409 Conflict"] {
            let server = UploadServer::start(move |_| take(status));
            let address = secret_address(&server.url, "");
            for json in [&[][..], &["--json"]] {
                let all = [arguments, &["-o", &address, "--retries", "0"], json].concat();
                let (code, said) = run(folder.path(), &all, &[]);
                let expected = if status.starts_with('2') { 0 } else { 3 };
                assert_eq!(code, Some(expected), "{all:?}: {said}");
                for asked in server.puts() {
                    assert_eq!(asked.header("authorization"), Some(BASIC));
                }
            }
        }
    }
}

#[test]
fn no_verb_shows_tokens_and_keys_of_the_environment() {
    let folder = files();
    let server = RoundServer::start();
    let page = Page::File(std::fs::read(folder.path().join("m.zstn")).unwrap());
    server.add("o/n/resolve/main/m.zstn", page);
    let endpoint = server.url.trim_end_matches('/').to_owned();
    let with_user = endpoint.replace("http://", &format!("http://user:{WRITTEN}@"));
    for endpoint in [&endpoint, &with_user, "http://127.0.0.1:9"] {
        for address in ["hf://o/n/m.zstn", "hf://o/n/missing.zstn", "s3://b/m.zstn"] {
            for verb in ["ls", "info", "verify", "unpack"] {
                for json in [&[][..], &["--json"]] {
                    let scratch = tempfile::tempdir().unwrap();
                    let variables = [
                        ("HF_ENDPOINT", endpoint),
                        ("HF_TOKEN", TOKEN),
                        ("AWS_ENDPOINT_URL", endpoint),
                        ("AWS_ALLOW_HTTP", "true"),
                        ("AWS_ACCESS_KEY_ID", TOKEN),
                        ("AWS_SECRET_ACCESS_KEY", SIGNATURE),
                        ("AWS_SESSION_TOKEN", PASSWORD),
                    ];
                    let arguments = [&[verb, address, "--retries", "0"], json].concat();
                    run(scratch.path(), &arguments, &variables);
                }
            }
        }
    }
}

/// The library's own types do not reveal secrets when printed.
#[test]
fn types_of_the_library_hide_secrets() {
    let address = secret_address("http://127.0.0.1:9/", "m.zstn");
    let location = zstn::Location::url(&address);
    let error = location.open(&zstn::source::HttpOptions::default());
    let Err(error) = error else {
        panic!("nothing listens there");
    };
    for shown in [
        format!("{location} {location:?}"),
        format!("{:?}", zstn::Input::from(&location)),
        format!("{error} {error:?}"),
    ] {
        assert!(shown.contains("127.0.0.1:9/m.zstn"), "{shown}");
        for secret in [WRITTEN, SIGNATURE, PASSWORD] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
}
