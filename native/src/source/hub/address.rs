//! The addresses of files in a model hub: `hf://OWNER/NAME@REVISION/FOLDER/FILE`.

use std::fmt;

use percent_encoding::{percent_decode_str, utf8_percent_encode};

use super::repository::{Repository, is_name, is_plain, split_kind};
use crate::source::address::PLAIN;
use crate::{Error, Result, display};

/// The revision of an address that does not state one.
const MAIN: &str = "main";

/// A parsed address. File names have no escapes; revisions may be percent-encoded,
/// which is required for a slash in a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct HubAddress {
    repository: Repository,
    revision: Option<String>,
    path: String,
}

impl HubAddress {
    /// Parses an address.
    ///
    /// # Errors
    /// [`Error::Usage`], with the correct syntax.
    pub(in super::super) fn parse(address: &str) -> Result<Self> {
        parse(address).map_err(|why| {
            Error::Usage(format!(
                "{}: {why}; a file in a hub is hf://OWNER/NAME/FILE, \
                 hf://OWNER/NAME@REVISION/FILE or hf://datasets/OWNER/NAME/FILE",
                display::address(address)
            ))
        })
    }

    /// Returns the address of the same file in the commit, branch or tag `revision`.
    pub(super) fn at(&self, revision: &str) -> Self {
        Self {
            revision: Some(revision.into()),
            ..self.clone()
        }
    }

    /// Returns the http(s) address of the file, in `commit` if it is known.
    pub(super) fn url(&self, endpoint: &str, commit: Option<&str>) -> String {
        let revision = utf8_percent_encode(commit.unwrap_or(self.revision()), PLAIN);
        let names = self.path.split('/');
        let names: Vec<String> = names
            .map(|name| utf8_percent_encode(name, PLAIN).to_string())
            .collect();
        let page = self.page(endpoint);
        format!("{page}/resolve/{revision}/{}", names.join("/"))
    }

    /// Returns the address of the repository's web page.
    pub(super) fn page(&self, endpoint: &str) -> String {
        format!("{endpoint}/{}", self.repository)
    }

    /// Returns the owner and the name of the repository.
    pub(super) fn repository(&self) -> &str {
        self.repository.name()
    }

    pub(super) fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or(MAIN)
    }
}

impl fmt::Display for HubAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hf://{}", self.repository)?;
        if let Some(revision) = &self.revision {
            write!(f, "@{}", utf8_percent_encode(revision, PLAIN))?;
        }
        write!(f, "/{}", self.path)
    }
}

fn parse(address: &str) -> Result<HubAddress, String> {
    let rest = address.split_once("://").map_or("", |(_, rest)| rest);
    if rest.split('/').next() == Some("buckets") {
        return Err("buckets cannot be read".into());
    }
    let (kind, rest) = split_kind(rest);
    let no_file = || "this names no file in a repository".to_owned();
    let (owner, rest) = rest.split_once('/').ok_or_else(no_file)?;
    // An `@` after the end of the repository name belongs to the file name.
    let (name, rest) = rest.split_at(rest.find(['@', '/']).ok_or_else(no_file)?);
    if let Some(odd) = [owner, name].into_iter().find(|name| !is_name(name)) {
        return Err(format!("`{odd}` is not a name of an owner or a repository"));
    }
    let repository = Repository::of_parts(kind, &[owner, name]).ok_or_else(no_file)?;
    let (revision, path) = match rest.strip_prefix('@') {
        Some(rest) => {
            let (revision, path) = revision(rest).ok_or_else(no_file)?;
            let revision = percent_decode_str(revision).decode_utf8();
            let revision = revision.map_err(|_| "the revision is not a text")?;
            if revision.is_empty() {
                return Err("the revision after @ is empty".into());
            }
            if has_odd_component(&revision) {
                return Err("the revision has an empty component, . or ..".into());
            }
            (Some(revision.into_owned()), path)
        }
        None => (None, &rest[1..]),
    };
    if path.is_empty() || path.ends_with('/') {
        return Err(no_file());
    }
    if has_odd_component(path) {
        return Err("the path of the file has an empty component, . or ..".into());
    }
    Ok(HubAddress {
        repository,
        revision,
        path: path.into(),
    })
}

/// Splits the text after `@` into the revision and the path. The references of pull
/// requests and conversions may be written with unescaped slashes.
fn revision(rest: &str) -> Option<(&str, &str)> {
    if let Some(after) = rest.strip_prefix("refs/") {
        let (kind, after) = after.split_once('/')?;
        let (name, path) = after.split_once('/').unwrap_or((after, ""));
        let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
        let is_reference = match kind {
            "pr" => is_number,
            "convert" => is_plain(name),
            _ => false,
        };
        if is_reference && !name.is_empty() {
            return Some((rest[..rest.len() - path.len()].trim_end_matches('/'), path));
        }
    }
    rest.split_once('/')
}

/// Returns whether a component is empty, `.` or `..`. URLs normalise all of these away.
fn has_odd_component(path: &str) -> bool {
    path.split('/').any(|name| ["", ".", ".."].contains(&name))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::super::repository::RepoKind;
    use super::*;

    /// The table of addresses that the tests of the npm package also use.
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Table {
        files: Vec<Row>,
        without_file: Vec<Row>,
        refused: Vec<String>,
    }

    #[derive(Deserialize)]
    struct Row {
        address: String,
        #[serde(default)]
        kind: String,
        repository: String,
        revision: Option<String>,
        #[serde(default)]
        file: String,
    }

    fn table() -> Table {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/hub/addresses.json");
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }

    #[test]
    fn addresses_are_those_of_the_hub() {
        for row in table().files {
            let address = &row.address;
            let parsed = HubAddress::parse(address).unwrap();
            let kind = match parsed.repository.kind() {
                RepoKind::Model => "",
                kind => kind.plural(),
            };
            assert_eq!(kind, row.kind, "{address}");
            assert_eq!(parsed.repository.name(), row.repository, "{address}");
            assert_eq!(parsed.revision, row.revision, "{address}");
            assert_eq!(parsed.path, row.file, "{address}");
            // The displayed address parses to the same file.
            let shown = parsed.at("c/d").to_string();
            let again = HubAddress::parse(&shown).unwrap();
            assert_eq!(again, parsed.at("c/d"), "{shown}");
            assert_eq!(HubAddress::parse(&parsed.to_string()).unwrap(), parsed);
        }
        for (address, url) in [
            ("hf://o/n/f.zstn", "o/n/resolve/main/f.zstn"),
            ("hf://o/n/a/b c?#%20", "o/n/resolve/main/a/b%20c%3F%23%2520"),
            ("hf://spaces/o/n@v1.0/a/f", "spaces/o/n/resolve/v1.0/a/f"),
            ("hf://o/n@refs/pr/12/a/f", "o/n/resolve/refs%2Fpr%2F12/a/f"),
            ("hf://o/n@feature%2Fx/a@b", "o/n/resolve/feature%2Fx/a%40b"),
        ] {
            let parsed = HubAddress::parse(address).unwrap();
            assert_eq!(parsed.url("E", None), format!("E/{url}"), "{address}");
        }
    }

    #[test]
    fn others_are_refused_with_the_right_spelling() {
        let table = table();
        let without_file = table.without_file.into_iter().map(|row| row.address);
        for address in without_file.chain(table.refused) {
            let error = HubAddress::parse(&address).unwrap_err();
            assert!(matches!(error, Error::Usage(_)), "{address}: {error}");
            let text = error.to_string();
            assert!(text.contains("hf://OWNER/NAME@REVISION/FILE"), "{text}");
        }
    }
}
