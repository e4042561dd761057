//! Which claims the gateway trusts: in requests, in paths, and in files.

use serde_json::{Value, json};
use zstn_core::container::zstn::{ContainerOptions, OriginalSha256};
use zstn_tests::round_server::{Page, RoundServer};
use zstn_tests::stub_hub::{Fault, Role};

use super::files::names;
use super::*;

const TOKEN: &str = "Authorization: Bearer hf_reader";
const OTHER: &str = "Authorization: Bearer hf_other";
const FILE: &str = "/me/model/resolve/main/model-00001-of-00002.safetensors";
const TREE: &str = "/api/models/me/model/tree/main";

fn with_tokens() -> Site {
    let tokens = vec![
        ("hf_reader".to_owned(), Role::Write),
        ("hf_other".to_owned(), Role::Read),
    ];
    let options = Options {
        tokens,
        ..Options::default()
    };
    site_with(options, &[])
}

/// Makes the storage refuse every request.
fn refuse(site: &Site) {
    site.hub.inject(Fault {
        path: "/cdn/".into(),
        status: Some(404),
        ..Fault::default()
    });
}

/// An LFS pointer to an object does not prove that the client may read the object.
#[test]
fn bytes_are_given_after_one_was_read_with_the_clients_permissions() {
    let site = with_tokens();
    let warm = get(site.gateway, FILE, &[TOKEN]);
    assert!(warm.body == site.originals[0].1);
    assert_eq!(get(site.gateway, TREE, &[TOKEN]).status, 200);
    // The same objects in another repository, as if its owner had copied the pointers.
    let copy = packed(&site.originals[0].1);
    let stolen = RepoId::model("evil/stolen");
    site.hub.add(&stolen, &[("m.zstn", &copy)]).unwrap();
    refuse(&site);
    for path in [
        FILE,
        "/me/model/resolve/main/model.safetensors.index.json",
        "/evil/stolen/resolve/main/m.safetensors",
    ] {
        for headers in [&[OTHER][..], &[OTHER, "Range: bytes=0-9"]] {
            for method in ["GET", "HEAD"] {
                let answer = ask(site.gateway, method, path, headers);
                // The index of shards is a small file, which the hub serves itself.
                let expected = if path.ends_with(".json") { 200 } else { 404 };
                let is_range = headers.len() > 1 && method == "GET";
                let expected = if expected == 200 && is_range {
                    206
                } else {
                    expected
                };
                assert_eq!(answer.status, expected, "{method} {path}");
            }
        }
    }
    site.hub.heal();
    assert!(get(site.gateway, FILE, &[OTHER]).body == site.originals[0].1);
}

/// The names, lengths and digests of original files are also protected content.
#[test]
fn lists_of_a_gated_repository_show_what_the_client_may_read() {
    let site = with_tokens();
    site.hub.restrict(&model(), false, true);
    let list = |header: &str| {
        let answer = get(site.gateway, TREE, &[header]);
        assert_eq!(answer.status, 200, "{}", answer.text());
        names(&serde_json::from_slice(&answer.body).unwrap())
    };
    let (cold, warm) = (list(OTHER), list(TOKEN));
    assert!(warm.contains(&FIRST.to_owned()), "{warm:?}");
    assert!(!cold.contains(&FIRST.to_owned()), "{cold:?}");
    assert_eq!(list(OTHER), cold);
    let info = get(site.gateway, "/api/models/me/model", &[OTHER]);
    let info: Value = serde_json::from_slice(&info.body).unwrap();
    assert!(!names(&info["siblings"]).contains(&FIRST.to_owned()));
}

/// A proof of access is trusted as long as other cached answers, and only for one
/// client.
#[test]
fn proofs_are_trusted_for_a_time() {
    let site = with_tokens();
    let upstream = Location::url(site.hub.url());
    let trusting = run(gateway(&upstream).with_trust(Duration::from_secs(3600)));
    assert_eq!(get(trusting, FILE, &[TOKEN]).status, 200);
    refuse(&site);
    assert_eq!(get(trusting, FILE, &[TOKEN]).status, 200);
    assert_eq!(get(trusting, FILE, &[OTHER]).status, 404);
    assert_eq!(get(trusting, FILE, &[]).status, 404);
}

#[test]
fn paths_that_could_mean_another_place_reach_no_upstream() {
    let site = site();
    site.hub.clear_log();
    for path in [
        "/me/model/resolve/main/../../../../evil/repo/resolve/main/model.safetensors",
        "/me/model/resolve/main/%2e%2e/%2E%2E/x.safetensors",
        "/me/model/resolve/%2e%2e%2f%2e%2e/x.safetensors",
        "/me/model/resolve/main/a%5c..%5cx.safetensors",
        "/me/model/resolve/main/a%00.safetensors",
        "/me/model/resolve/main//x.safetensors",
        "/me/model/resolve/main/./x.safetensors",
        "/api/models/me/model/tree/main/..",
        "/api/models/me/model/tree/%2e%2e",
        "/api/models/me/model/revision/..",
        "/api/whoami-v2/../x",
        "/..",
    ] {
        for method in ["GET", "HEAD", "POST", "PUT"] {
            let answer = ask(site.gateway, method, path, &["Content-Length: 0"]);
            assert_eq!(answer.status, 400, "{method} {path}");
        }
    }
    let long = format!("/me/model/resolve/main/{}", "a".repeat(5000));
    assert_eq!(get(site.gateway, &long, &[]).status, 414);
    let body = json!({"paths": ["a/../config.json"]}).to_string();
    let request = format!(
        "POST /api/models/me/model/paths-info/main HTTP/1.1\r\nHost: localhost\r\n\
         Connection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = crate::serve::exchange(site.gateway, request.as_bytes());
    assert_eq!(answer.status, 400);
    assert!(site.hub.log().is_empty());
}

/// Different files can have the same ETag if it is not a digest.
#[test]
fn a_tag_that_is_no_digest_names_one_file() {
    let hub = RoundServer::start();
    let files = [1, 2].map(|seed| {
        let original = checkpoint(&[("w", "U8", &Rng(seed).bytes(4096))]);
        (packed(&original), original)
    });
    assert_eq!(files[0].0.len(), files[1].0.len());
    let gateway = run(gateway(&Location::url(&hub.url)));
    for (path, (packed, _)) in ["a/one", "b/two"].iter().zip(&files) {
        for name in ["x.zstn", "y.zstn"] {
            let headers = vec!["ETag: \"v1\"".to_owned()];
            let bytes = packed.clone();
            hub.add(
                &format!("{path}/resolve/main/{name}"),
                Page::FileWith(headers, bytes),
            );
        }
    }
    for (path, (_, original)) in ["a/one", "b/two"].iter().zip(&files) {
        for name in ["x.safetensors", "y.safetensors"] {
            let answer = get(gateway, &format!("/{path}/resolve/main/{name}"), &[]);
            assert!(answer.body == *original, "{path}/{name}: {}", answer.status);
        }
    }
}

/// The digest of a long file is unknown until the whole file has been read.
#[test]
fn digests_are_computed_and_not_repeated() {
    let long = checkpoint(&[("w", "BF16", &Rng(5).bf16_weights(4_500_000))]);
    let claim = |sha256| {
        let claim = OriginalSha256::Claimed(sha256);
        let options = ContainerOptions::new(Effort::Fast).original_sha256(claim);
        pack(&Engine::new(2).unwrap(), &long, options).unwrap()
    };
    let short = shard("short", 6);
    let options = ContainerOptions::new(Effort::Fast);
    let options = options.original_sha256(OriginalSha256::Claimed([7; 32]));
    let claimed = pack(&Engine::new(2).unwrap(), &short, options).unwrap();
    let (bytes, lie) = (packed(&long), claim([7; 32]));
    let more: [(&str, &[u8]); 3] = [
        ("long.zstn", &bytes),
        ("lie.zstn", &lie),
        ("short.zstn", &claimed),
    ];
    let site = site_with(Options::default(), &more);
    let oid = |name: &str| {
        let tree = site.json(TREE);
        let mut entries = tree.as_array().unwrap().iter();
        let entry = entries.find(|entry| entry["path"] == name).unwrap();
        entry["lfs"]["oid"].as_str().map(ToOwned::to_owned)
    };
    assert_eq!(oid("short.safetensors"), Some(sha256(&short)));
    for name in ["long.safetensors", "lie.safetensors"] {
        assert_eq!(oid(name), None, "{name}");
        let path = format!("/me/model/resolve/main/{name}");
        let tag = |answer: &Answer| answer.header("etag").unwrap().to_owned();
        let before = tag(&ask(site.gateway, "HEAD", &path, &[]));
        assert!(
            !before.contains(&sha256(&long)) && !before.contains("0707"),
            "{before}"
        );
        // Reading a range does not reveal the digest.
        assert_eq!(site.file(name, &["Range: bytes=0-99"]).status, 206);
        assert_eq!(oid(name), None, "{name}");
        assert!(site.file(name, &[]).body == long);
        assert_eq!(oid(name), Some(sha256(&long)), "{name}");
        // The ETag stays the same, because clients use it as the key of their caches.
        assert_eq!(tag(&ask(site.gateway, "HEAD", &path, &[])), before);
    }
}

/// The effects of a corrupted transfer end with its answer.
#[test]
fn a_bad_transfer_leaves_nothing_behind() {
    for seed in [20, 21] {
        let site = site();
        site.hub.inject(Fault {
            path: "/cdn/".into(),
            changed: true,
            ..Fault::default()
        });
        match seed {
            20 => drop(get(site.gateway, TREE, &[])),
            _ => drop(site.file(FIRST, &[])),
        }
        site.hub.heal();
        let names = names(&site.json(TREE));
        assert!(names.contains(&FIRST.to_owned()), "{names:?}");
        assert!(site.file(FIRST, &[]).body == site.originals[0].1);
    }
}

#[test]
fn long_lists_are_streamed_and_have_a_limit() {
    let hub = RoundServer::start();
    let list = |len: usize, name: usize| {
        let name = "x".repeat(name);
        let entries = (0..len).map(|number| {
            json!({"type": "file", "path": format!("{number}{name}.bin"), "size": 1, "oid": "0"})
        });
        Value::from(entries.collect::<Vec<_>>())
    };
    let long = list(20_000, 50);
    let path = "api/models/me/model/tree/main";
    hub.add(path, Page::File(long.to_string().into_bytes()));
    let gateway = run(gateway(&Location::url(&hub.url)));
    let answer = get(gateway, TREE, &[]);
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-length"), None);
    let text = dechunked(&answer.body);
    assert_eq!(serde_json::from_slice::<Value>(&text).unwrap(), long);
    let too_long = list(20_000, 1000).to_string().into_bytes();
    assert!(too_long.len() > 17 << 20);
    hub.add(path, Page::File(too_long));
    let answer = get(gateway, TREE, &[]);
    assert_eq!(answer.status, 502);
    assert!(answer.text().contains("16 MB"), "{}", answer.text());
    for text in ["{}", "[", "[{]", "[1]]"] {
        hub.add(path, Page::File(text.into()));
        assert_eq!(get(gateway, TREE, &[]).status, 502, "{text}");
    }
}

/// Decodes a body with the chunked transfer coding.
fn dechunked(mut body: &[u8]) -> Vec<u8> {
    let mut found = Vec::new();
    loop {
        let end = body.windows(2).position(|two| two == b"\r\n").unwrap();
        let len = str::from_utf8(&body[..end]).unwrap();
        let len = usize::from_str_radix(len, 16).unwrap();
        if len == 0 {
            return found;
        }
        let start = end + 2;
        found.extend_from_slice(&body[start..start + len]);
        body = &body[start + len + 2..];
    }
}
