//! `THIRD-PARTY-LICENSES.txt`, which lists the packages in an artifact with the texts
//! that their licences require to be kept.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::anyhow;
use spdx::{Expression, Licensee, ParseMode};

use crate::prelude::*;
use crate::shipped::{Package, Shipped};

const RULE: &str =
    "--------------------------------------------------------------------------------";
const HEAD: &str = "\
Licences of the packages in zstn

zstn itself is under the Apache License 2.0 (LICENSE). What is built from this
folder also contains the packages below, on one system or another. Where a package
offers several licences, the one in brackets is made use of.

Written by `cargo xtask deps --write`.
";

/// Order of preference if a package offers several licences.
const PREFERRED: [&str; 9] = [
    APACHE,
    "MIT",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unicode-3.0",
    "BlueOak-1.0.0",
    "CDLA-Permissive-2.0",
    "Apache-2.0 WITH LLVM-exception",
];
const APACHE: &str = "Apache-2.0";

/// Beginnings of the names of files that contain licences and notices.
#[rustfmt::skip]
const FILES: [&str; 6] = ["license", "licence", "copying", "copyright", "notice", "unlicense"];
/// Extensions of files that are not licences although their names begin like them.
const NO_FILES: [&str; 7] = [".rs", ".c", ".h", ".toml", ".json", ".js", ".py"];

/// The licences of data that this repository's crates contain from other projects: the
/// data, and the path of the licence.
const DATA: [(&str, &str); 1] = [(
    "ggml, the grids of quantised element types: LICENSE-ggml",
    "core/src/container/foreign/gguf/blocks/LICENSE-ggml",
)];

/// Folders whose files are not part of a package's licence.
const SKIPPED: [&str; 3] = ["tests", "target", "dist"];
/// Maximum depth of nested folders that are searched.
const DEPTH: usize = 4;

pub fn text(shipped: &Shipped) -> Result<String> {
    let mut out = format!("{HEAD}\n{RULE}\n\n");
    // Maps the text of a file to the packages that contain it.
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, package) in &shipped.packages {
        let chosen = chosen(package.licence()).with_context(|| format!("package {key}"))?;
        writeln!(out, "{key} [{}]", chosen.join(" and "))?;
        if let Some(origin) = &package.repository {
            writeln!(out, "    {origin}")?;
        }
        let mut files = files(package, &chosen)?;
        if files.is_empty() {
            let authors = match package.authors.is_empty() {
                true => format!("The authors of {}", package.name),
                false => package.authors.join(", "),
            };
            for name in chosen.iter().filter(|name| *name != APACHE) {
                let text = standard_text(name, &format!("Copyright (c) {authors}"))?;
                files.push((format!("{name}, the standard text"), text));
            }
        }
        for (name, text) in files {
            let users = texts.entry(text.trim().to_owned()).or_default();
            users.push(format!("{key}: {name}"));
        }
    }
    for (users, path) in DATA {
        let text = fs::read_to_string(paths::path(path))?;
        texts
            .entry(text.trim().to_owned())
            .or_default()
            .push(users.into());
    }
    let mut section =
        |users: &str, text: &str| writeln!(out, "\n{RULE}\n{users}\n{RULE}\n\n{text}");
    let apache = standard_text(APACHE, "")?;
    section(&format!("All packages with [{APACHE}]"), apache.trim())?;
    let mut sections: Vec<_> = texts
        .into_iter()
        .map(|(text, users)| (users.join("\n"), text))
        .collect();
    sections.sort();
    for (users, text) in sections {
        section(&users, &text)?;
    }
    // Editors would remove trailing spaces, so they are removed here.
    let lines: Vec<&str> = out.lines().map(str::trim_end).collect();
    Ok(lines.join("\n") + "\n")
}

/// Returns the licences that are chosen from an SPDX expression.
fn chosen(expression: &str) -> Result<Vec<String>> {
    let parsed = Expression::parse_mode(expression, ParseMode::LAX)
        .map_err(|error| anyhow!("`{expression}` is not an SPDX expression: {}", error.reason))?;
    let accepted = PREFERRED.into_iter().map(Licensee::parse);
    let accepted = accepted.collect::<Result<Vec<_>, _>>()?;
    let needed = parsed.minimized_requirements(&accepted).map_err(|_| {
        anyhow!("no licence in `{expression}` is one that this project accepts ({PREFERRED:?})")
    })?;
    let mut names: Vec<String> = needed.iter().map(ToString::to_string).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// Returns the standard text of a licence from SPDX, with the copyright holder.
fn standard_text(name: &str, copyright: &str) -> Result<String> {
    let id = name.split(" WITH ").next().unwrap_or(name);
    let licence = spdx::license_id(id).with_context(|| format!("SPDX does not know {id}"))?;
    let is_blank = |line: &str| line.trim_start().starts_with("Copyright (c) <");
    let fill = |line| if is_blank(line) { copyright } else { line };
    let lines = licence.text().lines().map(fill);
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

/// Returns names and texts of the files of `package` that must be kept: notices,
/// licences of included code, and its own licence. If only Apache-2.0 is chosen, the
/// own licence is omitted, because its text is the same for all packages.
fn files(package: &Package, chosen: &[String]) -> Result<Vec<(String, String)>> {
    let folder = package.folder();
    let is_skipped = |name: &str| name.starts_with('.') || SKIPPED.contains(&name);
    let is_wanted = |entry: &Path| {
        let (name, place) = (
            lower_name(entry),
            entry.strip_prefix(&folder).unwrap_or(entry),
        );
        match entry.is_dir() {
            true => !is_skipped(&name) && place.components().count() <= DEPTH,
            false => {
                FILES.iter().any(|start| name.starts_with(start))
                    && !NO_FILES.iter().any(|ending| name.ends_with(ending))
            }
        }
    };
    let found = match package.is_source() {
        true => paths::walk(&folder, &is_wanted)
            .with_context(|| format!("the source of {} cannot be read", package.name))?,
        false => Vec::new(),
    };
    let mut files = Vec::new();
    for path in found {
        let relative = path.strip_prefix(&folder)?;
        let is_own = relative.components().count() == 1;
        if chosen == [APACHE] && is_own && !lower_name(relative).starts_with("notice") {
            continue;
        }
        let text = String::from_utf8_lossy(&fs::read(&path)?).replace("\r\n", "\n");
        if !is_another(&text, is_own, chosen) {
            files.push((relative.display().to_string().replace('\\', "/"), text));
        }
    }
    Ok(files)
}

/// Returns whether `text` is a licence that is not used. The GPL never is: only zstd
/// offers it, as an alternative to BSD. A package's own copy of Apache-2.0 is not used
/// if only other licences of the package are chosen.
fn is_another(text: &str, is_own: bool, chosen: &[String]) -> bool {
    let uses_apache = chosen.iter().any(|name| name.starts_with(APACHE));
    let text = text.trim_start();
    text.starts_with("GNU GENERAL PUBLIC LICENSE")
        || is_own && !uses_apache && text.starts_with("Apache License")
}

fn lower_name(path: &Path) -> String {
    paths::name(path).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_licence_is_chosen_of_several_and_all_where_all_are_needed() {
        assert_eq!(chosen("MIT/Apache-2.0").expect("known"), [APACHE]);
        assert_eq!(chosen("Unlicense OR MIT").expect("known"), ["MIT"]);
        let both = chosen("(MIT OR Apache-2.0) AND Unicode-3.0").expect("known");
        assert_eq!(both, [APACHE, "Unicode-3.0"]);
        assert!(chosen("GPL-3.0-only").is_err());
        assert!(chosen("no licence").is_err());
    }

    #[test]
    fn licences_that_are_not_chosen_are_left_out() {
        let mit = ["MIT".to_owned()];
        assert!(is_another("\n  Apache License\n", true, &mit));
        assert!(!is_another("Apache License", false, &mit));
        assert!(is_another("  GNU GENERAL PUBLIC LICENSE", false, &mit));
        assert!(!is_another("MIT License", true, &mit));
    }

    #[test]
    fn every_accepted_licence_has_a_text_with_a_copyright() {
        for name in PREFERRED {
            assert!(
                standard_text(name, "").expect("known").len() > 100,
                "{name}"
            );
        }
        let text = standard_text("MIT", "Copyright (c) Ada").expect("known");
        assert!(
            text.contains("Copyright (c) Ada") && !text.contains('<'),
            "{text}"
        );
    }
}
