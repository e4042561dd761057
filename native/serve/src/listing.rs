//! The generated page of a folder that has no `index.html`.

use std::fmt::Write;
use std::io::Read;
use std::path::Path;

use percent_encoding::utf8_percent_encode;
use zstn_core::container::zstn::MAGIC;

use super::path::unpacked_name;
use super::root::{Absent, Root};
use zstn::display::{escaped as printable, size};
use zstn::internals::{PLAIN, regular};

/// Maximum number of lines on a page.
const MAX_LINES: usize = 10_000;

/// One line of the page.
struct Line {
    name: String,
    note: String,
    is_link: bool,
}

/// Returns the page of `folder`, which was requested as `address`. It lists files and
/// folders by name, without hidden ones, and the unpacked names of packed files.
pub(super) fn page(root: &Root, folder: &Path, address: &str) -> std::io::Result<String> {
    let mut lines = Vec::new();
    let mut entries = folder.read_dir()?;
    for entry in entries.by_ref() {
        if lines.len() >= MAX_LINES {
            break;
        }
        let name = entry?.file_name();
        if let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) {
            list(root, &folder.join(name), name, &mut lines);
        }
    }
    lines.sort_by(|a, b| a.name.cmp(&b.name));
    let title = escaped(address);
    // Exactly one leading slash, because `//` would begin a host name.
    let base = address.trim_matches('/');
    let base = if base.is_empty() {
        String::new()
    } else {
        format!("/{base}")
    };
    let base = escaped(&base);
    let mut html = format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n<h1>{title}</h1>\n<ul>\n"
    );
    for line in lines {
        let (name, note) = (escaped(&line.name), escaped(&line.note));
        let _ = if line.is_link {
            let link = utf8_percent_encode(&line.name, PLAIN);
            writeln!(html, "<li><a href=\"{base}/{link}\">{name}</a> {note}")
        } else {
            writeln!(html, "<li>{name} {note}")
        };
    }
    html.push_str("</ul>\n");
    if entries.next().is_some() {
        let _ = writeln!(
            html,
            "<p>There are more files than the {MAX_LINES} names above.</p>"
        );
    }
    Ok(html)
}

fn list(root: &Root, path: &Path, name: &str, lines: &mut Vec<Line>) {
    let mut line = |name: &str, note: String, is_link| {
        lines.push(Line {
            name: name.into(),
            note,
            is_link,
        });
    };
    let real = match root.follow(path) {
        Ok(real) => real,
        Err(Absent::Nothing) => return,
        Err(Absent::Outside(_)) => {
            line(
                name,
                "a link out of this folder, not followed".into(),
                false,
            );
            return;
        }
    };
    let Ok(metadata) = real.metadata() else {
        return;
    };
    if metadata.is_dir() {
        line(name, "folder".into(), true);
        return;
    }
    if !metadata.is_file() {
        return;
    }
    line(name, size(metadata.len()), true);
    if let Some(other) = unpacked_name(name)
        && path.with_file_name(&other).symlink_metadata().is_err()
        && looks_unpackable(&real, name)
    {
        line(&other, format!("unpacked from {name}"), true);
    }
}

/// Returns whether a packed file or index can probably be served unpacked. Only the
/// first bytes are checked, because headers may be large and a folder may have
/// thousands of files.
fn looks_unpackable(path: &Path, name: &str) -> bool {
    if !name.ends_with(".zstn") {
        return true;
    }
    // Magic, version, and a layout that has an index.
    let mut head = [0; 6];
    let read = regular::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head.starts_with(&MAGIC) && head[5] != 0
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in printable(text).chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}
