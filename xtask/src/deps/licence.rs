//! Selection of a package's licences, and their texts.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use spdx::{Expression, Licensee, ParseMode};

use super::package::Package;

/// Order of preference if a package offers several licences.
const PREFERRED: [&str; 9] = [
    "Apache-2.0",
    "MIT",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unicode-3.0",
    "BlueOak-1.0.0",
    "CDLA-Permissive-2.0",
    "Apache-2.0 WITH LLVM-exception",
];

/// Beginnings of the names of files that contain licences and notices.
const FILES: [&str; 6] = [
    "license",
    "licence",
    "copying",
    "copyright",
    "notice",
    "unlicense",
];

/// Returns the licences that are chosen from an SPDX expression.
pub fn chosen(expression: &str) -> Result<Vec<String>> {
    let parsed = Expression::parse_mode(expression, ParseMode::LAX)
        .map_err(|error| anyhow!("`{expression}` is not an SPDX expression: {}", error.reason))?;
    let accepted = PREFERRED.map(Licensee::parse);
    let accepted: Vec<Licensee> = accepted.into_iter().collect::<Result<_, _>>()?;
    let needed = parsed.minimized_requirements(&accepted).map_err(|_| {
        anyhow!("no licence in `{expression}` is one that this project accepts ({PREFERRED:?})")
    })?;
    let mut names: Vec<String> = needed.iter().map(ToString::to_string).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// Returns the standard text of a licence from SPDX.
pub fn standard_text(name: &str) -> Result<&'static str> {
    let id = name.split(" WITH ").next().unwrap_or(name);
    let licence = spdx::license_id(id).with_context(|| format!("SPDX does not know {id}"))?;
    Ok(licence.text())
}

/// A licence or notice file of a package.
pub struct LicenceFile {
    /// Path of the file in the package.
    pub path: String,
    pub text: String,
}

/// Returns the files of `package` that must be kept: notices, licences of included
/// code, and its own licence. If only Apache-2.0 is chosen, the own licence is omitted,
/// because its text is the same for all packages.
pub fn files(package: &Package, chosen: &[String]) -> Result<Vec<LicenceFile>> {
    let mut paths = Vec::new();
    find(&package.folder, 0, &mut paths)
        .with_context(|| format!("the source of {} cannot be read", package.name))?;
    paths.sort();
    let is_apache = chosen == ["Apache-2.0"];
    let mut files = Vec::new();
    for path in paths {
        let relative = path.strip_prefix(&package.folder).unwrap_or(&path);
        let name = lower_name(relative);
        let is_own = relative.components().count() == 1;
        if is_apache && is_own && !name.starts_with("notice") {
            continue;
        }
        let bytes = fs::read(&path).with_context(|| format!("{} is unreadable", path.display()))?;
        let text = String::from_utf8_lossy(&bytes).replace("\r\n", "\n");
        if is_another(&text, is_own && !is_apache, chosen) {
            continue;
        }
        let path = relative.display().to_string().replace('\\', "/");
        files.push(LicenceFile { path, text });
    }
    Ok(files)
}

/// Returns whether `text` is a licence that is not chosen: the GPL, which only zstd
/// offers as an alternative to BSD; or Apache-2.0 among the package's own files.
fn is_another(text: &str, is_own: bool, chosen: &[String]) -> bool {
    let text = text.trim_start();
    let uses_apache = chosen.iter().any(|name| name.starts_with("Apache-2.0"));
    text.starts_with("GNU GENERAL PUBLIC LICENSE")
        || is_own && !uses_apache && text.starts_with("Apache License")
}

fn find(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let name = lower_name(&path);
        if entry.file_type()?.is_dir() {
            let is_skipped = name.starts_with('.') || ["tests", "target", "dist"].contains(&&*name);
            if depth < 4 && !is_skipped {
                find(&path, depth + 1, found)?;
            }
            continue;
        }
        let is_code = [".rs", ".c", ".h", ".toml", ".json", ".js", ".py"]
            .iter()
            .any(|ending| name.ends_with(ending));
        if !is_code && FILES.iter().any(|start| name.starts_with(start)) {
            found.push(path);
        }
    }
    Ok(())
}

fn lower_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_licence_is_chosen_of_several_and_all_where_all_are_needed() {
        assert_eq!(chosen("MIT/Apache-2.0").expect("known"), ["Apache-2.0"]);
        assert_eq!(chosen("Unlicense OR MIT").expect("known"), ["MIT"]);
        assert_eq!(
            chosen("(MIT OR Apache-2.0) AND Unicode-3.0").expect("known"),
            ["Apache-2.0", "Unicode-3.0"]
        );
    }

    #[test]
    fn a_licence_that_is_not_accepted_is_an_error() {
        let error = chosen("GPL-3.0-only").expect_err("refused").to_string();
        assert!(error.contains("GPL-3.0-only"), "{error}");
        assert!(chosen("no licence").is_err());
    }

    #[test]
    fn texts_of_licences_that_are_not_made_use_of_are_left_out() {
        let mit = ["MIT".to_owned()];
        assert!(is_another("\n  Apache License\n", true, &mit));
        assert!(!is_another("Apache License", false, &mit));
        assert!(is_another("  GNU GENERAL PUBLIC LICENSE", false, &mit));
        assert!(!is_another("MIT License", true, &mit));
    }

    #[test]
    fn every_accepted_licence_has_a_text() {
        for name in PREFERRED {
            assert!(standard_text(name).expect("known").len() > 100, "{name}");
        }
    }
}
