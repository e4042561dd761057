//! The network options of every command that has them.

use std::path::Path;

use zstn_tests::command::{text, zstn};
use zstn_tests::round_server::{Page, RoundServer};
use zstn_tests::upload_server::{UploadServer, take};

use crate::{folder_with, vector};

const TOKEN: &str = "hf_a-secret-token";

/// The commands that read URLs, each with a suitable file and additional arguments.
pub(super) const VERBS: [(&str, &str, &[&str]); 9] = [
    ("pack", "m.safetensors", &["-o", "out"]),
    ("unpack", "m.zstn", &["-o", "out"]),
    ("convert", "m.zstn", &["out.zt"]),
    ("ls", "m.zstn", &[]),
    ("info", "m.zstn", &[]),
    ("get", "m.zstn", &["w", "--summary"]),
    ("verify", "m.zstn", &[]),
    ("compress", "m.safetensors", &["-o", "out"]),
    ("decompress", "m.z4ai", &["-o", "out"]),
];

/// Creates the files that [`VERBS`] lists.
pub(super) fn files() -> tempfile::TempDir {
    let plain = zstn_tests::checkpoint(&[("w", "U8", &[7; 2000])]);
    let folder = folder_with("m.safetensors", &plain);
    for arguments in [
        &["pack", "m.safetensors"][..],
        &["compress", "m.safetensors", "-o", "m.z4ai"],
    ] {
        let out = zstn(folder.path(), arguments);
        assert!(out.status.success(), "{}", text(&out.stderr));
    }
    folder
}

/// Starts a server for the files in `folder` that requires the token.
fn serve(folder: &Path) -> RoundServer {
    let server = RoundServer::start();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap();
        server.add(name, Page::File(std::fs::read(&path).unwrap()));
    }
    server.demand(&format!("Bearer {TOKEN}"));
    server
}

#[test]
fn a_header_is_sent_by_every_verb_and_never_shown() {
    let folder = files();
    let server = serve(folder.path());
    let scratch = tempfile::tempdir().unwrap();
    let header = format!("Authorization: Bearer {TOKEN}");
    let lines = format!("X-Key: another\r\n\n{header}\n");
    std::fs::write(scratch.path().join("headers"), lines).unwrap();
    for (verb, file, more) in VERBS {
        let url = format!("{}{file}", server.url);
        let run = |options: &[&str]| {
            let arguments = [&[verb, &url], more, &["--force"], options].concat();
            let takes_force = !["ls", "info", "verify"].contains(&verb);
            let arguments: Vec<_> = arguments
                .into_iter()
                .filter(|argument| takes_force || *argument != "--force")
                .collect();
            let out = zstn(scratch.path(), &arguments);
            let said = text(&out.stderr) + &text(&out.stdout);
            assert!(!said.contains(TOKEN), "{verb}: {said}");
            (out.status.code(), said)
        };
        assert_eq!(run(&[]).0, Some(3), "{verb}");
        for options in [
            &["--header", &header][..],
            &["--header", "@headers"],
            &["--header", &header, "--json"],
        ] {
            let (status, said) = run(options);
            assert_eq!(status, Some(0), "{verb} {options:?}: {said}");
        }
        let wrong = header.replace("Bearer", "Basic");
        for options in [&["--header", &wrong][..], &["--header", &wrong, "--json"]] {
            let (status, said) = run(options);
            assert_eq!(status, Some(3), "{verb}: {said}");
            assert!(said.contains("401"), "{verb}: {said}");
        }
    }
}

#[test]
fn another_server_gets_no_header() {
    let folder = files();
    let (home, away) = (serve(folder.path()), serve(folder.path()));
    let header = format!("Authorization: Bearer {TOKEN}");
    let at = |server: &RoundServer| format!("{}m.safetensors", server.url);
    for arguments in [
        &[
            "pack",
            &at(&home),
            "--base",
            &at(&away),
            "-c",
            "--header",
            &header,
        ][..],
        &[
            "verify",
            &format!("{}m.zstn", home.url),
            "--against",
            &at(&away),
            "--header",
            &header,
        ],
    ] {
        let out = zstn(folder.path(), arguments);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(3), "{said}");
        assert!(said.contains(&at(&away)) && said.contains("401"), "{said}");
        assert!(!said.contains(TOKEN), "{said}");
    }
    let requests = away.finished_rounds();
    assert!(!requests.is_empty());
    for request in requests {
        assert_eq!(request.header("authorization"), None);
    }
}

#[test]
fn the_server_of_the_output_gets_a_header_if_no_input_is_on_one() {
    let folder = files();
    let header = format!("Authorization: Bearer {TOKEN}");
    for arguments in [
        &["pack", "m.safetensors", "-o"][..],
        &["unpack", "m.zstn", "-o"],
        &["convert", "m.zstn", "--to", "zt", "-o"],
        &["compress", "m.safetensors", "-o"],
        &["decompress", "m.z4ai", "-o"],
    ] {
        let server = UploadServer::start(|asked| match asked.header("authorization") {
            Some(_) => take("201 Created"),
            None => take("401 Unauthorized"),
        });
        let run = |more: &[&str]| zstn(folder.path(), &[arguments, &[&server.url], more].concat());
        let out = run(&[]);
        assert_eq!(out.status.code(), Some(3), "{}", text(&out.stderr));
        let out = run(&["--header", &header]);
        assert!(out.status.success(), "{arguments:?}: {}", text(&out.stderr));
        let log = server.puts();
        let token = format!("Bearer {TOKEN}");
        let last = log.last().unwrap();
        assert_eq!(last.header("authorization"), Some(&*token));
    }
    // If an input is on a server, the header is for that server.
    let home = serve(folder.path());
    let away = UploadServer::start(|_| take("201 Created"));
    let input = format!("{}m.safetensors", home.url);
    let out = zstn(
        folder.path(),
        &["pack", &input, "-o", &away.url, "--header", &header],
    );
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(
        away.log()
            .iter()
            .all(|asked| asked.header("authorization").is_none())
    );
}

#[test]
fn headers_that_cannot_be_sent_are_refused_without_being_shown() {
    let folder = folder_with("m.zstn", &vector("float_weights.zstn"));
    std::fs::write(folder.path().join("headers"), format!("{TOKEN}\n")).unwrap();
    let url = "http://127.0.0.1:9/m.zstn";
    let header = format!("Authorization: Bearer {TOKEN}");
    for (arguments, status, sentence) in [
        (&["ls", url, "--header", TOKEN][..], 2, "a name, a colon"),
        (
            &["ls", url, "--header", "@headers"],
            2,
            "each line of headers",
        ),
        (&["ls", url, "--header", "@missing"], 3, "missing"),
        (
            &["ls", url, "--header", &format!("Range: {TOKEN}")],
            2,
            "range is set by",
        ),
        (
            &["ls", url, "--header", &format!("a b: {TOKEN}")],
            2,
            "name of a header",
        ),
        (
            &["ls", url, "--header", &format!("a: {TOKEN}\n")],
            3,
            "cannot be reached",
        ),
        (
            &["ls", url, "--header", &format!("a: \n{TOKEN}\nb")],
            2,
            "end of a line",
        ),
        (
            &["ls", "m.zstn", "--header", &header],
            2,
            "requires an input or output on a web server",
        ),
        (
            &["ls", url, "http://127.0.0.1:7/m", "--header", &header],
            2,
            "run zstn once for each",
        ),
        (&["serve", "--header", &header], 2, "unexpected argument"),
        (
            &["ls", url, "--header", &header, "--nope"],
            2,
            "unexpected argument",
        ),
    ] {
        for json in [&[][..], &["--json"]] {
            let out = zstn(folder.path(), &[arguments, json].concat());
            let said = text(&out.stderr);
            assert_eq!(out.status.code(), Some(status), "{said}");
            assert!(said.contains(sentence), "{said}");
            assert!(!said.contains(TOKEN), "{said}");
        }
    }
}

#[test]
fn every_verb_repeats_requests_as_often_as_it_may() {
    for (verb, file, more) in VERBS {
        for (retries, expected) in [("0", 1), ("1", 2)] {
            let server = RoundServer::start();
            let url = server.add(file, Page::Answer("503 Service Unavailable", Vec::new()));
            let arguments = [&[verb, &url], more, &["--retries", retries]].concat();
            let scratch = tempfile::tempdir().unwrap();
            let out = zstn(scratch.path(), &arguments);
            assert_eq!(out.status.code(), Some(3), "{verb}: {}", text(&out.stderr));
            assert_eq!(server.finished_rounds().len(), expected, "{verb}");
        }
    }
}

#[test]
fn every_verb_gives_up_on_a_silent_server() {
    // This listener never accepts, so connections wait in the system's queue.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::scope(|scope| {
        for (verb, file, more) in VERBS {
            let url = format!("{server}{file}");
            scope.spawn(move || {
                let scratch = tempfile::tempdir().unwrap();
                let arguments = [&[verb, &url], more, &["--timeout", "1"]].concat();
                let out = zstn(scratch.path(), &arguments);
                let said = text(&out.stderr);
                assert_eq!(out.status.code(), Some(3), "{verb}: {said}");
                assert!(said.contains("for 1 s"), "{verb}: {said}");
            });
        }
    });
}

/// Adds a checkpoint of `count` shards to a server, and returns the URL of its index.
fn add_shards(server: &RoundServer, count: usize) -> String {
    let mut map = serde_json::Map::new();
    for number in 0..count {
        let (tensor, file) = (format!("t{number}"), format!("s{number}.safetensors"));
        let bytes = [u8::try_from(number % 256).unwrap(); 100];
        server.add(
            &file,
            Page::File(zstn_tests::checkpoint(&[(&tensor, "U8", &bytes)])),
        );
        map.insert(tensor, file.into());
    }
    let index = serde_json::json!({ "weight_map": map }).to_string();
    server.add("m.safetensors.index.json", Page::File(index.into()))
}

#[test]
fn one_tensor_costs_the_index_and_its_shard() {
    let server = RoundServer::start();
    let url = add_shards(&server, 163);
    let scratch = tempfile::tempdir().unwrap();
    for (names, shards) in [(&["t7"][..], 1), (&["t7", "t9"], 2), (&["t1?2"], 163)] {
        let before = server.finished_rounds().len();
        let out = zstn(
            scratch.path(),
            &[&["get", &url, "--summary"], names].concat(),
        );
        assert!(out.status.success(), "{}", text(&out.stderr));
        let requests = server.finished_rounds()[before..].to_vec();
        let opened: std::collections::BTreeSet<_> = requests
            .iter()
            .filter(|request| request.path.ends_with(".safetensors"))
            .map(|request| request.path.clone())
            .collect();
        assert_eq!(opened.len(), shards, "{names:?}");
        // The requests are for the index and for the head of each shard, which includes
        // the tensor.
        assert!(
            requests.len() <= 1 + 2 * shards,
            "{names:?}: {}",
            requests.len()
        );
    }
    let out = zstn(scratch.path(), &["get", &url, "t164", "--summary"]);
    assert!(text(&out.stderr).contains("t16"), "{}", text(&out.stderr));
}

#[test]
#[cfg(unix)]
fn many_shards_on_a_server_need_few_descriptors() {
    let server = RoundServer::start();
    let url = add_shards(&server, 400);
    let out = std::process::Command::new("sh")
        .args(["-c", "ulimit -n 180 && exec \"$0\" ls \"$1\""])
        .arg(zstn_tests::command::program())
        .arg(&url)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("t399"));
}
