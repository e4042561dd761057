//! Inputs given as URLs: schemes, spellings, `hf://` addresses with the user's token, and
//! addresses whose server refuses.

use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::thread;

use zstn_tests::command::{json, program, text, zstn};
use zstn_tests::round_server::{Hub, Page, RoundServer};

use super::tls_and_proxies::{head, model, run};
use super::{folder_with, vector};

#[test]
fn a_file_address_is_its_path() {
    let folder = folder_with("a b.zstn", &vector("float_weights.zstn"));
    // Windows accepts slashes as well. A drive letter follows a slash, as in
    // `/C:/folder`.
    let plain = folder.path().display().to_string().replace('\\', "/");
    let path = if cfg!(windows) {
        format!("/{plain}")
    } else {
        plain.clone()
    };
    let info = |input: &str| json(&zstn(folder.path(), &["info", "--json", input]));
    let expected = info(&format!("{plain}/a b.zstn"));
    for address in [
        format!("file://{path}/a%20b.zstn"),
        format!("FILE://localhost{path}/a b.zstn"),
    ] {
        assert_eq!(info(&address), expected, "{address}");
    }
    // The result is written to the same folder, and the input is not replaced by it.
    let address = format!("file://{path}/a%20b.zstn");
    let out = zstn(folder.path(), &["unpack", &address]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(folder.path().join("a b.safetensors").exists());
    let out = zstn(folder.path(), &["convert", &address, "a b.zstn", "--force"]);
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
}

#[test]
fn what_cannot_be_read_is_refused_with_what_can() {
    let folder = tempfile::tempdir().unwrap();
    for (input, sentence) in [
        ("foo://h/model.zstn", "begin with one of https://"),
        ("file://elsewhere/model.zstn", "file:///folder/model.zstn"),
        ("file:///model.zstn?download=true", "%3F"),
        ("s3://bucket//model.zstn", "empty"),
        (
            "s3://user:secret@bucket/model.zstn",
            "environment variables",
        ),
    ] {
        for verb in ["ls", "unpack", "verify", "compress"] {
            let out = zstn(folder.path(), &[verb, input]);
            let said = text(&out.stderr);
            assert_eq!(out.status.code(), Some(2), "{verb} {input}: {said}");
            assert!(said.contains(sentence), "{verb} {input}: {said}");
            assert!(!said.contains("secret"), "{verb} {input}: {said}");
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

// On Windows, the name of a folder cannot contain a colon.
#[test]
#[cfg(unix)]
fn an_unknown_scheme_may_be_a_path() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("foo:")).unwrap();
    let file = folder.path().join("foo:/model.zstn");
    std::fs::write(file, vector("float_weights.zstn")).unwrap();
    let out = zstn(folder.path(), &["ls", "foo://model.zstn"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
}

const TOKEN: &str = "hf_a-secret-token";
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// Runs a command with these environment variables, without the hub settings of this
/// process.
fn zstn_with_hub(
    home: &Path,
    hub: &Hub,
    variables: &[(&str, &str)],
    arguments: &[&str],
) -> (i32, String) {
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
        let (status, said) = zstn_with_hub(home.path(), &hub, &[("HF_TOKEN", TOKEN)], &arguments);
        assert_eq!(status, 0, "{arguments:?}: {said}");
    }
    // The result is in the current directory, under the file's name.
    assert!(home.path().join("m.safetensors").exists());
    let arguments = ["ls", "hf://o/n@/m.zstn"];
    let (status, said) = zstn_with_hub(home.path(), &hub, &[], &arguments);
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
        let (status, said) =
            zstn_with_hub(home.path(), &hub, variables, &["ls", "hf://o/n/m.zstn"]);
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
    assert_eq!(zstn_with_hub(home.path(), &hub, &[], &arguments).0, 3);
}

#[test]
fn the_address_of_the_hub_is_checked() {
    let hub = hub();
    let home = tempfile::tempdir().unwrap();
    let arguments = ["ls", "hf://o/n/m.zstn"];
    let (status, said) = zstn_with_hub(
        home.path(),
        &hub,
        &[("HF_ENDPOINT", "hub.example")],
        &arguments,
    );
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("https://huggingface.co"), "{said}");
}

#[test]
fn addresses_may_be_written_as_browsers_show_them() {
    let server = RoundServer::start();
    // The path `größe/m a.safetensors` as it is requested.
    server.add("gr%C3%B6%C3%9Fe/m%20a.safetensors", Page::File(model()));
    // `ü:p@ss`: the user name and password are decoded before they are sent.
    server.demand("Basic w7w6cEBzcw==");
    let host = server.url.trim_start_matches("http://");
    for path in [
        "größe/m a.safetensors",
        "gr%C3%B6%C3%9Fe/m%20a.safetensors#part",
    ] {
        let (status, said) = run(&["ls", &format!("http://ü:p%40ss@{host}{path}")], &[]);
        assert_eq!(status, Some(0), "{said}");
    }
}

#[test]
fn a_process_that_is_offline_asks_no_hub() {
    let server = RoundServer::start();
    server.add("o/n/resolve/main/m.safetensors", Page::File(model()));
    let endpoint = server.url.trim_end_matches('/');
    let ls = |value: &str| {
        let variables = [("HF_ENDPOINT", endpoint), ("HF_HUB_OFFLINE", value)];
        run(&["ls", "hf://o/n/m.safetensors"], &variables)
    };
    for value in ["1", "true", "YES"] {
        let (status, said) = ls(value);
        assert_eq!(status, Some(2), "{said}");
        assert!(said.contains("HF_HUB_OFFLINE"), "{said}");
    }
    assert!(server.finished_rounds().is_empty());
    for value in ["", "0"] {
        assert_eq!(ls(value).0, Some(0));
    }
}

/// Starts a server that answers every request with these bytes. Returns its port.
fn start_answering(answer: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            if head(&mut stream).is_some() {
                let _ = stream.write_all(answer.as_bytes());
            }
        }
    });
    port
}

#[test]
fn refusals_repeat_the_reason_of_the_store() {
    let signature = "0123456789abcdef";
    for (status, code, message, shown) in [
        (
            "403 Forbidden",
            "AccessDenied",
            "Request has expired",
            "(Request has expired; AccessDenied); the address was valid for a time only",
        ),
        (
            "403 Forbidden",
            "SignatureDoesNotMatch",
            "The signature 0123456789abcdef of http://h/x?sig=0123456789abcdef is &quot;wrong&quot;.",
            "(The signature … of http://h/x?… is \"wrong\"; SignatureDoesNotMatch)",
        ),
        (
            "403 Forbidden",
            "RequestTimeTooSkewed",
            "The difference between the request time and the current time is too large.",
            "the clock of this machine",
        ),
        ("403 Forbidden", "InvalidObjectState", "No.", "is archived"),
        (
            "404 Not Found",
            "NoSuchKey",
            "No such key.",
            "there is no such file",
        ),
    ] {
        let body = format!(
            "<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
        );
        let port = start_answering(format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/xml\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            body.len()
        ));
        let address = format!("http://127.0.0.1:{port}/m.zstn?X-Amz-Signature={signature}");
        for verb in ["ls", "unpack", "verify"] {
            let (code, said) = run(&[verb, &address], &[]);
            assert_eq!(code, Some(3), "{said}");
            assert!(said.contains(shown), "{verb} {status}: {said}");
            assert!(!said.contains(signature), "{said}");
        }
    }
}

#[test]
fn a_server_that_misreads_if_range_is_asked_without_it() {
    // The file is longer than its head, so that further requests follow.
    let bytes: Vec<u8> = (0..400_000_u32).map(|i| (i % 251) as u8).collect();
    let model = zstn_tests::checkpoint(&[("a", "U8", &bytes), ("b", "U8", &bytes)]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/m.safetensors", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let Some(lines) = head(&mut stream) else {
                continue;
            };
            let find = |name: &str| {
                let mut lines = lines.iter().filter_map(|line| line.split_once(": "));
                lines.find(|(known, _)| known.eq_ignore_ascii_case(name))
            };
            let range = find("range").filter(|_| find("if-range").is_none());
            let range = range.and_then(|(_, range)| {
                let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
                Some(first.parse::<usize>().ok()?..last.parse::<usize>().ok()? + 1)
            });
            let (status, line, body) = match range {
                None => ("200 OK", String::new(), &model[..]),
                Some(range) => {
                    let end = range.end.min(model.len());
                    let line = format!(
                        "Content-Range: bytes {}-{}/{}\r\n",
                        range.start,
                        end - 1,
                        model.len()
                    );
                    ("206 Partial Content", line, &model[range.start..end])
                }
            };
            let head = format!(
                "HTTP/1.1 {status}\r\n{line}ETag: \"abc\"\r\nContent-Length: {}\r\n\
                 Connection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(&[head.as_bytes(), body].concat());
        }
    });
    let (status, said) = run(&["get", &address, "b", "--summary"], &[]);
    assert_eq!(status, Some(0), "{said}");
}
