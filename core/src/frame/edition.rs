//! The two editions of zstn containers (docs/formats/extensions.md 1): one that
//! z4ai also reads, and one with extension frames.

use alloc::format;

use serde::{Deserialize, Serialize};

use super::{Families, Family};
use crate::bytes::Cursor;
use crate::{Error, Result, Rule};

/// The set of frame families that a container may use. The version field of the
/// container identifies its edition. The discriminants match the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum Edition {
    /// Plain containers use only the frame families that every reader supports,
    /// including z4ai.
    #[default]
    Plain,
    /// Extended containers may also use extension frames, which only zstn
    /// supports.
    Extended,
}

impl Edition {
    /// Returns the edition that a container needs in order to hold this frame.
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

    /// Reads the version of a file of type `what`. `versions` are the version
    /// numbers of the plain and of the extended edition. Any other number is a
    /// violation of `rule`; so is the number of the extended edition in a build
    /// without extensions.
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
