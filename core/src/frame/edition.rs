//! The two editions of our containers (docs/formats/extensions.md 1): the one
//! that z4ai reads as well, and the one with extension frames.

use alloc::format;

use serde::{Deserialize, Serialize};

use super::{Families, Family};
use crate::bytes::Cursor;
use crate::{Error, Result, Rule};

/// What the frames of a container may be. Its version says which edition it is;
/// the numbers are those of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum Edition {
    /// Frames that every reader knows, z4ai among them.
    #[default]
    Plain,
    /// Extension frames as well, which only zstn knows.
    Extended,
}

impl Edition {
    /// Returns the edition that a file needs because of this frame.
    #[must_use]
    pub fn of_frame(frame: &[u8]) -> Self {
        match Family::recognise(frame) {
            Some(family) if Families::CONTAINER.contains(family) => Self::Plain,
            Some(family) if Families::EXTENDED.contains(family) => Self::Extended,
            _ => Self::Plain,
        }
    }

    /// Returns the frame families that the edition allows.
    #[must_use]
    pub fn families(self) -> Families {
        match self {
            Self::Extended if cfg!(feature = "extensions") => Families::EXTENDED,
            _ => Families::CONTAINER,
        }
    }

    /// Reads the version of a file of the kind `what`, whose editions have the
    /// numbers `versions`; any other number breaks `rule`, and so does that of an
    /// edition that this build leaves out.
    pub(crate) fn read(
        cursor: &mut Cursor,
        versions: [u8; 2],
        rule: Rule,
        what: &str,
    ) -> Result<Self> {
        let [plain, extended] = versions;
        if cfg!(not(feature = "extensions")) {
            return cursor
                .expect_version(plain, rule, what)
                .map(|()| Self::Plain);
        }
        let at = cursor.position() as u64;
        match cursor.u8("the version")? {
            version if version == plain => Ok(Self::Plain),
            version if version == extended => Ok(Self::Extended),
            version => {
                let detail = format!(
                    "version {version} of a {what}; this reader knows versions {plain} and \
                     {extended}"
                );
                Err(Error::malformed(rule, detail).at(at))
            }
        }
    }

    /// Returns the number of this edition among `versions`.
    pub(crate) fn number(self, [plain, extended]: [u8; 2]) -> u8 {
        match self {
            Self::Plain => plain,
            Self::Extended => extended,
        }
    }
}
