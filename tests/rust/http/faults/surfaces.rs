//! The ways in which the native library reads from a server. A new source gets
//! all cases of the table by a line here.

use zstn::source::{HttpOptions, Location, Source};
use zstn::{Reader, Result};
use zstn_tests::faults::Operation;
use zstn_tests::faults::model::{ROW_BYTES, ROWS, tensor};

/// One way of reading.
pub(super) struct Surface {
    pub(super) name: &'static str,
    /// Which cells concern it.
    pub(super) operations: &'static [Operation],
    /// Reads from an address.
    pub(super) read: fn(&str, &HttpOptions) -> Result<Vec<u8>>,
    /// Returns the right result, out of a plain file and the file as it is served.
    pub(super) truth: fn(plain: &[u8], served: &[u8]) -> Vec<u8>,
}

const DOWNLOAD: &[Operation] = &[Operation::Resumable, Operation::Plain];

pub(super) const SURFACES: &[Surface] = &[
    Surface {
        name: "read",
        operations: &[Operation::Read],
        read: |url, options| Ok(open(url, options)?.read("y")?.bytes),
        truth: |plain, _| tensor(plain, "y").to_vec(),
    },
    Surface {
        name: "read rows",
        operations: &[Operation::Read],
        read: |url, options| Ok(open(url, options)?.read_rows("y", ROWS)?.bytes),
        truth: |plain, _| tensor(plain, "y")[ROW_BYTES].to_vec(),
    },
    Surface {
        name: "download",
        operations: DOWNLOAD,
        read: |url, options| {
            let map = Location::url(url).map(options, &|_, _| ())?;
            Ok(map.read(0..map.len_bytes())?.into_owned())
        },
        truth: |_, served| served.to_vec(),
    },
];

fn open(url: &str, options: &HttpOptions) -> Result<Reader> {
    Reader::options()
        .http(options.clone())
        .open(Location::url(url))
}
