//! The ways in which the native library reads from a server. A new source gets
//! all cases of the table by a line here.

use zstn::source::{HttpOptions, Location};
use zstn::{Effort, Engine, PackOptions, Reader, Result, Sink};
use zstn_core::container::zstn::pack;
use zstn_core::pure::Pure;
use zstn_tests::faults::model::{ROW_BYTES, ROWS, tensor};
use zstn_tests::faults::{Kind, Operation};

/// One way of reading.
pub(super) struct Surface {
    pub(super) name: &'static str,
    /// Which cells concern it.
    pub(super) operations: &'static [Operation],
    /// The kinds of file that it reads.
    pub(super) kinds: &'static [Kind],
    /// Reads from an address.
    pub(super) read: fn(&str, &HttpOptions) -> Result<Vec<u8>>,
    /// True if it downloads a file whose server does not answer ranges as it
    /// should: an error of the table may then be another one, or the right bytes.
    pub(super) has_another_way: bool,
    /// Returns the right result, out of a plain file and the file as it is served.
    pub(super) truth: fn(plain: &[u8], served: &[u8]) -> Vec<u8>,
}

const ALL: &[Kind] = &[Kind::Safetensors, Kind::Zstn];
const DOWNLOAD: &[Operation] = &[Operation::Resumable, Operation::Plain];

pub(super) const SURFACES: &[Surface] = &[
    Surface {
        name: "read",
        operations: &[Operation::Read],
        kinds: ALL,
        read: |url, options| Ok(open(url, options)?.read("y")?.bytes),
        has_another_way: false,
        truth: |plain, _| tensor(plain, "y").to_vec(),
    },
    Surface {
        name: "read rows",
        operations: &[Operation::Read],
        kinds: ALL,
        read: |url, options| Ok(open(url, options)?.read_rows("y", ROWS)?.bytes),
        has_another_way: false,
        truth: |plain, _| tensor(plain, "y")[ROW_BYTES].to_vec(),
    },
    Surface {
        name: "pack as it arrives",
        operations: &[Operation::Read],
        kinds: &[Kind::Safetensors],
        read: |url, options| {
            let engine = Engine::new(1)?;
            let options = PackOptions::default()
                .effort(Effort::Fast)
                .http(options.clone());
            let mut packed = Vec::new();
            let sink = Sink::writer(&mut packed);
            zstn::pack(&engine, Location::url(url), sink, &options)?;
            Ok(packed)
        },
        has_another_way: true,
        truth: |plain, _| pack(&Pure, plain, Effort::Fast).expect("packed"),
    },
    Surface {
        name: "download",
        operations: DOWNLOAD,
        kinds: ALL,
        read: |url, options| {
            let copy = Location::url(url).fetch(options, &|_, _| ())?;
            Ok(copy.read_all()?.into_owned())
        },
        has_another_way: false,
        truth: |_, served| served.to_vec(),
    },
];

fn open(url: &str, options: &HttpOptions) -> Result<Reader> {
    Reader::options()
        .http(options.clone())
        .open(Location::url(url))
}
