//! `THIRD-PARTY-LICENSES.txt`, which lists the packages in an artifact with the texts
//! that their licences require to be kept.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, Result};

use super::licence::{self, LicenceFile};
use super::package::{Package, Shipped};

const RULE: &str =
    "--------------------------------------------------------------------------------";
const HEAD: &str = "\
Licences of the packages in zstn

zstn itself is under the Apache License 2.0 (LICENSE). What is built from this
folder also contains the packages below, on one system or another. Where a package
offers several licences, the one in brackets is made use of.

Written by `cargo xtask deps --write`.
";

/// Returns the content of the file.
pub fn text(shipped: &Shipped) -> Result<String> {
    let mut out = format!("{HEAD}\n{RULE}\n\n");
    // Maps the text of a file to the packages that contain it.
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut has_apache = false;
    for (key, package) in shipped.packages() {
        let chosen = licence::chosen(&package.licence).with_context(|| format!("package {key}"))?;
        has_apache |= chosen.iter().any(|name| name.starts_with("Apache-2.0"));
        writeln!(out, "{key} [{}]", chosen.join(" and "))?;
        if !package.origin.is_empty() {
            writeln!(out, "    {}", package.origin)?;
        }
        let mut files = licence::files(package, &chosen)?;
        if files.is_empty() {
            files = standard(package, &chosen)?;
        }
        for file in files {
            let users = texts.entry(file.text.trim().to_owned()).or_default();
            users.push(format!("{key}: {}", file.path));
        }
    }
    for runtime in &shipped.runtimes {
        let chosen = licence::chosen(runtime.licence)?;
        has_apache |= chosen == ["Apache-2.0"];
        writeln!(out, "{} [{}]", runtime.name, chosen.join(" and "))?;
        writeln!(out, "    {}", runtime.origin)?;
        if chosen != ["Apache-2.0"] {
            for name in &chosen {
                let text = with_copyright(licence::standard_text(name)?, runtime.copyright);
                let users = texts.entry(text.trim().to_owned()).or_default();
                users.push(runtime.name.to_owned());
            }
        }
    }
    if has_apache {
        let text = licence::standard_text("Apache-2.0")?;
        writeln!(
            out,
            "\n{RULE}\nAll packages with [Apache-2.0]\n{RULE}\n\n{}",
            text.trim()
        )?;
    }
    let mut sections: Vec<(Vec<String>, String)> = texts
        .into_iter()
        .map(|(text, users)| (users, text))
        .collect();
    sections.sort();
    for (users, text) in sections {
        let users = users.join("\n");
        writeln!(out, "\n{RULE}\n{users}\n{RULE}\n\n{text}")?;
    }
    // Editors would remove trailing spaces, so they are removed here.
    let lines: Vec<&str> = out.lines().map(str::trim_end).collect();
    Ok(lines.join("\n") + "\n")
}

/// Returns the standard texts of licences for a package that contains none, except for
/// the text of Apache-2.0.
fn standard(package: &Package, chosen: &[String]) -> Result<Vec<LicenceFile>> {
    let authors = match package.authors.is_empty() {
        true => format!("The authors of {}", package.name),
        false => package.authors.join(", "),
    };
    let others = chosen.iter().filter(|name| *name != "Apache-2.0");
    others
        .map(|name| {
            let text = with_copyright(
                licence::standard_text(name)?,
                &format!("Copyright (c) {authors}"),
            );
            Ok(LicenceFile {
                path: format!("{name}, which its manifest names"),
                text,
            })
        })
        .collect()
}

/// Inserts the copyright holder into the text of a licence.
fn with_copyright(text: &str, copyright: &str) -> String {
    let is_blank = |line: &&str| line.trim_start().starts_with("Copyright (c) <");
    let lines = text.lines().map(|line| match is_blank(&line) {
        true => copyright,
        false => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_text_of_mit_gets_a_copyright() {
        let text = licence::standard_text("MIT").expect("known");
        let filled = with_copyright(text, "Copyright (c) Ada");
        assert!(filled.contains("Copyright (c) Ada"), "{filled}");
        assert!(!filled.contains('<'), "{filled}");
    }
}
