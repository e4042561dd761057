//! Checks the documentation: links between documents point to existing files and
//! headings, and paths in the architecture pages exist.

use std::fs;
use std::path::{Path, PathBuf};

use zstn_tests::repository;

/// Returns every Markdown file of the project below `folder`.
fn documents(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let skipped = ["target", "node_modules", "dist", "vectors"];
        let hidden = name.as_encoded_bytes().starts_with(b".");
        if path.is_dir() && !hidden && !skipped.iter().any(|skipped| name == *skipped) {
            found.extend(documents(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found
}

/// Returns the text of a document without code blocks.
fn prose(document: &Path) -> String {
    let text = fs::read_to_string(document).expect("a document");
    text.split("```").step_by(2).collect()
}

/// Returns the targets of the links in `text`.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let rests = text.split("](").skip(1);
    rests.filter_map(|rest| rest.split(')').next())
}

/// Returns the anchors that GitHub generates for the headings of `document`.
fn anchors(document: &Path) -> Vec<String> {
    let text = prose(document);
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            title
                .chars()
                .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c))
                .map(|c| if c == ' ' { '-' } else { c })
                .collect()
        })
        .collect()
}

#[test]
fn no_document_has_marks_of_a_merge_conflict() {
    let marks = ["<<<<<<< ", ">>>>>>> ", "=======\n"];
    for document in documents(&repository()) {
        let text = fs::read_to_string(&document).expect("a document");
        let mut lines = text.split_inclusive('\n');
        let marked = lines.find(|line| marks.iter().any(|mark| line.starts_with(mark)));
        assert_eq!(marked, None, "{}", document.display());
    }
}

#[test]
fn links_lead_to_files_and_headings() {
    let documents = documents(&repository());
    assert!(documents.len() > 15, "{documents:?}");
    for document in documents {
        let folder = document.parent().expect("a folder");
        let text = prose(&document);
        for link in links(&text) {
            let own = "https://github.com/zstn/zstn/blob/main/";
            let (base, link) = match link.strip_prefix(own) {
                Some(path) => (repository(), path),
                None => (folder.to_path_buf(), link),
            };
            if link.contains("://") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => document.clone(),
                _ => base.join(path),
            };
            assert!(target.exists(), "{}: {link}", document.display());
            let is_known = anchor.is_empty() || anchors(&target).iter().any(|a| a == anchor);
            assert!(is_known, "{}: {link}", document.display());
        }
    }
}

#[test]
fn the_map_lists_every_page() {
    let root = repository();
    let map = root.join("docs/README.md");
    let text = prose(&map);
    let listed: Vec<PathBuf> = links(&text)
        .filter(|link| link.ends_with(".md"))
        .map(|link| root.join("docs").join(link))
        .filter_map(|path| path.canonicalize().ok())
        .collect();
    let pages = documents(&root.join("docs"));
    assert!(pages.len() > 40, "{pages:?}");
    for page in pages.iter().filter(|page| **page != map) {
        let page = page.canonicalize().expect("a page");
        assert!(
            listed.contains(&page),
            "docs/README.md lacks {}",
            page.display()
        );
    }
    // The README links to the list of documents.
    let readme = prose(&root.join("README.md"));
    assert!(links(&readme).any(|link| link == "docs/README.md"));
}

#[test]
fn paths_in_the_architecture_exist() {
    let root = repository();
    let folder = root.join("docs/architecture");
    let mut documents = documents(&folder);
    documents.extend(["ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| root.join(name)));
    let tops = [
        "core", "native", "wasm", "web-demo", "tests", "xtask", "docs",
    ];
    let mut paths = 0;
    for document in documents {
        for span in prose(&document).split('`').skip(1).step_by(2) {
            let top = span.split('/').next().unwrap_or_default();
            let is_path = span.contains('/') && tops.contains(&top) && !span.contains(' ');
            if is_path {
                assert!(root.join(span).exists(), "{}: {span}", document.display());
                paths += 1;
            }
        }
    }
    assert!(paths > 80, "{paths}");
}
