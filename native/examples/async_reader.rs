//! Reads all tensors of a model without blocking a thread, several at the same time:
//! `cargo run --features http --example async_reader -- https://…/model.zstn`.

use std::env;

use futures_util::TryStreamExt;
use zstn::{AsyncReader, Error, Location};

fn main() -> zstn::Result<()> {
    let Some(url) = env::args().nth(1) else {
        return Err(Error::Usage("name the address of a model".into()));
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.map_err(|error| Error::io("start a runtime", error))?;
    runtime.block_on(async {
        let reader = AsyncReader::open(Location::url(url)).await?;
        let names: Vec<_> = reader.names().map(str::to_owned).collect();
        let mut tensors = reader.stream(names);
        while let Some(tensor) = tensors.try_next().await? {
            println!("{} {} {:?}", tensor.name, tensor.dtype, tensor.shape);
        }
        Ok(())
    })
}
