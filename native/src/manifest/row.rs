//! The rows of a plan.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use zstn_core::frame::select::EncodeOptions;

use super::key::{is_digest, key};
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
    let expected = key(&row.sha256, options);
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
/// every `count`th. Shares together have every key once.
#[must_use]
pub fn shard(rows: &[Row], shard: Shard) -> Vec<&Row> {
    let mut seen = HashSet::new();
    let unique = rows.iter().filter(|row| seen.insert(&*row.key));
    unique
        .skip(shard.index)
        .step_by(shard.count.max(1))
        .collect()
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
    fn wrong_rows_are_refused_with_their_line() {
        for wrong in [
            "{}",
            "[",
            &line(1).replace("o/n", "o"),
            &line(1).replace("1.safe", "../1.safe"),
            &line(1).replace("\"r\"", "\"\""),
            &line(1).replace("0000", "000G"),
            &line(1).replace("\"size\"", "\"key\":\"00\",\"size\""),
        ] {
            let error = read(&format!("{}\n{wrong}\n", line(0))).unwrap_err();
            assert!(error.to_string().contains("line 2: "), "{error}");
        }
        for shard in ["", "1", "1/1", "-1/2", "a/b", "0/0"] {
            assert!(shard.parse::<Shard>().is_err(), "{shard}");
        }
    }
}
