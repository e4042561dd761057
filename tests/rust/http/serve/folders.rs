//! Which files of a folder are listed and served.

use zstn::Engine;
use zstn_core::container::zstn::pack;
use zstn_core::frame::select::Effort;
use zstn_serve::Page;
use zstn_tests::checkpoint;

use super::{bind, get, is_strict_policy, run, serve};

#[test]
fn hidden_files_are_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let original = checkpoint(&[("a", "U8", &[7; 100])]);
    let packed = pack(&Engine::new(1).unwrap(), &original, Effort::Fast).unwrap();
    for name in [".git", "open/.inner", ".git/pages"] {
        std::fs::create_dir_all(folder.path().join(name)).unwrap();
    }
    for name in [
        ".env",
        ".git/config",
        ".git/m.zstn",
        ".git/pages/index.html",
        "open/.inner/x.bin",
        ".m.zstn",
        "open/shown.zstn",
    ] {
        std::fs::write(folder.path().join(name), &packed).unwrap();
    }
    let server = serve(folder.path());
    for path in [
        "/.env",
        "/%2eenv",
        "/.git/config",
        "/%2Egit/config",
        "/.git/",
        "/.git/pages/",
        "/.git/m.safetensors",
        "/open/.inner/x.bin",
        "/open/.inner/",
        "/.m.zstn",
        "/.m.safetensors",
        "/open/./shown.zstn",
    ] {
        let answer = get(server, path, &[]);
        assert_eq!(answer.status, 404, "{path}");
        assert_eq!(answer.text(), "no such file\n", "{path}");
    }
    assert_eq!(get(server, "/open/shown.zstn", &[]).body, packed);
    assert_eq!(get(server, "/open/shown.safetensors", &[]).body, original);
    for path in ["/", "/open/"] {
        let page = get(server, path, &[]).text();
        assert!(page.contains("open"), "{page}");
        assert!(!page.contains(".git") && !page.contains(".inner"), "{page}");
    }
}

#[test]
fn sizes_have_units() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.bin"), vec![0; 1_234_567]).unwrap();
    std::fs::write(folder.path().join("b.bin"), [0; 12]).unwrap();
    let page = get(serve(folder.path()), "/", &[]).text();
    assert!(page.contains("a.bin</a> 1.23 MB"), "{page}");
    assert!(page.contains("b.bin</a> 12 B"), "{page}");
}

/// In a listing, `<` occurs only in tags, and line feed is the only control character.
#[cfg(unix)]
#[test]
fn names_with_control_characters_are_escaped() {
    let folder = tempfile::tempdir().unwrap();
    let name = "a\u{1b}]0;x\u{7}\n<b>\u{202e}\u{9b}&\"'.zstn";
    let original = checkpoint(&[("a", "U8", &[7; 100])]);
    let packed = pack(&Engine::new(1).unwrap(), &original, Effort::Fast).unwrap();
    std::fs::write(folder.path().join(name), packed).unwrap();
    let server = serve(folder.path());
    let page = get(server, "/", &[]).text();
    let shown = "a\\u{1b}]0;x\\u{7}\\n&lt;b>\\u{202e}\\u{9b}&amp;&quot;&#39;.safetensors</a>";
    assert!(page.contains(shown), "{page}");
    let links: Vec<&str> = page
        .split("href=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert_eq!(links.len(), 2, "{page}");
    for link in links {
        assert_eq!(get(server, link, &[]).status, 200, "{link}");
    }
    let is_raw = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    assert!(!page.contains(is_raw), "{page}");
}

/// A listing does not parse long headers. This file ends long before the end of its
/// declared header, and is still listed.
#[test]
fn a_listing_looks_at_first_bytes_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut head = b"ZSTN\x03\x01".to_vec();
    head.extend_from_slice(&90_000_000u64.to_le_bytes());
    // The layout flag decides which file a packed one with two extensions restores.
    for (name, flag) in [("long.zstn", 1), ("long.pt.zstn", 1), ("other.pt.zstn", 9)] {
        head[5] = flag;
        std::fs::write(folder.path().join(name), &head).unwrap();
    }
    std::fs::write(folder.path().join("empty.zstn"), b"").unwrap();
    std::fs::write(folder.path().join("m.zstn.index.json"), b"{ not read").unwrap();
    let page = get(serve(folder.path()), "/", &[]).text();
    assert!(page.contains("long.safetensors</a>"), "{page}");
    assert!(page.contains("long.pt.safetensors</a>"), "{page}");
    assert!(
        page.contains("other.pt</a>") && !page.contains("long.pt</a>"),
        "{page}"
    );
    assert!(page.contains("m.safetensors.index.json</a>"), "{page}");
    assert!(!page.contains("empty.safetensors"), "{page}");
}

#[test]
fn shards_come_with_their_index_and_all_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("a & b");
    std::fs::create_dir(&inner).unwrap();
    let engine = Engine::new(1).unwrap();
    let mut originals = Vec::new();
    for name in ["m-1", "m-2"] {
        let original = checkpoint(&[(name, "U8", name.as_bytes())]);
        let packed = pack(&engine, &original, Effort::Fast).unwrap();
        std::fs::write(inner.join(format!("{name}.zstn")), packed).unwrap();
        originals.push(original);
    }
    let index = |kind: &str| {
        format!("{{\"weight_map\": {{\"m-1\": \"m-1.{kind}\", \"m-2\": \"m-2.{kind}\"}}}}\n")
    };
    std::fs::write(inner.join("m.zstn.index.json"), index("zstn")).unwrap();
    std::fs::write(inner.join(".hidden"), "x").unwrap();
    let server = serve(folder.path());
    let answer = get(server, "/a%20&%20b/m.safetensors.index.json", &[]);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(
        String::from_utf8(answer.body).unwrap(),
        index("safetensors")
    );
    for (name, original) in ["m-1", "m-2"].iter().zip(originals) {
        let answer = get(server, &format!("/a%20&%20b/{name}.safetensors"), &[]);
        assert!(answer.body == original, "{name}");
    }
    let page = get(server, "/", &[]);
    assert!(String::from_utf8_lossy(&page.body).contains("a &amp; b"));
    let page = get(server, "/a%20&%20b/", &[]);
    assert_eq!(
        page.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    let page = String::from_utf8(page.body).unwrap();
    let links: Vec<&str> = page
        .split("href=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert_eq!(links.len(), 6, "{page}");
    for link in links {
        let link = link.replace("&amp;", "&");
        assert_eq!(get(server, &link, &[]).status, 200, "{link}");
    }
}

#[test]
fn the_viewer_is_next_to_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["page/assets", "files/_view"] {
        std::fs::create_dir_all(path(name)).unwrap();
    }
    for (name, content) in [
        ("page/index.html", "<!doctype html>"),
        ("page/assets/a.js", "export {}"),
        ("files/m.zstn", "0123456789"),
        ("files/_view/own.txt", "of the folder"),
    ] {
        std::fs::write(path(name), content).unwrap();
    }
    assert_eq!(bind(&path("files")).viewer_url(), None);
    let server = bind(&path("files")).with_viewer(Page::in_folder(&path("page")).unwrap());
    assert_eq!(server.viewer_url(), Some(format!("{}_view/", server.url())));
    let address = run(server);
    for (path, kind, body) in [
        ("/_view/index.html", "text/html", "<!doctype html>"),
        ("/_view/assets/a.js", "text/javascript", "export {}"),
        ("/_view/own.txt", "text/plain", "of the folder"),
        ("/m.zstn", "application/octet-stream", "0123456789"),
    ] {
        let answer = get(address, path, &[]);
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.body, body.as_bytes(), "{path}");
        assert!(
            answer.header("content-type").unwrap().starts_with(kind),
            "{path}"
        );
    }
    for (path, is_page) in [
        ("/_view/index.html", true),
        ("/_view/assets/a.js", true),
        ("/_view/own.txt", false),
        ("/m.zstn", false),
    ] {
        let answer = get(address, path, &[]);
        let policy = answer.header("content-security-policy");
        assert_eq!(policy.is_some_and(is_strict_policy), is_page, "{path}");
    }
    assert_eq!(get(address, "/_view/../secret", &[]).status, 404);
    assert_eq!(get(address, "/_view/missing.js", &[]).status, 404);
}
