//! The output of the command line: lists of any length, names with any characters,
//! bytes and summaries, printed to terminals, files and closed pipes.

mod get;
mod ls;
mod pipes;
mod select;
mod servers;
mod several;
mod shells;
#[cfg(unix)]
mod stop;
mod text;
mod vocabulary;

/// Returns a safetensors file of tensors without elements.
fn without_elements<'a>(names: impl Iterator<Item = &'a str>) -> Vec<u8> {
    let entry = r#"{"dtype":"U8","shape":[0],"data_offsets":[0,0]}"#;
    let entries = names.map(|name| format!("{}:{entry}", serde_json::Value::from(name)));
    let header = format!("{{{}}}", entries.collect::<Vec<_>>().join(","));
    [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat()
}
