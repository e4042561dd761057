//! The read operations of the native library that the fault table covers. Adding a
//! surface here runs all cases of the table with it.

use zstn::source::{HttpOptions, Location};
use zstn::{Effort, Engine, Job, PackOptions, Reader, Result, Sink};
use zstn_core::container::zstn::pack;
use zstn_core::pure::Pure;
use zstn_tests::faults::model::{ROW_BYTES, ROWS, tensor};
use zstn_tests::faults::{Kind, Operation};

/// A way to read from a server.
pub(super) struct Surface {
    pub(super) name: &'static str,
    /// The operations that this surface performs.
    pub(super) operations: &'static [Operation],
    /// The formats of the files that it reads.
    pub(super) kinds: &'static [Kind],
    /// Reads from a URL.
    pub(super) read: fn(&str, &HttpOptions) -> Result<Vec<u8>>,
    /// True if the surface falls back to downloading the whole file when a server does
    /// not answer ranges correctly. Cells that expect an error may then have another
    /// error or the correct bytes.
    pub(super) has_another_way: bool,
    /// Computes the correct result from the plain file and the served file.
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
            let job = Job::new().engine(&Engine::new(1)?).http(options.clone());
            let options = PackOptions::default().effort(Effort::Fast);
            let mut packed = Vec::new();
            let sink = Sink::writer(&mut packed);
            zstn::pack(&job, Location::url(url), sink, &options)?;
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
