//! Serves a folder: packed files as they are, and the safetensors files that they
//! restore: `cargo run --example serve_folder -- models/`.

use std::env;
use std::path::PathBuf;

use zstn_serve::Server;

fn main() -> zstn::Result<()> {
    let folder = env::args_os().nth(1).map_or(".".into(), PathBuf::from);
    let server = Server::bind(&folder, ([127, 0, 0, 1], 8080).into())?;
    println!("serving {} at {}", folder.display(), server.url());
    // A program that handles signals calls `stop` on `server.handle()` to end this.
    server.run(|served| println!("{served}"))
}
