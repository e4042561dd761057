//! The groups of a file, each of which is read once, and the objects that symbolic
//! links lead to (docs/formats/hdf5.md 3).

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;

use super::file::File;
use super::group::{Members, MembersLeft, Target};
use super::header::Header;
use crate::Error;
use crate::container::foreign::random_access::Read;
use crate::limits::{HDF5_LINKS, HDF5_TARGETS_LEN_BYTES};

/// The groups that have been read so far.
pub(super) struct Groups {
    root: u64,
    /// The members of groups, by the offset of the group's header.
    known: BTreeMap<u64, Rc<Members>>,
    left: MembersLeft,
    /// The total length in bytes of the targets that may still be followed.
    targets_bytes: usize,
}

impl Groups {
    /// Returns no groups yet, of a file with the header of the root group at `root`.
    pub fn new(root: u64) -> Self {
        Self {
            root,
            known: BTreeMap::new(),
            left: MembersLeft::ALL,
            targets_bytes: HDF5_TARGETS_LEN_BYTES,
        }
    }

    /// Returns the members of the object with this header; `None` if it is no group.
    pub fn members(&mut self, file: &mut File, header: &Header) -> Read<Option<Rc<Members>>> {
        if let Some(known) = self.known.get(&header.at) {
            return Ok(Some(known.clone()));
        }
        let members = Members::of(file, header, &mut self.left)?.map(Rc::new);
        if let Some(members) = &members {
            self.known.insert(header.at, members.clone());
        }
        Ok(members)
    }

    /// Returns the offset of the header of the object that a symbolic link in the group
    /// at `group` leads to. `links_left` is the number of links that may be followed.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) if it leads to no object of the
    /// file, or through too many links.
    pub fn follow(
        &mut self,
        file: &mut File,
        group: u64,
        target: &[u8],
        links_left: &mut usize,
    ) -> Read<u64> {
        let Some(fewer) = links_left.checked_sub(1) else {
            let detail = format!(
                "it is a symbolic link that leads to itself, or through more than {HDF5_LINKS} \
                 links"
            );
            return Err(Error::unsupported(detail).at(group).into());
        };
        *links_left = fewer;
        let bytes_left = self.targets_bytes.checked_sub(target.len());
        self.targets_bytes = bytes_left.ok_or_else(|| {
            let detail = "the targets of the symbolic links of the file are too long";
            Error::limit(detail).at(group)
        })?;
        let mut at = match target.starts_with(b"/") {
            true => self.root,
            false => group,
        };
        let names = target.split(|byte| *byte == b'/');
        for name in names.filter(|name| !matches!(*name, b"" | b".")) {
            let members = match self.known.get(&at) {
                Some(known) => Some(known.clone()),
                None => {
                    let header = Header::read(file, at)?;
                    self.members(file, &header)?
                }
            };
            let next = members.as_ref().and_then(|members| members.find(name));
            at = match next {
                Some(Target::Header(at)) => *at,
                Some(Target::Path(path)) => self.follow(file, at, path, links_left)?,
                Some(Target::Link(reason)) => {
                    let detail = format!("it is a symbolic link to a link: {reason}");
                    return Err(Error::unsupported(detail).at(group).into());
                }
                None => {
                    let detail = "it is a symbolic link to an object that is not in the file";
                    return Err(Error::unsupported(detail).at(group).into());
                }
            };
        }
        Ok(at)
    }
}
