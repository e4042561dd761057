//! Reads a packed checkpoint from a source of your own, here one that counts its reads:
//! `cargo run --example custom_source -- model.zstn`.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use zstn::source::{FileSource, Source};
use zstn::{Error, Input, Reader};

/// Counts the bytes that are read from a file. Any storage that can return byte ranges
/// can be a source: a database, an archive, a cache in front of a network.
struct Counting {
    file: FileSource,
    read_bytes: Arc<AtomicU64>,
}

impl Source for Counting {
    fn name(&self) -> &str {
        self.file.name()
    }

    fn len_bytes(&self) -> u64 {
        self.file.len_bytes()
    }

    fn read(&self, range: Range<u64>) -> zstn::Result<Cow<'_, [u8]>> {
        self.read_bytes.fetch_add(range.end - range.start, Relaxed);
        self.file.read(range)
    }
}

fn main() -> zstn::Result<()> {
    let Some(path) = std::env::args_os().nth(1) else {
        return Err(Error::Usage("name a packed file".into()));
    };
    let read_bytes = Arc::new(AtomicU64::new(0));
    let source = Counting {
        file: FileSource::open(Path::new(&path))?,
        read_bytes: Arc::clone(&read_bytes),
    };

    let reader = Reader::open(Input::source(source))?;
    println!(
        "opened {} tensors by reading {} bytes",
        reader.tensors().len(),
        read_bytes.load(Relaxed)
    );
    for name in reader.names() {
        let tensor = reader.read(name)?;
        println!("{name}: {} {:?}", tensor.dtype, tensor.shape);
    }
    println!("read {} bytes in all", read_bytes.load(Relaxed));
    Ok(())
}
