//! The rows of a plan.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use zstn_core::frame::select::EncodeOptions;

use super::key::{is_digest, key, key_against};
use crate::delta::MAX_BASES;
use crate::hub::Repository;
use crate::{Error, Result};

/// The longest line of a plan, in bytes.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// One file to pack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Row {
    /// Repository: `OWNER/NAME`.
    pub repo: String,
    /// Commit that the file is read from.
    pub revision: String,
    /// Path of the file in the repository.
    pub path: String,
    /// Length of the file in bytes.
    #[serde(rename = "size")]
    pub len_bytes: u64,
    /// SHA-256 of the file, in lower-case hex.
    pub sha256: String,
    /// [`key`] of the work; made from the SHA-256 where a plan has none.
    #[serde(default)]
    pub key: String,
    /// Keys of the packed files that it is stored as a difference from: the base, the
    /// base of that one, and so on, up to one that is none. Empty for a container.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bases: Vec<String>,
    /// Length of the largest tensor in bytes, if the plan has it: memory is reserved by
    /// it.
    #[serde(
        default,
        rename = "largest_tensor",
        skip_serializing_if = "Option::is_none"
    )]
    pub largest_tensor_bytes: Option<u64>,
    /// The version of the file where it was listed, such as an entity tag: a later plan
    /// takes the SHA-256 of the same version from this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl Row {
    /// Returns the row of a file, with its key.
    #[must_use]
    pub fn new(
        (repo, revision, path): (&str, &str, &str),
        len_bytes: u64,
        sha256: &str,
        options: impl Into<EncodeOptions>,
    ) -> Self {
        Self {
            repo: repo.into(),
            revision: revision.into(),
            path: path.into(),
            len_bytes,
            sha256: sha256.into(),
            key: key(sha256, options),
            bases: Vec::new(),
            largest_tensor_bytes: None,
            version: None,
        }
    }

    /// Returns the name of its packed file: `KEY.zstn`, or `KEY.z4dm` for a difference.
    #[must_use]
    pub fn packed_name(&self) -> String {
        packed_name(&self.key, !self.bases.is_empty())
    }

    /// Returns the names of the packed files that its own one needs, in the order of
    /// [`Row::bases`].
    #[must_use]
    pub fn base_names(&self) -> Vec<String> {
        let bases = self.bases.iter().enumerate();
        bases
            .map(|(number, key)| packed_name(key, number + 1 < self.bases.len()))
            .collect()
    }
}

fn packed_name(key: &str, is_difference: bool) -> String {
    match is_difference {
        true => format!("{key}.z4dm"),
        false => format!("{key}.zstn"),
    }
}

/// A share of a plan: the `index`th of `count`, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Its number, from 0.
    pub index: usize,
    /// The number of all.
    pub count: usize,
}

impl Shard {
    /// The whole plan.
    pub const ALL: Self = Self { index: 0, count: 1 };
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text
            .split_once('/')
            .and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        match parsed {
            Some((index, count)) if index < count => Ok(Self { index, count }),
            _ => Err("a share is i/n, with i from 0 to n - 1, like 0/8".into()),
        }
    }
}

/// Reads a plan. Rows without a key get that of the `options`.
///
/// # Errors
/// A file that cannot be read; [`Error::Usage`], with the line, for a row that is
/// not one, or whose key is not that of its content and the `options`.
pub fn read_plan(path: &Path, options: impl Into<EncodeOptions>) -> Result<Vec<Row>> {
    let options = options.into();
    let file = File::open(path).map_err(Error::file("open", path))?;
    let mut file = BufReader::new(file);
    let mut rows = Vec::new();
    for number in 1.. {
        let mut line = Vec::new();
        let mut limited = (&mut file).take(MAX_LINE_BYTES + 1);
        let read = limited.read_until(b'\n', &mut line);
        if read.map_err(Error::file("read", path))? == 0 {
            break;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let row = match line.len() as u64 > MAX_LINE_BYTES {
            true => Err(format!("it is longer than {MAX_LINE_BYTES} bytes")),
            false => row(&line, options),
        };
        rows.push(
            row.map_err(|why| Error::Usage(format!("{}, line {number}: {why}", path.display())))?,
        );
    }
    Ok(rows)
}

fn row(line: &[u8], options: EncodeOptions) -> Result<Row, String> {
    let mut row: Row = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    row.repo
        .parse::<Repository>()
        .map_err(|error| error.to_string())?;
    if !is_digest(&row.sha256) {
        return Err("sha256 has to be 64 hex digits in lower case".into());
    }
    let mut names = row.path.split('/');
    if names.any(|name| ["", ".", ".."].contains(&name)) {
        return Err("path has an empty component, . or ..".into());
    }
    if row.revision.is_empty() {
        return Err("revision is empty; give the commit".into());
    }
    if row.bases.len() > MAX_BASES || !row.bases.iter().all(|base| is_digest(base)) {
        return Err(format!(
            "bases has to be a list of at most {MAX_BASES} keys"
        ));
    }
    let expected = key_against(&row.sha256, options, &row.bases);
    if row.key.is_empty() {
        row.key.clone_from(&expected);
    }
    if row.key != expected {
        return Err(
            "the key is not that of this content, these options and this version of zstn; make the \
             plan again, or leave keys out"
                .into(),
        );
    }
    Ok(row)
}

/// Returns the rows of one share: of rows with one key the first, and of these
/// every `count`th. Rows with bases are in the share of the last of these, so that no
/// share waits for another. Shares together have every key once.
#[must_use]
pub fn shard(rows: &[Row], shard: Shard) -> Vec<&Row> {
    let mut positions: HashMap<&str, usize> = HashMap::new();
    let mut unique = Vec::new();
    for row in rows {
        if let Entry::Vacant(place) = positions.entry(&row.key) {
            place.insert(unique.len());
            unique.push(row);
        }
    }
    let is_own = |(position, row): &(usize, &Row)| {
        let base = row.bases.last();
        let of_base = base.and_then(|base| positions.get(&**base));
        of_base.unwrap_or(position) % shard.count.max(1) == shard.index
    };
    let own = unique.into_iter().enumerate().filter(is_own);
    own.map(|(_, row)| row).collect()
}

#[cfg(test)]
mod tests {
    use zstn_core::frame::select::Effort;

    use super::*;

    fn read(text: &str) -> Result<Vec<Row>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.jsonl");
        std::fs::write(&path, text).unwrap();
        read_plan(&path, Effort::Balanced)
    }

    fn line(number: usize) -> String {
        let digest = format!("{:064x}", number % 7);
        format!(
            r#"{{"repo":"o/n","revision":"r","path":"{number}.safetensors","size":1,"sha256":"{digest}"}}"#
        )
    }

    #[test]
    fn shares_have_every_content_once() {
        let text: String = (0..20).map(|number| line(number) + "\n\n").collect();
        let rows = read(&text).unwrap();
        assert_eq!(rows.len(), 20);
        let mut all: Vec<String> = Vec::new();
        for index in 0..3 {
            let part = shard(&rows, Shard { index, count: 3 });
            assert!((2..=3).contains(&part.len()));
            all.extend(part.iter().map(|row| row.key.clone()));
        }
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 7);
    }

    #[test]
    fn rows_with_bases_have_keys_and_names_of_their_own() {
        let base = "b".repeat(64);
        let with_base = line(0).replace("\"size\"", &format!("\"bases\":[\"{base}\"],\"size\""));
        let rows = read(&format!("{}\n{with_base}\n", line(0))).unwrap();
        assert_ne!(rows[0].key, rows[1].key);
        assert_eq!(rows[0].packed_name(), format!("{}.zstn", rows[0].key));
        assert_eq!(rows[1].packed_name(), format!("{}.z4dm", rows[1].key));
        assert_eq!(rows[1].base_names(), [format!("{base}.zstn")]);
    }

    #[test]
    fn differences_are_in_the_share_of_their_base() {
        let text: String = (0..7).map(|number| line(number) + "\n").collect();
        let base = &read(&text).unwrap()[3].key;
        let bases = format!("\"bases\":[\"{base}\"],\"size\"");
        let text: String = (0..7)
            .map(|number| line(number) + "\n" + &line(number).replace("\"size\"", &bases) + "\n")
            .collect();
        let rows = read(&text).unwrap();
        let share = |index| shard(&rows, Shard { index, count: 2 });
        assert_eq!(share(0).len() + share(1).len(), 14);
        let differences = share(0).iter().filter(|row| !row.bases.is_empty()).count();
        assert_eq!(differences, 7);
        assert!(share(0).iter().any(|row| row.key == *base));
    }

    #[test]
    fn wrong_rows_are_refused_with_their_line() {
        for wrong in [
            "{}",
            "[",
            &line(1).replace("o/n", "o"),
            &line(1).replace("1.safe", "../1.safe"),
            &line(1).replace("\"r\"", "\"\""),
            &line(1).replace("0000", "000G"),
            &line(1).replace("\"size\"", "\"key\":\"00\",\"size\""),
            &line(1).replace("\"size\"", "\"bases\":[\"../x\"],\"size\""),
        ] {
            let error = read(&format!("{}\n{wrong}\n", line(0))).unwrap_err();
            assert!(error.to_string().contains("line 2: "), "{error}");
        }
        for shard in ["", "1", "1/1", "-1/2", "a/b", "0/0"] {
            assert!(shard.parse::<Shard>().is_err(), "{shard}");
        }
    }
}
