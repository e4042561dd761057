//! The directory: the members of an archive (docs/formats/zip.md 2).

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::pytorch::cut;
use super::member::{LOCAL_LEN_BYTES, Member};
use super::{End, Packing};
use crate::bytes::Cursor;
use crate::{Error, Result, Rule, sort};

const ENTRY: [u8; 4] = *b"PK\x01\x02";

/// The length of an entry without name, extra fields and comment.
pub(super) const ENTRY_LEN_BYTES: u64 = 46;

/// The number of the extra field that holds 64-bit lengths and offsets.
const EXTRA_64: u16 = 1;

/// A field with this value is in the extra field.
const IN_EXTRA: u32 = u32::MAX;

/// The members of an archive whose names are UTF-8, in the order of the directory.
#[derive(Debug, Clone)]
pub(crate) struct Archive {
    pub members: Vec<Member>,
    by_name: BTreeMap<String, usize>,
    /// The members that have the name of an earlier one.
    repeated: BTreeMap<String, usize>,
}

fn refuse(detail: impl Into<alloc::borrow::Cow<'static, str>>) -> Error {
    Error::malformed(Rule::ZipDirectory, detail)
}

impl Archive {
    /// Parses the directory that `end` describes. Offsets in errors are relative to
    /// the start of the file.
    ///
    /// # Errors
    /// [`Rule::ZipDirectory`] if the bytes are not the stated number of entries, and
    /// [`Rule::ZipMember`] if members overlap or lie outside the archive.
    pub(crate) fn parse(directory: &[u8], end: &End) -> Result<Self> {
        let mut cursor = Cursor::new(directory);
        let mut members = Vec::new();
        for _ in 0..end.count {
            let at = end.directory.start + cursor.position() as u64;
            members.push(entry(&mut cursor, end).map_err(|error| match error.rule() {
                Some(Rule::Truncated) => refuse("an entry does not lie in the directory").at(at),
                _ => error.at(at),
            })?);
        }
        if cursor.remaining() != 0 {
            let at = end.directory.start + cursor.position() as u64;
            return Err(refuse("the directory has more members than it states").at(at));
        }
        set_ends(&mut members, end)?;
        let members: Vec<Member> = members
            .into_iter()
            .filter_map(|(member, is_text)| is_text.then_some(member))
            .collect();
        let mut by_name = BTreeMap::new();
        let mut repeated = BTreeMap::new();
        for (number, member) in members.iter().enumerate() {
            if by_name.contains_key(&member.name) {
                repeated.insert(member.name.clone(), number);
            } else {
                by_name.insert(member.name.clone(), number);
            }
        }
        Ok(Self {
            members,
            by_name,
            repeated,
        })
    }

    /// Returns the number of the member called `name`, or `None` if there is none.
    ///
    /// # Errors
    /// [`Rule::ZipName`] if several members have this name, since programs differ in
    /// which of them they read; [`Rule::ZipEncrypted`] if the member is encrypted.
    pub(crate) fn find(&self, name: &str) -> Result<Option<usize>> {
        if let Some(member) = self.repeated.get(name).and_then(|&n| self.members.get(n)) {
            let name = cut(name);
            let detail = format!("the zip archive has two members called `{name}`");
            return Err(Error::malformed(Rule::ZipName, detail).at(member.local));
        }
        let number = self.by_name.get(name).copied();
        let member = number.and_then(|number| self.members.get(number));
        if let Some(member) = member.filter(|member| member.is_encrypted) {
            let name = cut(name);
            let detail = format!("the member `{name}` is encrypted. Decrypt the archive first");
            return Err(Error::malformed(Rule::ZipEncrypted, detail).at(member.local));
        }
        Ok(number)
    }
}

/// Parses an entry, and returns with it whether its name is UTF-8.
fn entry(cursor: &mut Cursor, end: &End) -> Result<(Member, bool)> {
    if cursor.array::<4>("the signature")? != ENTRY {
        return Err(refuse("an entry of the directory has another signature"));
    }
    cursor.take(4, "versions")?;
    let flags = cursor.u16("the flags")?;
    let method = cursor.u16("the method")?;
    cursor.take(4, "the time")?;
    let crc = cursor.u32("the checksum")?;
    let stored_len = cursor.u32("the stored length")?;
    let len = cursor.u32("the length")?;
    let name_len = cursor.u16("the length of the name")?;
    let extra_len = cursor.u16("the length of the extra fields")?;
    let comment_len = cursor.u16("the length of the comment")?;
    let disk = cursor.u16("the disk")?;
    cursor.take(6, "attributes")?;
    let local = cursor.u32("the offset")?;
    let name = cursor.take(name_len.into(), "the name")?;
    let extra = cursor.take(extra_len.into(), "the extra fields")?;
    cursor.take(comment_len.into(), "the comment")?;

    let mut wide = extra_64(extra);
    let mut field = |narrow: u32| match narrow {
        IN_EXTRA => {
            let missing = |_| refuse("an entry has no 64-bit field where it refers to one");
            wide.u64("a field").map_err(missing)
        }
        narrow => Ok(u64::from(narrow)),
    };
    let (len_bytes, stored_len_bytes, offset) = (field(len)?, field(stored_len)?, field(local)?);
    if disk != 0 && disk != u16::MAX {
        return Err(refuse("a member is in another file of the archive"));
    }
    let local = offset.checked_add(end.base);
    let local = local.ok_or_else(|| refuse("the offset of a member is too large"))?;
    let text = core::str::from_utf8(name);
    let packing = match method {
        0 if len_bytes == stored_len_bytes => Ok(Packing::stored(len_bytes, crc)),
        0 => Err(Error::malformed(
            Rule::ZipMember,
            "a member without compression has two different lengths",
        )),
        8 => Packing::deflated(stored_len_bytes, len_bytes, crc),
        other => Err(Error::malformed(
            Rule::ZipMethod,
            format!(
                "a member is compressed with method {other}; only deflate is supported. Save the \
                 file again without compression"
            ),
        )),
    };
    let member = Member {
        name: text.unwrap_or_default().into(),
        name_len_bytes: name_len.into(),
        method,
        is_encrypted: flags & 1 != 0,
        has_descriptor: flags & 8 != 0,
        packing,
        crc,
        stored_len_bytes,
        len_bytes,
        local,
        end: 0,
    };
    Ok((member, text.is_ok()))
}

/// Returns the fields of 64 bits among the extra fields of an entry.
fn extra_64(extra: &[u8]) -> Cursor<'_> {
    let mut cursor = Cursor::new(extra);
    while let (Ok(id), Ok(len)) = (cursor.u16("a number"), cursor.u16("a length")) {
        match cursor.take(len.into(), "a field") {
            Ok(field) if id == EXTRA_64 => return Cursor::new(field),
            Ok(_) => {}
            Err(_) => break,
        }
    }
    Cursor::new(&[])
}

/// Sets the end of each member: the offset of the next local header, or of the
/// directory.
fn set_ends(members: &mut [(Member, bool)], end: &End) -> Result<()> {
    let locals = members.iter().map(|(member, _)| (member.local, 0));
    let mut next = end.directory.start;
    for number in sort::by_key(locals).into_iter().rev() {
        let Some((member, _)) = members.get_mut(number) else {
            continue;
        };
        let len_bytes = LOCAL_LEN_BYTES + member.name_len_bytes;
        let last = member.local.checked_add(len_bytes);
        let last = last.and_then(|last| last.checked_add(member.stored_len_bytes));
        if last.is_none_or(|last| last > next) {
            let detail = format!(
                "the member `{}` reaches beyond the next one, or the directory",
                cut(&member.name)
            );
            return Err(Error::malformed(Rule::ZipMember, detail).at(member.local));
        }
        member.end = next;
        next = member.local;
    }
    Ok(())
}
