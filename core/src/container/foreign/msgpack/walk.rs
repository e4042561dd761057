//! Finds the arrays of a file in one pass over its maps
//! (docs/formats/msgpack.md 1 and 2). Values of arrays are skipped.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::array::{ARRAY_HEAD_BYTES, Chunks, MsgpackArray};
use super::value::{HEAD_BYTES, Head};
use crate::container::foreign::names::{Names, Scope, ScopeName};
use crate::container::foreign::window::{Read, Stop, Walk, Window};
use crate::limits::{
    MSGPACK_ARRAYS, MSGPACK_DEPTH, MSGPACK_VALUES, NAME_LEN_BYTES, TEXT_LEN_BYTES,
};
use crate::{Error, Result, Rule};

/// The key that marks a map as an array in chunks. It is the first one.
const CHUNKED: &[u8] = b"__msgpack_chunked_array__";

/// An array, or the reason why it cannot be read.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub scope: usize,
    pub key: ScopeName,
    pub at: u64,
    pub array: Result<MsgpackArray>,
}

/// The meaning of a map or a list.
#[derive(Debug, Clone)]
enum Role {
    Plain {
        scope: usize,
    },
    /// An array in chunks, with its name.
    Chunked {
        scope: usize,
        key: ScopeName,
        chunks: Box<Chunks>,
    },
    /// The sizes of an array in chunks.
    Sizes,
    /// The chunks of an array.
    Chunks,
    /// A map or a list without meaning.
    Ignored,
}

/// A map or a list that the walk is inside of.
#[derive(Debug, Clone)]
struct Frame {
    role: Role,
    is_map: bool,
    /// The offset of the map or list.
    at: u64,
    /// The number of values that have been read.
    read: u64,
    /// The number of values in all.
    count: u64,
    /// The key of the next value of a map, once it has been read.
    key: Option<Vec<u8>>,
    found_before: usize,
}

/// A pass over the values of a file.
#[derive(Debug, Clone, Default)]
pub struct MsgpackWalk {
    at: u64,
    is_begun: bool,
    stack: Vec<Frame>,
    pub(super) scopes: Vec<Scope>,
    pub(super) found: Vec<Found>,
    pub(super) metadata: BTreeMap<String, String>,
    /// The number of plain values that were shown, and the length of their names and
    /// texts.
    shown: usize,
    shown_bytes: usize,
    /// The number of chunks of all arrays.
    chunk_count: usize,
}

impl Walk for MsgpackWalk {
    fn position(&self) -> u64 {
        self.at
    }

    fn walk(&mut self, window: &Window) -> Result<Option<Range<u64>>> {
        loop {
            let step = match self.stack.last() {
                Some(frame) if frame.read == frame.count => self.leave().map_err(Stop::Refused),
                Some(_) => self.step(window),
                None if self.is_begun => {
                    return match self.at == window.file_len_bytes() {
                        true => Ok(None),
                        false => {
                            let detail = "the file continues after its object";
                            Err(Error::malformed(Rule::MsgpackTrailing, detail).at(self.at))
                        }
                    };
                }
                None => self.begin(window),
            };
            match step {
                Ok(()) => {}
                Err(Stop::Needs(range)) => return Ok(Some(range)),
                Err(Stop::Refused(error)) => return Err(error.at(self.at)),
            }
        }
    }
}

impl MsgpackWalk {
    /// Reads the head of the value at the current position. The value lies
    /// inside the file.
    fn head(&self, window: &Window) -> Read<(Head, Range<u64>)> {
        let len_bytes = window.file_len_bytes();
        let end = self.at.saturating_add(HEAD_BYTES).min(len_bytes);
        let bytes = window.read(self.at, self.at..end)?;
        let (head, head_len) = Head::read(bytes).map_err(|error| error.within(self.at))?;
        let start = self.at + head_len;
        let left = len_bytes.saturating_sub(start);
        let least = match head {
            Head::List(count) => count,
            Head::Map(count) => count.saturating_mul(2),
            head => head.len_bytes(),
        };
        if least > left {
            let detail = format!(
                "a value has at least {least} bytes, and the file ends after {left}; it is cut or \
                 damaged"
            );
            return Err(Error::malformed(Rule::Truncated, detail).at(self.at).into());
        }
        Ok((head, start..start + head.len_bytes()))
    }

    fn begin(&mut self, window: &Window) -> Read<()> {
        let refuse = || {
            let detail = "the file does not begin with a map, so it has no named arrays";
            Error::malformed(Rule::MsgpackRoot, detail).at(0)
        };
        if window.file_len_bytes() == 0 {
            return Err(refuse().into());
        }
        let (Head::Map(count), place) = self.head(window)? else {
            return Err(refuse().into());
        };
        self.is_begun = true;
        self.scopes.push(Scope::root());
        self.enter(Role::Plain { scope: 0 }, true, count, place.end)?;
        Ok(())
    }

    fn enter(&mut self, role: Role, is_map: bool, count: u64, at: u64) -> Result<()> {
        if self.stack.len() >= MSGPACK_DEPTH {
            let detail = format!(
                "maps and lists are nested more than {MSGPACK_DEPTH} deep, the most that are read"
            );
            return Err(Error::malformed(Rule::MsgpackDepth, detail).at(self.at));
        }
        self.stack.push(Frame {
            role,
            is_map,
            at: self.at,
            read: 0,
            count,
            key: None,
            found_before: self.found.len(),
        });
        self.at = at;
        Ok(())
    }

    /// Reads a key or a value. The state only changes once all bytes that it
    /// requires have been read.
    fn step(&mut self, window: &Window) -> Read<()> {
        let (head, place) = self.head(window)?;
        let Some(frame) = self.stack.last() else {
            return Ok(());
        };
        if frame.is_map && frame.key.is_none() {
            let key = self.key(window, head, &place)?;
            if let Some(frame) = self.stack.last_mut() {
                frame.key = Some(key);
            }
            self.at = place.end;
            return Ok(());
        }
        let key = match &frame.key {
            Some(key) => ScopeName::Text(key.clone()),
            None => ScopeName::Number(frame.read),
        };
        match frame.role {
            Role::Plain { scope } => self.plain(window, scope, key, head, place)?,
            Role::Chunked { .. } => self.of_chunked(&key, head, place.end)?,
            Role::Sizes => self.size(&key, head, place.end)?,
            Role::Chunks => self.chunk(window, &key, head, place)?,
            Role::Ignored => self.ignored(head, place.end)?,
        }
        Ok(())
    }

    fn key(&self, window: &Window, head: Head, place: &Range<u64>) -> Read<Vec<u8>> {
        let refuse = |detail: &'static str| Error::malformed(Rule::MsgpackName, detail);
        let Head::Text(len_bytes) = head else {
            return Err(refuse("the key of a map is not a text").at(self.at).into());
        };
        if len_bytes > NAME_LEN_BYTES as u64 {
            let detail = format!("a key has more than {NAME_LEN_BYTES} bytes, the most read");
            return Err(Error::limit(detail).at(self.at).into());
        }
        let key = window.read(self.at, place.clone())?;
        match core::str::from_utf8(key) {
            Ok(_) => Ok(key.to_vec()),
            Err(_) => Err(refuse("the key of a map is not UTF-8").at(self.at).into()),
        }
    }

    /// Ends the current value of the innermost map or list.
    fn end_value(&mut self, end: u64) {
        if let Some(frame) = self.stack.last_mut() {
            frame.read += 1;
            frame.key = None;
        }
        self.at = end;
    }

    fn ignored(&mut self, head: Head, end: u64) -> Result<()> {
        match head {
            Head::Map(count) => self.enter(Role::Ignored, true, count, end),
            Head::List(count) => self.enter(Role::Ignored, false, count, end),
            _ => {
                self.end_value(end);
                Ok(())
            }
        }
    }

    fn plain(
        &mut self,
        window: &Window,
        scope: usize,
        key: ScopeName,
        head: Head,
        place: Range<u64>,
    ) -> Read<()> {
        match head {
            Head::Map(count) | Head::List(count) => {
                self.scopes.push(Scope {
                    parent: scope,
                    name: key,
                });
                let scope = self.scopes.len() - 1;
                let is_map = matches!(head, Head::Map(_));
                self.enter(Role::Plain { scope }, is_map, count, place.end)?;
            }
            Head::Extension(1 | 3, _) => {
                let array = self.array(window, &place)?;
                self.add(scope, key, array)?;
                self.end_value(place.end);
            }
            Head::Bool(true) if matches!(&key, ScopeName::Text(key) if key == CHUNKED) => {
                self.begin_chunked(scope)?;
                self.end_value(place.end);
            }
            _ => {
                let text = match head {
                    Head::Text(len) => {
                        let end = place.start + len.min(TEXT_LEN_BYTES);
                        let text = window.read(self.at, place.start..end)?;
                        Some(String::from_utf8_lossy(text).into_owned())
                    }
                    _ => head.shown(),
                };
                if let Some(text) = text {
                    self.show(scope, &key, text);
                }
                self.end_value(place.end);
            }
        }
        Ok(())
    }

    /// Makes the current map an array in chunks.
    fn begin_chunked(&mut self, scope: usize) -> Result<()> {
        let refuse = |detail: &'static str| Error::malformed(Rule::MsgpackChunks, detail);
        let depth = self.stack.len();
        let Some(frame) = self.stack.last_mut() else {
            return Ok(());
        };
        if frame.read > 0 || depth < 2 {
            let detail = "the mark of an array in chunks is not the first key of a map in a map";
            return Err(refuse(detail).at(self.at));
        }
        let Some(Scope { parent, name }) = self.scopes.pop() else {
            return Ok(());
        };
        debug_assert_eq!(scope, self.scopes.len());
        frame.role = Role::Chunked {
            scope: parent,
            key: name,
            chunks: Box::default(),
        };
        Ok(())
    }

    /// Reads a value of an array in chunks.
    fn of_chunked(&mut self, key: &ScopeName, head: Head, end: u64) -> Result<()> {
        let role = match key {
            ScopeName::Text(key) if key == b"shape" => Role::Sizes,
            ScopeName::Text(key) if key == b"chunks" => Role::Chunks,
            _ => Role::Ignored,
        };
        match head {
            Head::Map(count) => self.enter(role, true, count, end),
            Head::List(count) => self.enter(role, false, count, end),
            _ => {
                self.end_value(end);
                Ok(())
            }
        }
    }

    /// Returns the array in chunks that contains the current map or list.
    fn chunks(&mut self) -> Option<&mut Chunks> {
        let around = self.stack.len().checked_sub(2)?;
        match &mut self.stack.get_mut(around)?.role {
            Role::Chunked { chunks, .. } => Some(chunks),
            _ => None,
        }
    }

    fn size(&mut self, key: &ScopeName, head: Head, end: u64) -> Result<()> {
        let entry = number(key).zip(head.as_size());
        let at = self.at;
        if let Some(chunks) = self.chunks() {
            match entry {
                Some((number, size)) if !chunks.shape.contains_key(&number) => {
                    chunks.shape.insert(number, size);
                }
                _ => chunks.refuse(wrong_part("the shape").at(at)),
            }
        }
        self.ignored(head, end)
    }

    fn chunk(
        &mut self,
        window: &Window,
        key: &ScopeName,
        head: Head,
        place: Range<u64>,
    ) -> Read<()> {
        let array = match head {
            Head::Extension(1, _) => Some(self.array(window, &place)?),
            _ => None,
        };
        let at = self.at;
        self.chunk_count += 1;
        if self.chunk_count > MSGPACK_ARRAYS {
            let detail = format!("the file has more than {MSGPACK_ARRAYS} chunks, the most read");
            return Err(Error::limit(detail).at(at).into());
        }
        if let Some(chunks) = self.chunks() {
            match (number(key), array) {
                (Some(number), Some(Ok(array))) if !chunks.arrays.contains_key(&number) => {
                    chunks.arrays.insert(number, array);
                }
                (_, Some(Err(error))) => chunks.refuse(error),
                _ => chunks.refuse(wrong_part("the list of chunks").at(at)),
            }
        }
        Ok(self.ignored(head, place.end)?)
    }

    fn array(&self, window: &Window, place: &Range<u64>) -> Read<Result<MsgpackArray>> {
        let end = place.end.min(place.start.saturating_add(ARRAY_HEAD_BYTES));
        let head = window.read(self.at, place.start..end)?;
        let parsed = MsgpackArray::parse(head, place);
        Ok(parsed.map_err(|error| error.within(place.start).at(self.at)))
    }

    fn add(&mut self, scope: usize, key: ScopeName, array: Result<MsgpackArray>) -> Result<()> {
        if self.found.len() >= MSGPACK_ARRAYS {
            let detail = format!("the file has more than {MSGPACK_ARRAYS} arrays, the most listed");
            return Err(Error::limit(detail).at(self.at));
        }
        self.found.push(Found {
            scope,
            key,
            at: self.at,
            array,
        });
        Ok(())
    }

    /// Adds a plain value to the metadata, unless these are too many.
    fn show(&mut self, scope: usize, key: &ScopeName, text: String) {
        if self.shown >= MSGPACK_VALUES {
            return;
        }
        self.shown += 1;
        let names = Names::new(&self.scopes, Rule::MsgpackName);
        let mut names = names.after(self.shown_bytes);
        let name = names.join(scope, Some(key), self.at);
        self.shown_bytes = names.len_bytes().saturating_add(text.len());
        if let Ok(name) = name {
            self.metadata.insert(name, text);
        }
    }

    /// Ends the innermost map or list.
    fn leave(&mut self) -> Result<()> {
        let Some(frame) = self.stack.pop() else {
            return Ok(());
        };
        match frame.role {
            Role::Plain { scope } => {
                // Names without arrays are not needed.
                if self.found.len() == frame.found_before && scope > 0 {
                    self.scopes.truncate(scope);
                }
            }
            Role::Chunked { scope, key, chunks } => {
                let array = chunks.join().map_err(|error| error.at(frame.at));
                self.add(scope, key, array)?;
            }
            Role::Sizes | Role::Chunks | Role::Ignored => {}
        }
        self.end_value(self.at);
        Ok(())
    }
}

fn wrong_part(place: &'static str) -> Error {
    let detail = format!("{place} of an array in chunks has a wrong entry");
    Error::malformed(Rule::MsgpackChunks, Cow::Owned(detail))
}

/// Returns the number that a key of a list is.
fn number(key: &ScopeName) -> Option<u64> {
    match key {
        ScopeName::Root => None,
        ScopeName::Number(number) => Some(*number),
        ScopeName::Text(text) => {
            let text = core::str::from_utf8(text).ok()?;
            let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
            is_plain.then(|| text.parse().ok()).flatten()
        }
    }
}
