//! Reads some rows of a tensor over HTTP, and shows how little was downloaded:
//! `cargo run --features http --example read_rows -- https://…/model.zstn TENSOR`.

use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use zstn::source::{HttpObserver, HttpOptions, HttpRequest};
use zstn::{Error, Location, Reader};

/// Adds up the bytes of all answers.
#[derive(Default)]
struct Received(AtomicU64);

impl HttpObserver for Received {
    fn request(&self, request: &HttpRequest) {
        self.0.fetch_add(request.received_bytes, Relaxed);
    }
}

fn main() -> zstn::Result<()> {
    let mut arguments = env::args().skip(1);
    let (Some(url), Some(name)) = (arguments.next(), arguments.next()) else {
        return Err(Error::Usage("name an address and a tensor".into()));
    };
    let received = Arc::new(Received::default());
    let http = HttpOptions::default().observer(received.clone());

    let reader = Reader::options().http(http).open(Location::url(url))?;
    let rows = reader.read_rows(&name, 0..4)?;
    println!(
        "{name}: {} {:?}, {} bytes of values, {} bytes received",
        rows.dtype,
        rows.shape,
        rows.bytes.len(),
        received.0.load(Relaxed)
    );
    Ok(())
}
