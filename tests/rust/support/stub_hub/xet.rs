//! Files uploaded by Xet. Clients write them directly to the folder of a local store
//! (`local:///DIR`), without the hub.
//!
//! A shard lists the SHA-256 of a file and the chunks of xorbs that form its contents.
//! A xorb is a sequence of chunks, each preceded by an 8-byte header.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use lz4_flex::frame::FrameDecoder;
use serde_json::json;

use super::Hub;
use super::http::{Answer, Refusal, json_response, set};
use super::repository::{RepoId, Visitor};
use super::repository_requests::find;
use super::storage::hex;
use crate::lock;

/// Length in bytes of a shard's header and of every record in it.
const RECORD_BYTES: usize = 48;
const HASH_BYTES: usize = 32;
/// Flag: the file has a verification record per term, which clients check.
const HAS_CHECKS: u32 = 1 << 31;
/// Flag: the file has a record with its SHA-256.
const HAS_SHA256: u32 = 1 << 30;

/// Validity of an access token.
const TOKEN: Duration = Duration::from_secs(3600);

/// A local Xet store, and a cache of its parsed shards.
#[derive(Debug)]
pub(super) struct Xet {
    folder: PathBuf,
    known: Mutex<Known>,
}

/// The parsed shards and their files.
#[derive(Debug, Default)]
struct Known {
    shards: BTreeSet<PathBuf>,
    files: BTreeMap<String, Arc<XetFile>>,
}

/// A file and the terms that form its contents.
#[derive(Debug)]
pub(super) struct XetFile {
    pub(super) hash: String,
    pub(super) len_bytes: u64,
    terms: Vec<Term>,
}

/// A run of consecutive chunks in a xorb.
#[derive(Debug)]
struct Term {
    xorb: String,
    first: u32,
    end: u32,
}

impl Xet {
    pub(super) fn new(folder: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&folder)?;
        Ok(Self {
            folder: folder.canonicalize()?,
            known: Mutex::default(),
        })
    }

    /// Returns the URL of the store, as given to clients.
    fn address(&self) -> String {
        format!("local://{}", self.folder.display())
    }

    /// Finds a file by its SHA-256.
    pub(super) fn find(&self, sha256: &str) -> Option<Arc<XetFile>> {
        let mut known = lock(&self.known);
        if !known.files.contains_key(sha256) {
            let shards = fs::read_dir(self.folder.join("xet/xorbs/shards")).ok()?;
            for shard in shards.flatten().map(|entry| entry.path()) {
                let is_shard = shard.extension().is_some_and(|ending| ending == "mdb");
                if is_shard && !known.shards.contains(&shard) {
                    let bytes = fs::read(&shard).ok()?;
                    // A shard that is still being written is read again later.
                    if let Some(files) = read_shard(&bytes) {
                        known.files.extend(files);
                        known.shards.insert(shard);
                    }
                }
            }
        }
        known.files.get(sha256).cloned()
    }

    /// Writes the contents of a file to `to`.
    pub(super) fn restore(&self, file: &XetFile, to: &mut impl Write) -> io::Result<()> {
        for term in &file.terms {
            let name = format!("xet/xorbs/xorbs/default.{}", term.xorb);
            let xorb = fs::read(self.folder.join(name))?;
            write_chunks(&xorb, term, to)?;
        }
        Ok(())
    }
}

impl Hub {
    /// Returns a large file that was uploaded by Xet.
    pub(super) fn xet_file(&self, sha256: &str) -> Option<Arc<XetFile>> {
        self.xet.as_ref()?.find(sha256)
    }

    /// Returns the path of a large file. A file uploaded by Xet is restored first.
    pub(super) fn large_file(&self, sha256: &str) -> io::Result<PathBuf> {
        let path = self.blobs.path(sha256);
        if !path.exists()
            && let Some(xet) = &self.xet
            && let Some(found) = xet.find(sha256)
        {
            let mut file = self.blobs.temporary()?;
            xet.restore(&found, &mut file)?;
            self.blobs.keep(file, sha256)?;
        }
        Ok(path)
    }

    /// Answers with the URL of the store.
    pub(super) fn xet_token(
        &self,
        visitor: Visitor,
        id: &RepoId,
        is_write: bool,
        revision: &str,
    ) -> Answer {
        let xet = self.xet.as_ref().ok_or_else(Refusal::entry_not_found)?;
        let repositories = self.repositories();
        let repository = visitor.may_see(repositories.get(id))?;
        match is_write {
            true => visitor.may_write()?,
            false => visitor.may_read(repository)?,
        }
        // A client that opens a pull request sends the revision `None`.
        if revision != "None" {
            find(repository, revision)?;
        }
        let expires = SystemTime::now() + TOKEN;
        let expires = expires.duration_since(SystemTime::UNIX_EPOCH);
        let expires = expires.unwrap_or_default().as_secs();
        let address = xet.address();
        let mut response = json_response(&json!({
            "accessToken": "xet",
            "exp": expires,
            "casUrl": address,
        }));
        set(&mut response, "x-xet-access-token", "xet");
        set(
            &mut response,
            "x-xet-token-expiration",
            &expires.to_string(),
        );
        set(&mut response, "x-xet-cas-url", &address);
        Ok(response)
    }
}

/// Returns the files of a shard, keyed by SHA-256; `None` if the shard is incomplete.
fn read_shard(bytes: &[u8]) -> Option<BTreeMap<String, Arc<XetFile>>> {
    let mut records = bytes.chunks_exact(RECORD_BYTES).skip(1);
    let mut files = BTreeMap::new();
    loop {
        let head = records.next()?;
        if head[..HASH_BYTES].iter().all(|byte| *byte == u8::MAX) {
            return Some(files);
        }
        let (flags, terms_len) = (number(head, 32), number(head, 36));
        let mut terms = Vec::new();
        let mut len_bytes = 0;
        for _ in 0..terms_len {
            let term = records.next()?;
            len_bytes += u64::from(number(term, 36));
            terms.push(Term {
                xorb: hash(term),
                first: number(term, 40),
                end: number(term, 44),
            });
        }
        if flags & HAS_CHECKS != 0 {
            for _ in 0..terms_len {
                records.next()?;
            }
        }
        if flags & HAS_SHA256 != 0 {
            let file = XetFile {
                hash: hash(head),
                len_bytes,
                terms,
            };
            files.insert(hash(records.next()?), Arc::new(file));
        }
    }
}

/// Formats a hash as clients do: four little-endian 64-bit integers in hex.
fn hash(record: &[u8]) -> String {
    let numbers = record[..HASH_BYTES].chunks_exact(8);
    let numbers = numbers.map(|number| number.iter().rev().copied().collect::<Vec<u8>>());
    numbers.map(|number| hex(&number)).collect()
}

fn number(record: &[u8], at: usize) -> u32 {
    record[at..at + 4]
        .iter()
        .rev()
        .fold(0, |value, byte| value << 8 | u32::from(*byte))
}

/// Writes the decoded chunks of a term to `to`.
fn write_chunks(xorb: &[u8], term: &Term, to: &mut impl Write) -> io::Result<()> {
    let cut = || io::Error::other(format!("the xorb {} is cut", term.xorb));
    let mut rest = xorb;
    for index in 0..term.end {
        let (head, after) = rest.split_at_checked(8).ok_or_else(cut)?;
        let [_, a, b, c, scheme, ..] = *head else {
            return Err(cut());
        };
        let len_bytes = usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16;
        let (chunk, after) = after.split_at_checked(len_bytes).ok_or_else(cut)?;
        rest = after;
        if index >= term.first {
            match scheme {
                0 => to.write_all(chunk)?,
                1 => to.write_all(&unpack(chunk)?)?,
                2 => to.write_all(&ungroup(&unpack(chunk)?))?,
                other => return Err(io::Error::other(format!("no such scheme: {other}"))),
            }
        }
    }
    Ok(())
}

fn unpack(chunk: &[u8]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    FrameDecoder::new(chunk).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Inverts the byte grouping of a chunk, which sorts bytes by position modulo 4.
fn ungroup(grouped: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; grouped.len()];
    let mut from = grouped.iter();
    for first in 0..4 {
        for (to, from) in bytes.iter_mut().skip(first).step_by(4).zip(&mut from) {
            *to = *from;
        }
    }
    bytes
}
