//! The page of a folder that has none of its own.

use std::fmt::Write;
use std::path::Path;

use percent_encoding::utf8_percent_encode;

use super::path::unpacked_name;
use crate::source::PLAIN;

/// The page of `folder`, which was asked for as `address`; files and folders
/// by name but for hidden ones, and files that can be had unpacked.
/// `can_be_unpacked` tells whether a packed one can.
pub(super) fn page(
    folder: &Path,
    address: &str,
    can_be_unpacked: impl Fn(&Path) -> bool,
) -> std::io::Result<String> {
    let mut names = Vec::new();
    for entry in folder.read_dir()? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let Some(name) = name.filter(|name| !name.starts_with('.')) else {
            continue;
        };
        let Ok(metadata) = path.metadata() else {
            continue;
        };
        let note = if metadata.is_dir() {
            "folder".into()
        } else {
            format!("{} bytes", metadata.len())
        };
        names.push((name.to_owned(), note));
        let other = unpacked_name(name).filter(|_| metadata.is_file());
        if let Some(other) = other
            && path.with_file_name(&other).symlink_metadata().is_err()
            && can_be_unpacked(&path)
        {
            names.push((other, format!("unpacked from {name}")));
        }
    }
    names.sort();
    let title = escaped(address);
    let base = address.trim_end_matches('/');
    let mut html = format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n<h1>{title}</h1>\n<ul>\n"
    );
    for (name, note) in names {
        let link = utf8_percent_encode(&name, PLAIN);
        let (base, name, note) = (escaped(base), escaped(&name), escaped(&note));
        let _ = writeln!(html, "<li><a href=\"{base}/{link}\">{name}</a> {note}");
    }
    html.push_str("</ul>\n");
    Ok(html)
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    out
}
