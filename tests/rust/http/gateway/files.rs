//! Lists and downloads of files through the gateway.

use serde_json::{Value, json};
use zstn::{Job, PackOptions};
use zstn_core::container::zstn::ContainerOptions;
use zstn_tests::checkpoints::quantised;

use super::*;

#[test]
fn a_packed_file_is_the_original_whole_and_in_ranges() {
    let site = site();
    for (name, original) in &site.originals {
        let whole = site.file(name, &[]);
        assert_eq!(whole.status, 200, "{name}: {}", whole.text());
        assert!(whole.body == *original, "{name}");
        assert_eq!(whole.header("x-repo-commit"), Some(&*site.commit));
        let len = original.len();
        let middle = len / 2;
        let part = site.file(name, &[&format!("Range: bytes=1-{middle}")]);
        assert_eq!(part.status, 206, "{name}");
        assert!(part.body == original[1..=middle], "{name}");
    }
}

#[test]
fn a_file_with_extension_frames_is_the_original_whole_and_in_ranges() {
    let original = quantised();
    let options = ContainerOptions::new(Effort::Fast).extended(true);
    let bytes = pack(&Engine::new(2).unwrap(), &original, options).unwrap();
    assert_eq!(bytes[4], 4);
    let site = site_with(Options::default(), &[("grid.zstn", &bytes)]);
    let whole = site.file("grid.safetensors", &[]);
    assert_eq!(whole.status, 200, "{}", whole.text());
    assert!(whole.body == original);
    let digest = format!("\"{}\"", sha256(&original));
    assert_eq!(whole.header("etag"), Some(&*digest));
    for start in (0..original.len()).step_by(7_001) {
        let end = original.len().min(start + 3_000);
        let range = format!("Range: bytes={start}-{}", end - 1);
        let part = site.file("grid.safetensors", &[&range]);
        assert_eq!(part.status, 206, "{range}");
        assert!(part.body == original[start..end], "{range}");
    }
}

#[test]
fn clients_learn_digest_and_length_without_the_bytes() {
    let site = site();
    let (name, original) = &site.originals[0];
    let path = format!("/me/model/resolve/main/{name}");
    let head = ask(site.gateway, "HEAD", &path, &[]);
    let digest = format!("\"{}\"", sha256(original));
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("etag"), Some(&*digest));
    assert_eq!(head.header("x-linked-etag"), Some(&*digest));
    assert_eq!(
        head.header("x-linked-size"),
        Some(&*original.len().to_string())
    );
    assert_eq!(
        head.header("content-length"),
        Some(&*original.len().to_string())
    );
    assert_eq!(head.header("x-repo-commit"), Some(&*site.commit));
    assert_eq!(head.header("x-xet-hash"), None);
    // The commit id is accepted as a revision like a branch.
    let path = format!("/me/model/resolve/{}/{name}", site.commit);
    let again = ask(
        site.gateway,
        "HEAD",
        &path,
        &[&format!("If-None-Match: {digest}")],
    );
    assert_eq!(again.status, 304);
}

#[test]
fn files_that_are_there_are_passed_on() {
    let plain = shard("plain", 3);
    let both = shard("both", 4);
    let other = packed(&shard("other", 5));
    let more: [(&str, &[u8]); 3] = [
        ("plain.safetensors", &plain),
        ("both.safetensors", &both),
        ("both.zstn", &other),
    ];
    let site = site_with(Options::default(), &more);
    // The gateway redirects to the server that has the bytes, as the hub does.
    for name in ["plain.safetensors", "both.safetensors", "both.zstn"] {
        let answer = site.file(name, &[]);
        assert_eq!(answer.status, 302, "{name}");
        assert!(
            answer
                .header("location")
                .unwrap()
                .starts_with("http://localhost:")
        );
        assert!(answer.header("x-linked-etag").is_some());
    }
    let config = site.file("config.json", &[]);
    assert_eq!((config.status, &*config.body), (200, &b"{}"[..]));
    let missing = site.file("missing.safetensors", &[]);
    assert_eq!(missing.status, 404);
    assert_eq!(missing.header("x-error-code"), Some("EntryNotFound"));
}

/// The name of an index may have a variant on either side of the word `index`.
#[test]
fn indices_with_variants_are_restored() {
    let index = WEIGHTS.replace(".safetensors", ".zstn");
    let more: [(&str, &[u8]); 2] = [
        ("model.zstn.index.fp16.json", index.as_bytes()),
        ("sub/model.zstn.fp16.index.json", index.as_bytes()),
    ];
    let site = site_with(Options::default(), &more);
    for name in [
        "model.safetensors.index.fp16.json",
        "sub/model.safetensors.fp16.index.json",
    ] {
        let answer = site.file(name, &[]);
        assert_eq!(answer.status, 200, "{name}: {}", answer.text());
        assert_eq!(answer.text(), WEIGHTS, "{name}");
    }
    let tree = site.json("/api/models/me/model/tree/main");
    let names = names(&tree);
    let shown = "model.safetensors.index.fp16.json".to_owned();
    assert!(names.contains(&shown), "{names:?}");
}

#[test]
fn what_was_fetched_is_not_fetched_again() {
    let site = site();
    assert_eq!(site.file(FIRST, &[]).status, 200);
    assert!(!site.fetched().is_empty());
    site.hub.clear_log();
    assert_eq!(site.file(FIRST, &[]).status, 200);
    assert_eq!(site.file(FIRST, &["Range: bytes=100-200"]).status, 206);
    assert!(!site.has_fetched());
}

/// The gateway cannot restore a file packed against a base, so it shows it unchanged.
#[test]
fn a_difference_is_shown_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("base.safetensors"), shard("x", 1)).unwrap();
    std::fs::write(at("tuned.safetensors"), shard("x", 2)).unwrap();
    let options = PackOptions::default().base(at("base.safetensors"));
    let job = Job::new().engine(&Engine::new(2).unwrap());
    // The name has the extension of a container without a base.
    zstn::pack(&job, at("tuned.safetensors"), at("delta.zstn"), &options).unwrap();
    let delta = std::fs::read(at("delta.zstn")).unwrap();
    let site = site_with(Options::default(), &[("delta.zstn", &delta)]);
    let answer = site.file("delta.safetensors", &[]);
    assert_eq!(answer.status, 404, "{}", answer.text());
    let names = names(&site.json("/api/models/me/model/tree/main"));
    assert!(names.contains(&"delta.zstn".to_owned()), "{names:?}");
}

#[test]
fn other_readers_of_this_project_read_through_it() {
    let site = site();
    let url = format!("http://{}/me/model/resolve/main/{FIRST}", site.gateway);
    let reader = Reader::open(Location::url(url)).unwrap();
    let expected = Rng(1).bf16_weights(400_000);
    assert!(reader.read("a").unwrap().bytes == expected);
}

/// Returns the paths in a list, sorted.
pub fn names(list: &Value) -> Vec<String> {
    let entries = list.as_array().unwrap().iter();
    let text = |entry: &Value| {
        let path = entry.get("path").or_else(|| entry.get("rfilename"));
        path.and_then(Value::as_str).unwrap().to_owned()
    };
    let mut names: Vec<_> = entries.map(text).collect();
    names.sort();
    names
}

fn shown(site: &Site) -> Vec<String> {
    let mut names: Vec<_> = site
        .originals
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    // Every repository of the stub hub has this file.
    names.push(".gitattributes".into());
    names.sort();
    names
}

fn entry<'a>(list: &'a Value, name: &str) -> &'a Value {
    let mut entries = list.as_array().unwrap().iter();
    let found = entries.find(|entry| entry["path"] == name || entry["rfilename"] == name);
    found.unwrap_or_else(|| panic!("{name} in {list}"))
}

#[test]
fn packed_files_appear_as_what_they_restore() {
    let site = site();
    let tree = site.json("/api/models/me/model/tree/main");
    assert_eq!(names(&tree), shown(&site));
    for (name, original) in &site.originals[..2] {
        let entry = entry(&tree, name);
        assert_eq!(entry["size"], original.len());
        assert_eq!(entry["lfs"]["oid"], sha256(original));
        assert_eq!(entry["lfs"]["size"], original.len());
        assert_eq!(entry.get("xetHash"), None);
    }
    assert_eq!(entry(&tree, INDEX)["size"], WEIGHTS.len());
    for path in ["/api/models/me/model", "/api/models/me/model/revision/main"] {
        let info = site.json(path);
        assert_eq!(names(&info["siblings"]), shown(&site), "{path}");
        assert_eq!(info["sha"], site.commit);
    }
    let info = site.json("/api/models/me/model?blobs=true");
    let sibling = entry(&info["siblings"], FIRST);
    assert_eq!(sibling["size"], site.originals[0].1.len());
    assert_eq!(sibling["lfs"]["sha256"], sha256(&site.originals[0].1));
}

#[test]
fn paths_are_looked_up_by_the_names_that_are_shown() {
    let site = site();
    let ask = |kind: &str, body: &str| {
        let request = format!(
            "POST /api/models/me/model/paths-info/main HTTP/1.1\r\nHost: localhost\r\n\
             Connection: close\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = crate::serve::exchange(site.gateway, request.as_bytes());
        (
            answer.status,
            serde_json::from_slice::<Value>(&answer.body).unwrap(),
        )
    };
    let asked = json!({"paths": [FIRST, "config.json", "missing.safetensors", INDEX]});
    let (status, found) = ask("application/json", &asked.to_string());
    assert_eq!(status, 200);
    assert_eq!(names(&found), ["config.json", FIRST, INDEX]);
    assert_eq!(entry(&found, FIRST)["size"], site.originals[0].1.len());
    let form = format!("paths={FIRST}&paths=config.json&expand=False");
    let (status, found) = ask("application/x-www-form-urlencoded", &form);
    assert_eq!(status, 200);
    assert_eq!(names(&found), ["config.json", FIRST]);
    let (status, _) = ask("application/json", "[]");
    assert_eq!(status, 400);
}

/// A page of the upstream's list can end between a plain file and its packed
/// counterpart.
#[test]
fn pages_stay_pages_of_the_gateway() {
    let plain = shard("both", 4);
    let other = packed(&plain);
    let more: [(&str, &[u8]); 2] = [("both.safetensors", &plain), ("both.zstn", &other)];
    for page_len in 1..=4 {
        let options = Options {
            page_len,
            ..Options::default()
        };
        let site = site_with(options, &more);
        let mut found = Vec::new();
        let mut next = Some("/api/models/me/model/tree/main?recursive=true".to_owned());
        while let Some(path) = next {
            let answer = get(site.gateway, &path, &["Host: 127.0.0.1:1"]);
            assert_eq!(answer.status, 200, "{}", answer.text());
            found.extend(names(&serde_json::from_slice(&answer.body).unwrap()));
            next = answer.header("link").map(|link| {
                let address = link.trim_start_matches('<').split('>').next().unwrap();
                let path = address.strip_prefix("http://127.0.0.1:1").expect(link);
                path.to_owned()
            });
        }
        found.sort();
        let mut expected = shown(&site);
        expected.push("both.safetensors".into());
        expected.sort();
        assert_eq!(found, expected, "{page_len} on a page");
    }
}

#[test]
fn lists_of_known_files_cost_none_of_their_bytes() {
    let site = site();
    site.json("/api/models/me/model/tree/main");
    site.hub.clear_log();
    site.json("/api/models/me/model/tree/main");
    site.json("/api/models/me/model");
    assert!(!site.has_fetched());
}
