//! Embeds the gateway, so that a hub's packed files appear as the safetensors files that
//! they restore: `cargo run --features gateway --example gateway -- https://huggingface.co`.
//! Then: `HF_ENDPOINT=http://127.0.0.1:8080 hf download OWNER/NAME`.

use std::env;

use zstn::source::HttpOptions;
use zstn::{Error, Location};
use zstn_hub::gateway::Gateway;

fn main() -> zstn::Result<()> {
    let Some(upstream) = env::args().nth(1) else {
        return Err(Error::Usage(
            "name a hub or a folder of repositories".into(),
        ));
    };
    let upstream = match Location::is_url(&upstream) {
        true => Location::url(upstream),
        false => Location::from(upstream.as_str()),
    };
    let address = ([127, 0, 0, 1], 8080).into();
    let gateway = Gateway::bind(&upstream, address, &HttpOptions::default())?;
    println!("export HF_ENDPOINT={}", gateway.url().trim_end_matches('/'));
    gateway.run(|served| println!("{served}"))
}
