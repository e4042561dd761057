//! Lists of files through the gateway.

use serde_json::{Value, json};

use super::*;

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
        let answer = crate::serve::client::exchange(site.gateway, request.as_bytes());
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
