//! Reading plans, dividing them into shares, their rows, and the keys of the
//! rows' results.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use zstn::internals::regular;
use zstn::{Error, Result};
use zstn_core::catalog::{FileKind, format_of_extension, has_other_extension};
use zstn_core::frame::select::EncodeOptions;

use super::bases::{Base, Bases, KnownBases};
use crate::hub::Repository;

pub(crate) use crate::proof::hex;

/// Maximum length of a line, in bytes.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// Reads a plan. A row without a key gets the key for these `options`.
///
/// # Errors
/// If the file cannot be read; [`Error::Usage`] with the line number for an invalid
/// row, one whose key does not match its content and the `options`, or one that gives
/// a key other bases than an earlier row.
pub fn read_plan(path: &Path, options: impl Into<EncodeOptions>) -> Result<Vec<Row>> {
    read_rows(path, Some(options.into()))
}

/// Reads a plan made with any options and any version. Every row must have a key.
///
/// # Errors
/// If the file cannot be read; [`Error::Usage`] with the line number for an invalid
/// row, or one that gives a key other bases than an earlier row.
pub fn load_plan(path: &Path) -> Result<Vec<Row>> {
    read_rows(path, None)
}

fn read_rows(path: &Path, options: Option<EncodeOptions>) -> Result<Vec<Row>> {
    let file = regular::open(path).map_err(Error::file("open", path))?;
    let mut file = BufReader::new(file);
    let mut rows = Vec::new();
    let mut known = KnownBases::default();
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
            false => row(&line, options).and_then(|row| known.add(&row).map(|()| row)),
        };
        rows.push(
            row.map_err(|why| Error::Usage(format!("{}, line {number}: {why}", path.display())))?,
        );
    }
    Ok(rows)
}

fn row(line: &[u8], options: Option<EncodeOptions>) -> Result<Row, String> {
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
    let Some(options) = options else {
        return match is_digest(&row.key) {
            true => Ok(row),
            false => Err("it has no key".into()),
        };
    };
    let expected = key_against((&row.path, &row.sha256), options, &row.bases);
    if row.key.is_empty() {
        row.key.clone_from(&expected);
    }
    if row.key != expected {
        return Err(
            "the key does not match this content, these options and this version of zstn; make \
             the plan again, or leave keys out"
                .into(),
        );
    }
    Ok(row)
}

/// A share of a plan, which is split into `count` shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanShare {
    /// Number of the share, from 0.
    pub index: usize,
    /// Number of shares.
    pub count: usize,
}

impl PlanShare {
    /// The only share of an unsplit plan.
    pub const ALL: Self = Self { index: 0, count: 1 };
}

impl FromStr for PlanShare {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text
            .split_once('/')
            .and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        match parsed {
            Some((index, count)) if index < count => Ok(Self { index, count }),
            _ => Err("a share must be i/n, with i from 0 to n - 1, like 0/8".into()),
        }
    }
}

/// Returns the rows that have the key of an earlier row, by that key. They need no work
/// of their own.
#[cfg(feature = "worker")]
pub(crate) fn repeated(rows: &[Row]) -> HashMap<&str, Vec<&Row>> {
    let mut seen = HashSet::new();
    let mut repeated: HashMap<&str, Vec<&Row>> = HashMap::new();
    for row in rows {
        if !seen.insert(&*row.key) {
            repeated.entry(&row.key).or_default().push(row);
        }
    }
    repeated
}

/// Returns the rows of one share, as [`share`] divides them.
#[must_use]
pub fn shard(rows: &[Row], shard: PlanShare) -> Vec<&Row> {
    let keys = rows.iter().map(|row| {
        let bases = row.bases.all().into_iter().map(Base::key);
        (row.key.as_str(), bases.collect())
    });
    let own = share(&keys.collect::<Vec<_>>(), shard);
    own.into_iter().map(|number| &rows[number]).collect()
}

/// Returns the numbers of the rows of one share, given the key of each row and the keys of all
/// its bases. Of rows with the same key, only the first is used. Rows that are connected by
/// bases are in the same share, so that no share waits for another; such groups are assigned
/// alternately. Together, the shares contain every key once.
#[must_use]
pub fn share(rows: &[(&str, Vec<&str>)], share: PlanShare) -> Vec<usize> {
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    for (number, (key, _)) in rows.iter().enumerate() {
        numbers.entry(key).or_insert(number);
    }
    let is_first = |number: &usize| numbers.get(rows[*number].0) == Some(number);
    let unique = || (0..rows.len()).filter(is_first);
    // For each row, the number of an earlier row of its group; for the first row, its own.
    let mut earlier: Vec<usize> = (0..rows.len()).collect();
    for number in unique() {
        for base in &rows[number].1 {
            if let Some(&base) = numbers.get(base) {
                let (one, other) = (first(&mut earlier, number), first(&mut earlier, base));
                earlier[one.max(other)] = one.min(other);
            }
        }
    }
    let mut groups = HashMap::new();
    let mut own = Vec::new();
    for number in unique() {
        let count = groups.len();
        let group = *groups.entry(first(&mut earlier, number)).or_insert(count);
        if group % share.count.max(1) == share.index {
            own.push(number);
        }
    }
    own
}

/// Returns the first row of a row's group, and shortens the way to it.
fn first(earlier: &mut [usize], mut number: usize) -> usize {
    while earlier[number] != number {
        earlier[number] = earlier[earlier[number]];
        number = earlier[number];
    }
    number
}

/// A file to pack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Row {
    /// The repository, such as `OWNER/NAME`.
    pub repo: String,
    /// The commit from which the file is read.
    pub revision: String,
    /// Path of the file in the repository.
    pub path: String,
    /// Length of the file in bytes.
    #[serde(rename = "size")]
    pub len_bytes: u64,
    /// SHA-256 of the file, in lower-case hex.
    pub sha256: String,
    /// [`key`] of the result. It is computed from the SHA-256 if the plan has none.
    #[serde(default)]
    pub key: String,
    /// The packed files that a delta needs. Empty if the row itself is packed into a
    /// container.
    #[serde(default, skip_serializing_if = "Bases::is_empty")]
    pub bases: Bases,
    /// Length of the largest tensor in bytes, if the plan states it. The Python job
    /// reserves memory according to it.
    #[serde(
        default,
        rename = "largest_tensor",
        skip_serializing_if = "Option::is_none"
    )]
    pub largest_tensor_bytes: Option<u64>,
    /// The version of the file when it was listed, such as an ETag. A later plan reuses
    /// the SHA-256 of a file with the same version.
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
            key: key((path, sha256), options),
            bases: Bases::default(),
            largest_tensor_bytes: None,
            version: None,
        }
    }

    /// Returns `OWNER/NAME/PATH`, which names the file in messages.
    pub(crate) fn place(&self) -> String {
        format!("{}/{}", self.repo, self.path)
    }

    /// Returns the name of the packed file: `KEY.zstn`, or `KEY.z4dm` for a delta.
    #[must_use]
    pub fn packed_name(&self) -> String {
        packed_name(&self.key, !self.bases.is_empty())
    }

    /// Returns the packed file of this row as a base of other rows.
    #[must_use]
    pub fn to_base(&self) -> Base {
        Base::new(&self.key, self.bases.clone())
    }
}

pub(super) fn packed_name(key: &str, is_difference: bool) -> String {
    match is_difference {
        true => format!("{key}.z4dm"),
        false => format!("{key}.zstn"),
    }
}

/// The version of the packer's output, which is the package version. It is part of
/// every key, so that results of another version are not reused.
pub const FORMAT: &str = concat!("zstn-", env!("CARGO_PKG_VERSION"));

/// Returns the key for a file with this path and this SHA-256 (in lower-case hex) that is
/// packed into a container. A key has 64 hex digits.
///
/// Equal files share a key regardless of their paths, with two exceptions: the extension
/// decides whether a file may be a safetensors file or has to be one of another format, and
/// formats without a magic number are recognised by theirs.
#[must_use]
pub fn key((path, sha256): (&str, &str), options: impl Into<EncodeOptions>) -> String {
    key_against((path, sha256), options, &Bases::default())
}

/// Returns the key for a file that is stored as a delta from `bases`.
#[must_use]
pub fn key_against(
    (path, sha256): (&str, &str),
    options: impl Into<EncodeOptions>,
    bases: &Bases,
) -> String {
    let options = options.into();
    let effort = format!("{:?}", options.effort).to_lowercase();
    let extended = if options.is_extended() {
        " extended"
    } else {
        ""
    };
    let mut text = format!("{sha256}\n{FORMAT}\n{effort}{extended}\n");
    if has_other_extension(path) {
        let format = format_of_extension(path).map_or("other", FileKind::name);
        text.push_str(&format!("format {format}\n"));
    }
    for item in Vec::<Value>::from(bases.clone()) {
        let base = match item {
            Value::String(key) => key,
            source => source.to_string(),
        };
        text.push_str(&format!("base {base}\n"));
    }
    hex_digest(text.as_bytes())
}

/// Returns the SHA-256 of bytes in lower-case hex.
pub(crate) fn hex_digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns whether a text is a SHA-256 or a key in lower-case hex.
pub(crate) fn is_digest(text: &str) -> bool {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == 64 && text.bytes().all(is_hex)
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
            let part = shard(&rows, PlanShare { index, count: 3 });
            assert!((2..=3).contains(&part.len()));
            all.extend(part.iter().map(|row| row.key.clone()));
        }
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 7);
    }

    #[test]
    fn equal_contents_share_a_key() {
        let key = |path| key((path, &"0".repeat(64)), Effort::Balanced);
        assert_eq!(key("a.pt"), key("b/pytorch_model.bin"));
        assert_eq!(key("a.pt"), key("A.PT"));
        assert_eq!(key("a.safetensors"), key("b.SAFETENSORS"));
        // Packing recognises these by their extensions, or refuses one of them.
        let all = ["a.safetensors", "a.pt", "a.onnx", "a.msgpack"].map(key);
        assert_eq!(HashSet::from(all).len(), 4);
    }

    #[test]
    fn rows_with_bases_have_keys_and_names_of_their_own() {
        let base = "b".repeat(64);
        let with_base = line(0).replace("\"size\"", &format!("\"bases\":[\"{base}\"],\"size\""));
        let rows = read(&format!("{}\n{with_base}\n", line(0))).unwrap();
        assert_ne!(rows[0].key, rows[1].key);
        assert_eq!(rows[0].packed_name(), format!("{}.zstn", rows[0].key));
        assert_eq!(rows[1].packed_name(), format!("{}.z4dm", rows[1].key));
        let [base_of_row] = rows[1].bases.nearest() else {
            panic!("one base");
        };
        assert_eq!(base_of_row.packed_name(), format!("{base}.zstn"));
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
        let share = |index| shard(&rows, PlanShare { index, count: 2 });
        // Seven rows without a base are split into four and three. All deltas are in
        // the share of their base, the fourth of these rows.
        assert_eq!([share(0).len(), share(1).len()], [4, 3 + 7]);
        assert!(share(1).iter().any(|row| row.key == *base));
        assert!(share(0).iter().all(|row| row.bases.is_empty()));
        // A merge joins the groups of its sources.
        let sources = format!("\"bases\":[[\"{base}\"],[\"{}\"]],\"size\"", rows[0].key);
        let text = text + &line(6).replace("\"size\"", &sources);
        let rows = read(&text).unwrap();
        let share = |index| shard(&rows, PlanShare { index, count: 2 });
        assert_eq!([share(0).len(), share(1).len()], [3 + 9, 3]);
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
            &line(1).replace(
                "\"size\"",
                &format!("\"bases\":{},\"size\"", "[".repeat(9_000)),
            ),
        ] {
            let error = read(&format!("{}\n{wrong}\n", line(0))).unwrap_err();
            assert!(error.to_string().contains("line 2: "), "{error}");
        }
        for shard in ["", "1", "1/1", "-1/2", "a/b", "0/0"] {
            assert!(shard.parse::<PlanShare>().is_err(), "{shard}");
        }
    }
}
